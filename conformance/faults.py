"""The fault library: samplers that are wrong in one known way, each modelled on a public report."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.contract.batch import Batch, BatchUpdate, LogprobsMode, MoveDirectionality
from aliquot.contract.output import SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.oracle import law, logprobs, sampler
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, Steps, moved, replaced

NOT_QUITE_MASKED = 1e-10
GRID = 2001


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: what is wrong, the report that it is modelled on, and the clauses that it breaks.

    What it does to one row is told by `steps` (its pipeline), `law` (from the right law to its own) or `shown` (the
    stage of the outcome that it reports as raw values), so that a failure can be compared with it.
    """

    name: str
    about: str
    report: str
    clauses: tuple[str, ...]
    steps: Steps | None = None
    law: Callable[[Rows], Rows] | None = None
    shown: str | None = None
    backend: type[OracleBackend] = OracleBackend

    def make(self) -> OracleBackend:
        """The faulty sampler as a backend that declares what the oracle declares."""
        declared = replace(DECLARED, name=f"fault:{self.name}", noise="opaque")
        return self.backend(steps=self.steps, capabilities=declared)


def _per_row(change: Callable[[Rows, int, Context], Rows]) -> Callable[[Rows, Context], Rows]:
    """A step from a function of one row, its index and the context."""

    def step(rows: Rows, context: Context) -> Rows:
        changed = [change(row.copy(), r, context) for r, row in enumerate(rows)]
        return np.stack(changed) if changed else rows

    return step


def _by_size(row: Rows) -> tuple[npt.NDArray[np.int64], Rows]:
    order = np.argsort(-row, kind="stable")
    weights = np.exp(row[order] - row[order[0]])
    return order, weights / weights.sum()


def _without_crossing(row: Rows, r: int, context: Context) -> Rows:
    p = context.params[r].top_p
    if p >= 1:
        return row
    order, probs = _by_size(row)
    dropped = np.cumsum(probs) > p
    dropped[0] = False
    row[order[dropped]] = -np.inf
    return row


def _one_more_on_equality(row: Rows, r: int, context: Context) -> Rows:
    """Keeps a token when the mass before it equals p, as float32 arithmetic sees it."""
    p = np.float32(context.params[r].top_p)
    if p >= 1:
        return row
    order, probs = _by_size(row)
    before = (np.cumsum(probs) - probs).astype(np.float32)
    row[order[before > p]] = -np.inf
    return row


def _zero_is_one(rows: Rows, context: Context) -> Rows:
    held = [max(p.top_k, 1) for p in context.params]
    kept = [_top_k(row, k, -np.inf) for row, k in zip(rows, held, strict=True)]
    return np.stack(kept) if kept else rows


def _finite_fill(row: Rows, r: int, context: Context) -> Rows:
    k = context.params[r].top_k
    return _top_k(row, k, NOT_QUITE_MASKED) if 0 < k < row.size else row


def _top_k(row: Rows, k: int, fill: float) -> Rows:
    kth = np.sort(row)[-min(k, row.size)]
    return np.where(row >= kth, row, fill)


def _temperature_again(row: Rows, r: int, context: Context) -> Rows:
    params = context.params[r]
    return row if params.greedy else row / params.temperature**2


def _penalties(
    row: Rows, r: int, context: Context, *, by_sign: bool = True, count_prompt: bool = False
) -> Rows:
    request, params = context.batch.requests[r], context.params[r]
    prompt = [t for t in request.prompt_token_ids or () if 0 <= t < row.size]
    output = [t for t in context.histories[r] if 0 <= t < row.size]
    seen = np.unique([*prompt, *output]).astype(int)
    r_p = params.repetition_penalty
    divides = (row[seen] > 0) | (not by_sign)
    row[seen] = np.where(divides, row[seen] / r_p, row[seen] * r_p)
    counted = [*prompt, *output] if count_prompt else output
    counts = np.bincount(counted, minlength=row.size)[: row.size]
    row -= params.frequency_penalty * counts
    row -= params.presence_penalty * (counts > 0)
    return row


def _wrong_sign(row: Rows, r: int, context: Context) -> Rows:
    return _penalties(row, r, context, by_sign=False)


def _prompt_counted(row: Rows, r: int, context: Context) -> Rows:
    return _penalties(row, r, context, count_prompt=True)


