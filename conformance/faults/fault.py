"""A sampler that is wrong in one known way, as changes to the oracle's sampler."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.contract.batch import Batch, BatchUpdate, Request
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import Profile
from aliquot.oracle import law, logprobs, sampler
from aliquot.oracle.pipeline import Context, Outcome, Rows, Steps
from aliquot.oracle.sampler import subset

Ids = npt.NDArray[np.int64]
Generator = np.random.Generator
MOST_RACED = 4096
IDS_ALONE = {"noise": "opaque", "logprobs_modes": (), "given_logprobs": False}


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A way to draw: the kind of noise and the tokens int64 [m] that it takes from a law [V].

    The noise is float64 [m] uniforms for `inverse_cdf`, and [m, V] for `gumbel` and `exponential_race`.
    """

    kind: str
    pick: Callable[[Rows, Rows], Ids]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: what is wrong, the report that it is modelled on, and the clauses that it breaks.

    `group` is its class, F1 to F15. The fields from `requests` on are functions that change one stage of the
    oracle's sampler, in the order in which they act; `law` turns the right law into that of the faulty draws.
    """

    name: str
    about: str
    report: str
    group: str
    clauses: tuple[str, ...]
    requests: Callable[[Batch], Batch] | None = None
    logits: Callable[[Any], Any] | None = None
    profile: Callable[[Batch], Mapping[str, str]] | None = None
    steps: Steps | None = None
    outcome: Callable[[Outcome, Batch], Outcome] | None = None
    law: Callable[[Rows], Rows] | None = None
    noise: Callable[[Batch, Generator], Rows] | None = None
    draw: Draw | None = None
    report_values: Callable[[Outcome, Batch, Ids], Logprobs | None] | None = None
    token_map: Callable[[Ids], Ids] | None = None
    output: Callable[[SamplerOutput, Any, Batch], SamplerOutput] | None = None
    lenient: bool = False
    backend: "type[Faulty] | None" = None
    declares: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> "Faulty":
        """The faulty sampler as a backend that declares what the oracle declares."""
        return (self.backend or Faulty)(self)

    def hidden(self) -> "Fault":
        """The same sampler showing token ids alone: no values, no noise."""
        return replace(self, declares={**self.declares, **IDS_ALONE})

    def changed_batch(self, batch: Batch) -> Batch:
        """The batch as this sampler takes it."""
        return _sharing(batch, self.requests(batch)) if self.requests else batch

    def changed_logits(self, logits: Any) -> Any:
        """The logits as this sampler reads them; those of a wrong shape stay."""
        return self.logits(logits) if self.logits and np.ndim(logits) == 2 else logits

    def changed_outcome(self, outcome: Outcome, batch: Batch) -> Outcome:
        """The outcome as this sampler makes it, the law of its draws aside."""
        return self.outcome(outcome, batch) if self.outcome else outcome

    def reported(self, outcome: Outcome, batch: Batch, ids: Ids) -> Logprobs | None:
        """The logprobs as this sampler reports them."""
        return (self.report_values or logprobs.gather)(outcome, batch, ids)


class Faulty(OracleBackend):
    """The oracle's sampler with a fault's changes."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.in_force: Mapping[str, Any] = {}
        self.kind = "inverse_cdf"
        self.stepping = False
        declared = replace(DECLARED, name=f"fault:{fault.name}", **fault.declares)
        super().__init__(steps=fault.steps, capabilities=declared)

    @property
    def profile(self) -> Profile:
        """The freedoms in force."""
        return replace(self.capabilities.profile, **self.in_force)

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Recompute the batch from its rows, then sample; `stepping` tells that from a single call."""
        self.stepping = True
        try:
            return super().step(logits, update)
        finally:
            self.stepping = False

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample from NumPy logits [n, V] with the fault's changes."""
        fault = self.fault
        if not fault.lenient:
            batch.validate()
        self.in_force = fault.profile(batch) if fault.profile else {}
        taken = fault.changed_logits(logits)
        output = super().sample(taken, fault.changed_batch(batch))
        if fault.token_map:
            output = replace(output, sampled_token_ids=fault.token_map(output.sampled_token_ids))
        return fault.output(output, taken, batch) if fault.output else output

    def outcome(self, logits: Any, batch: Batch) -> Outcome | None:
        """What the steps leave, its law that of the fault's draws; None when a row has no law."""
        outcome = super().outcome(logits, batch)
        if outcome is None:
            return None
        outcome = self.fault.changed_outcome(outcome, batch)
        if self.fault.law is None or self.fault.draw:
            return outcome
        return replace(outcome, law=np.stack([self.fault.law(row) for row in outcome.law]))

    def sample_rows(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample with logprobs, bad rows marked and the others drawn as the fault draws (ERR17)."""
        if not len(batch):
            return super().sample_rows(logits, batch)
        good, outcome = list(range(len(batch))), self.outcome(logits, batch)
        if outcome is None:
            good = [r for r in good if self.law_of(logits, batch, r) is not None]
            outcome = self.outcome(logits[good], subset(batch, good))
        if (
            outcome is None
            or not good
            or (len(good) < len(batch) and self.profile.bad_row == "error")
        ):
            return super().sample_rows(logits, batch)
        part, noise = subset(batch, good), self.uniforms(batch)[good]
        drawn = [self.draw(p, noise[i : i + 1])[0] for i, p in enumerate(outcome.law)]
        ids = np.array(drawn, np.int64)
        gathered = self.fault.reported(outcome, part, ids)
        return sampler.spread(ids, gathered, good, batch, self.profile)

    def uniforms(self, batch: Batch) -> Rows:
        """The noise of this call: one uniform a row, or a row of noise for a race over a small vocabulary."""
        self.kind = self._kind(batch.vocab_size)
        if self.given is not None:
            return super().uniforms(batch)
        make = self.fault.noise or (lambda b, rng: sampler.uniforms(b.requests, rng))
        self.noise = make(batch, self.rng)
        if self.kind != "inverse_cdf":
            self.noise = raced(self.noise, batch.vocab_size, self.kind)
        return self.noise

    def _kind(self, vocab_size: int) -> str:
        races = self.fault.draw is not None and vocab_size <= MOST_RACED
        return self.fault.draw.kind if self.fault.draw and races else "inverse_cdf"

    def last_noise(self) -> tuple[str, Rows]:
        """The noise of the last call."""
        return self.kind, self.noise

    def draw(self, probs: Rows, noise: Rows) -> Ids:
        """Draw one token per noise value, or row of it, from a law [V]."""
        wanted = self.fault.draw
        if wanted is None or wanted.kind != self._kind(probs.size):
            return law.draw_row(probs, noise)
        return wanted.pick(probs, noise)


def _sharing(before: Batch, after: Batch) -> Batch:
    """The changed batch, requests that shared parameters before sharing them still where these stayed equal."""
    shared: dict[int, SamplingParams] = {}
    for old, new in zip(before.requests, after.requests, strict=True):
        params = shared.setdefault(id(old.params), new.params)
        if params == new.params:
            new.params = params
    return after


def raced(uniforms: Rows, vocab_size: int, kind: str) -> Rows:
    """Noise [n, V] of a race, every row from a generator that its uniform seeds."""
    noise = np.empty((len(uniforms), vocab_size))
    for row, uniform in zip(noise, uniforms, strict=True):
        rng = np.random.default_rng(int(uniform * 2**53))
        row[:] = (
            rng.gumbel(size=vocab_size) if kind == "gumbel" else rng.exponential(size=vocab_size)
        )
    return noise


def per_row(change: Callable[[Rows, int, Context], Rows]) -> Callable[[Rows, Context], Rows]:
    """A step from a function of one row, which it may write to, its index and the context."""

    def step(rows: Rows, context: Context) -> Rows:
        changed = [change(row.copy(), r, context) for r, row in enumerate(rows)]
        return np.stack(changed) if changed else rows

    return step


def each(change: Callable[[Request, int, Batch], Request]) -> Callable[[Batch], Batch]:
    """A change of the batch from a function of one request, its row and the batch."""

    def changed(batch: Batch) -> Batch:
        requests = [change(request, r, batch) for r, request in enumerate(batch.requests)]
        return replace(batch, requests=requests, all_greedy=None, all_random=None)

    return changed


def with_params(request: Request, **params: Any) -> Request:
    """The request with some parameters replaced."""
    return replace(request, params=replace(request.params, **params))


def by_size(row: Rows) -> tuple[Ids, Rows]:
    """The tokens of a row [V] by descending logit, and their probabilities."""
    order = np.argsort(-row, kind="stable")
    weights = np.exp(row[order] - row[order[0]])
    return order, weights / weights.sum()
