"""F9: the persistent batch between steps."""

from dataclasses import replace
from typing import Any

from aliquot.conformance.faults.fault import Fault, Faulty, with_params
from aliquot.contract.batch import Batch, BatchUpdate, LogprobsMode, MoveDirectionality, Request
from aliquot.contract.output import SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.oracle.penalties import penalises


class SwapAlias(Faulty):
    """Swaps two rows through views, so that both end as the second."""

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """A swap copies b over a."""
        moved = [] if update is None else list(update.moved)
        swaps = [(b, a, how) for a, b, how in moved if how is MoveDirectionality.SWAP]
        before = dict(self.rows)
        output = super().step(logits, update)
        for b, a, _ in swaps:
            if b in before and a in self.rows:
                self.rows[b] = self.rows[a]
        return output


class CopiedOutput(Faulty):
    """Copies the output ids when a request is added and never sees later ones."""

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Added requests get a list of their own."""
        if update is not None:
            added = [(r, params, prompt, list(out)) for r, params, prompt, out in update.added]
            update = replace(update, added=added)
        return super().step(logits, update)


class CondenseLeak(Faulty):
    """Leaves an allow-list behind in the row that a request moved out of."""

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin without leftovers."""
        super().start(vocab_size, mode)
        self.left: dict[int, Any] = {}

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """A request added without a list inherits the one left in its row."""
        if update is not None:
            for a, _, how in update.moved:
                if how is MoveDirectionality.UNIDIRECTIONAL and a in self.rows:
                    self.left[a] = self.rows[a].params.allowed_token_ids
            added = [(r, self._inherit(r, p), prompt, out) for r, p, prompt, out in update.added]
            update = replace(update, added=added)
        return super().step(logits, update)

    def _inherit(self, r: int, params: SamplingParams) -> SamplingParams:
        return replace(params, allowed_token_ids=params.allowed_token_ids or self.left.get(r))


class CountsOfSlots(Faulty):
    """Keeps counts of output tokens by row, and does not clear them when another request is added there."""

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin with empty rows."""
        super().start(vocab_size, mode)
        self.old: dict[int, list[int]] = {}

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """A request added at a row that was in use inherits its tokens."""
        before = dict(self.rows)
        for r, _, _, _ in () if update is None else update.added:
            if r in before:
                self.old[r] = [*self.old.get(r, []), *before[r].output_token_ids]
        return super().step(logits, update)

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Penalise with the tokens of the row's earlier requests."""
        old = self.old if self.stepping else {}
        requests = [self._longer(q, old.get(r, [])) for r, q in enumerate(batch.requests)]
        return super().sample(logits, replace(batch, requests=requests))

    def _longer(self, request: Request, old: list[int]) -> Request:
        if not penalises(request.params):
            return request
        return replace(request, output_token_ids=[*old, *request.output_token_ids])


class BiasLags(Faulty):
    """Builds the tensor of biases for the batch of the step before."""

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin without biases."""
        super().start(vocab_size, mode)
        self.biases: list[Any] = []

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Add the biases of the rows as they were."""
        if not self.stepping:
            return super().sample(logits, batch)
        lagging, self.biases = self.biases, [r.params.logit_bias for r in batch.requests]
        old = [*lagging, *self.biases[len(lagging) :]]
        requests = [
            with_params(r, logit_bias=bias) for r, bias in zip(batch.requests, old, strict=False)
        ]
        return super().sample(logits, replace(batch, requests=requests))


def _sorted_by_kind(batch: Batch) -> Batch:
    """Rows keep their logits; parameters come in the order of the greedy, then the random requests."""
    order = sorted(batch.requests, key=lambda r: not r.params.greedy)
    requests = [
        replace(r, params=other.params) for r, other in zip(batch.requests, order, strict=True)
    ]
    return replace(batch, requests=requests)


def _first_for_all(batch: Batch) -> Batch:
    requests = [replace(r, params=batch.requests[0].params) for r in batch.requests]
    return replace(batch, requests=requests, all_greedy=None, all_random=None)


PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")


def _from_first_penalised(batch: Batch) -> Batch:
    """Row r is penalised as the r-th request from the first penalised one on."""
    penalised = [penalises(r.params) for r in batch.requests]
    first = penalised.index(True) if any(penalised) else 0
    later = [*batch.requests[first:], *[Request(id="none")] * first]
    requests = [
        replace(
            with_params(r, **{name: getattr(other.params, name) for name in PENALTIES}),
            prompt_token_ids=other.prompt_token_ids,
            output_token_ids=other.output_token_ids,
        )
        for r, other in zip(batch.requests, later, strict=True)
    ]
    return replace(batch, requests=requests)


FAULTS = (
    Fault(
        name="swap-alias",
        about="a swap of two rows leaves the second in both",
        report="vllm-project/vllm PR 48419",
        group="F9",
        clauses=("STATE05", "STATE01", "STATE06"),
        backend=SwapAlias,
    ),
    Fault(
        name="output-copied",
        about="output ids are copied when a request is added",
        report="vllm-project/vllm-ascend PR 7785",
        group="F10",
        clauses=("STATE02", "STATE01", "STATE03", "STATE04", "STATE05", "STATE06", "STATE07"),
        backend=CopiedOutput,
    ),
    Fault(
        name="condense-leak",
        about="a moved request leaves its allow-list in its old row",
        report="vllm-project/vllm issue 43894",
        group="F9",
        clauses=("STATE04", "STATE06"),
        backend=CondenseLeak,
    ),
    Fault(
        name="counts-of-slots",
        about="a row keeps the token counts of the request that was there before",
        report="sgl-project/sglang PR 28535",
        group="F9",
        clauses=("STATE03", "STATE01", "STATE04", "STATE06", "STATE08"),
        backend=CountsOfSlots,
    ),
    Fault(
        name="bias-lags",
        about="the biases of a batch are those of the step before",
        report="sgl-project/sglang PR 7685",
        group="F9",
        clauses=("STATE01", "STATE03", "STATE04", "STATE05", "STATE06", "STATE08", "BIAS01"),
        backend=BiasLags,
    ),
    Fault(
        name="params-sorted-by-kind",
        about="parameters come in the order of greedy, then random requests, logits do not",
        report="vllm-project/vllm issue 1179",
        group="F9",
        clauses=("GREEDY04", "GREEDY03", "INV03", "STATE06"),
        requests=_sorted_by_kind,
    ),
    Fault(
        name="first-request-for-all",
        about="the parameters of the first request hold for the whole batch",
        report="Blaizzy/mlx-vlm PR 1647",
        group="F9",
        clauses=("TOPK05", "TOPP08", "PEN14", "GREEDY04", "INV03"),
        requests=_first_for_all,
    ),
    Fault(
        name="penalties-shifted",
        about="penalties begin at the first penalised request, not at the first row",
        report="vllm-project/vllm PR 5639",
        group="F9",
        clauses=("PEN14", "STATE06"),
        requests=_from_first_penalised,
    ),
)