class GumbelSign(OracleBackend):
    """Subtracts the Gumbel noise instead of adding it."""

    def sample_rows(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Draw with the wrong sign, then gather logprobs; bad rows are the oracle's."""
        outcome = self.outcome(logits, batch)
        if outcome is None:
            return super().sample_rows(logits, batch)
        noise = sampler.uniforms(batch.requests, self.rng)
        ids = np.array(
            [self.draw(p, noise[r : r + 1])[0] for r, p in enumerate(outcome.law)], np.int64
        )
        return SamplerOutput(
            sampled_token_ids=ids.reshape(-1, 1), logprobs=logprobs.gather(outcome, batch, ids)
        )

    def draw(self, probs: Rows, noise: Rows) -> npt.NDArray[np.int64]:
        """argmax(log p - gumbel), the noise of each draw from its own generator."""
        kept = np.flatnonzero(probs > 0)
        scores = np.log(probs[kept])
        ids = np.empty(len(noise), dtype=np.int64)
        for i, u in enumerate(noise):
            gumbel = np.random.default_rng(int(u * 2**53)).gumbel(size=kept.size)
            ids[i] = kept[np.argmax(scores - gumbel)]
        return ids


def negative_gumbel_law(probs: Rows) -> Rows:
    """The law of argmax(log p - g) for Gumbel g, by quadrature over the score of the winner.

    The score of token t lies below x with probability 1 - exp(-exp(x - log p_t)).
    """
    kept = np.flatnonzero(probs > 0)
    log_p = np.log(probs[kept])
    law = np.zeros_like(probs)
    for x in np.linspace(log_p.max() - 40, log_p.max() + 8, GRID):
        rates = np.exp(np.minimum(x - log_p, 50.0))
        log_below = np.log(-np.expm1(-rates))
        law[kept] += np.exp(log_below.sum() - log_below - rates) * rates
    return np.asarray(law / law.sum())


class RawLogprobAlias(OracleBackend):
    """Reports raw logprobs from logits that were already edited in place."""

    def sample_rows(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Draw rightly, then gather raw values from the penalised row; bad rows are the oracle's."""
        outcome = self.outcome(logits, batch)
        if outcome is None:
            return super().sample_rows(logits, batch)
        ids = law.draw(outcome.law, sampler.uniforms(batch.requests, self.rng))
        aliased = replace(outcome, raw=outcome.penalised)
        return SamplerOutput(
            sampled_token_ids=ids.reshape(-1, 1), logprobs=logprobs.gather(aliased, batch, ids)
        )


class SwapAlias(OracleBackend):
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


class CopiedOutput(OracleBackend):
    """Copies the output ids when a request is added and never sees later ones."""

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Added requests get a list of their own."""
        if update is not None:
            added = [(r, params, prompt, list(out)) for r, params, prompt, out in update.added]
            update = replace(update, added=added)
        return super().step(logits, update)


class CondenseLeak(OracleBackend):
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


_LIBRARY = (
    Fault(
        name="order-topp-first",
        about="top-p is applied before top-k",
        report="vllm-project/vllm PR 1885",
        clauses=("TOPP07",),
        steps=moved(CONTRACT, "top_p", before="top_k"),
    ),
    Fault(
        name="temp-twice",
        about="logits are divided by the temperature twice",
        report="RL-Align/RL-Kernel issue 81",
        clauses=("TEMP01",),
        steps=replaced(CONTRACT, "temperature", _per_row(_temperature_again)),
    ),
    Fault(
        name="topp-edge-minus",
        about="the token that crosses p is dropped",
        report="ggml-org/llama.cpp PR 1953",
        clauses=("TOPP03",),
        steps=replaced(CONTRACT, "top_p", _per_row(_without_crossing)),
    ),
    Fault(
        name="topp-edge-plus",
        about="one token more is kept when the mass reaches p exactly",
        report="huggingface/transformers issue 18976",
        clauses=("TOPP02",),
        steps=replaced(CONTRACT, "top_p", _per_row(_one_more_on_equality)),
    ),
    Fault(
        name="topk-zero-is-one",
        about="k <= 0 keeps one token instead of all",
        report="ggml-org/llama.cpp PR 5388",
        clauses=("TOPK03",),
        steps=replaced(CONTRACT, "top_k", _zero_is_one),
    ),
    Fault(
        name="mask-finite-fill",
        about="tokens cut by top-k get the logit 1e-10 instead of -inf",
        report="karpathy/minGPT issue 10",
        clauses=("TOPK01",),
        steps=replaced(CONTRACT, "top_k", _per_row(_finite_fill)),
    ),
    Fault(
        name="gumbel-sign",
        about="the Gumbel noise is subtracted",
        report="chainer/chainerrl PR 104",
        clauses=("DRAW01",),
        backend=GumbelSign,
        law=negative_gumbel_law,
    ),
    Fault(
        name="rep-sign",
        about="the repetition penalty divides negative logits too",
        report="huggingface/transformers issue 2302",
        clauses=("PEN02",),
        steps=replaced(CONTRACT, "penalties", _per_row(_wrong_sign)),
    ),
    Fault(
        name="pen-counts-prompt",
        about="frequency and presence count prompt tokens",
        report="NVIDIA/TensorRT-LLM PR 5623",
        clauses=("PEN07",),
        steps=replaced(CONTRACT, "penalties", _per_row(_prompt_counted)),
    ),
    Fault(
        name="raw-logprob-alias",
        about="raw logprobs are taken after in-place edits",
        report="vllm-project/vllm PR 30846",
        clauses=("LOGP03",),
        backend=RawLogprobAlias,
        shown="penalised",
    ),
    Fault(
        name="swap-alias",
        about="a swap of two rows leaves the second in both",
        report="vllm-project/vllm PR 48419",
        clauses=("STATE05",),
        backend=SwapAlias,
    ),
    Fault(
        name="output-copied",
        about="output ids are copied when a request is added",
        report="vllm-project/vllm-ascend PR 7785",
        clauses=("STATE02",),
        backend=CopiedOutput,
    ),
    Fault(
        name="condense-leak",
        about="a moved request leaves its allow-list in its old row",
        report="vllm-project/vllm issue 43894",
        clauses=("STATE04",),
        backend=CondenseLeak,
    ),
)
FAULTS = {fault.name: fault for fault in _LIBRARY}
