"""The likely cause of a failure: the known fault or freedom that explains what was seen.

What was seen of one row (its values, its draws, its logprobs) is compared with what the contract and every known
rule make of the same row. `aliquot.conformance.behaviour` compares whole answers instead.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import DECLARED
from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import Case
from aliquot.conformance.faults import FAULTS
from aliquot.conformance.faults.fault import Fault, with_params
from aliquot.contract.batch import Batch
from aliquot.contract.clauses import clauses
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.profile import FREEDOMS, Freedom, Profile
from aliquot.oracle import logprobs, pipeline
from aliquot.oracle.sampler import subset
from aliquot.oracle.softmax import log_softmax
from aliquot.reports.results import CheckResult, Finding, Verdict
from aliquot.statistical.eprocess import LikelihoodRatio

Rows = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
CLEARLY = 1000.0
AS_GOOD = 2.0
MOST_BENT = 4096
COPIES = 16
OF_ERRORS = ("bad_row", "topk_off")
UNLIKE = math.inf
LIKELIER = "the draws are"
INDEPENDENCE = frozenset({"DRAW03", "DRAW04"})
Rule = TypeVar("Rule", "Alternative", Fault)


@dataclass(frozen=True, eq=False)
class RowReport:
    """What is reported of one row: values float64, the sampled token's rank, whether an id is V or more."""

    values: Rows
    rank: int
    past_the_end: bool

    @classmethod
    def of(cls, found: Logprobs, row: int, vocab_size: int) -> "RowReport":
        """Row `row` of a report."""
        return cls(
            found.values[row].astype(np.float64),
            int(found.ranks[row]),
            bool((found.token_ids[row] >= vocab_size).any()),
        )


@dataclass(frozen=True)
class Cause:
    """A likely cause in words, the clauses that it breaks, and in words every rule that explains as much."""

    text: str
    clauses: tuple[str, ...]
    explanations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alternative:
    """What a rule makes of one row of a batch; `outcome` is None when the row then has no law."""

    about: str
    clauses: tuple[str, ...]
    batch: Batch
    outcome: pipeline.Outcome | None
    fault: Fault | None = None
    row: int = 0

    @cached_property
    def shown(self) -> Rows:
        """The values [V] that the batch's mode shows."""
        if self.outcome is None:
            return np.full(self.batch.vocab_size, -np.inf)
        if self.fault and self.fault.report_values:
            return self._reported_row(self.fault)
        rows = logprobs.visible_logits(self.outcome, self.batch)
        logits = self.batch.logprobs_mode.endswith("logits")
        row = rows[[self.row]]
        return np.asarray((row if logits else log_softmax(row))[0])

    def _reported_row(self, fault: Fault) -> Rows:
        assert self.outcome is not None
        ids = self.outcome.law.argmax(axis=1)
        reported = fault.reported(self.outcome, _asking_whole_rows(self.batch), ids)
        assert reported is not None
        return np.asarray(reported.values[self.row], dtype=np.float64)

    @property
    def bends(self) -> Callable[[Rows], Rows] | None:
        """How the draws depart from the law of the row, if they do."""
        return self.fault.law if self.fault else None

    @property
    def costly(self) -> bool:
        """Whether the law of a faulty draw would take seconds to compute."""
        left = 0 if self.outcome is None else int(np.count_nonzero(self.outcome.law[self.row]))
        return self.bends is not None and left > MOST_BENT

    @cached_property
    def law(self) -> Rows:
        """The law of the drawn token; nothing where the row has none."""
        if self.outcome is None:
            return np.zeros(self.batch.vocab_size)
        own = np.asarray(self.outcome.law[self.row])
        if self.fault and self.fault.token_map:
            own = np.bincount(self.fault.token_map(np.arange(own.size)), own, own.size)
        greedy = self.batch.requests[self.row].params.greedy
        return own if self.bends is None or greedy else self.bends(own)

    def reported(self, ids: Ids) -> RowReport | None:
        """What is reported of the row, given the sampled ids [n] of all rows of the case."""
        if self.outcome is None:
            return None
        report = self.fault.reported if self.fault else logprobs.gather
        found = report(self.outcome, self.batch, ids)
        assert found is not None
        return RowReport.of(found, self.row, self.batch.vocab_size)


def of_values(case: Case, r: int, values: Rows, declared: Capabilities) -> Cause | None:
    """The alternatives whose values lie nearest, if clearly nearer than the contract's, or keep the same."""
    contract, others = _contract(case, r, declared), _alternatives(case, r, declared)
    errors = [(error(o.shown, values), o) for o in others]
    near = nearest(errors, min(error(contract.shown, values), _spread(values)))
    if near:
        return explained("the values are those that result", near)
    kept = values > -np.inf
    if np.array_equal(kept, contract.shown > -np.inf):
        return None
    same = [o for o in others if np.array_equal(o.shown > -np.inf, kept)]
    return explained("the kept tokens are those that result", same)


def of_draws(
    case: Case, r: int, ids: Ids, declared: Capabilities, copies: int = COPIES
) -> Cause | None:
    """The alternatives under which the draws are likeliest, if clearly likelier than under the contract.

    The draws were made in batches of several `copies` of the case's rows.
    """
    batch = case.tiled(copies)
    others = {o.about: o for o in _alternatives(batch, r, declared) if not o.costly}
    law = _contract(case, r, declared).law
    if (law[ids] == 0).any():
        return _allowing(list(others.values()), ids)
    laws = {about: other.law for about, other in others.items() if other.law.any()}
    if not laws:
        return None
    ratios = LikelihoodRatio(law, laws)
    ratios.observe(ids)
    most = max(ratios.evidence().values())
    if most < math.log(CLEARLY):
        return None
    found = ratios.evidence().items()
    likeliest = [others[about] for about, log_e in found if log_e >= most - math.log(AS_GOOD)]
    return explained(f"{LIKELIER} 10^{most / math.log(10):.0f} times likelier", likeliest)


def of_reported(case: Case, r: int, answer: arrays.Answer, declared: Capabilities) -> Cause | None:
    """The alternatives whose logprobs beside the sampled token lie nearest to those returned for a row."""
    assert answer.logprobs is not None
    reported = Logprobs(token_ids=answer.logprob_ids, values=answer.logprobs, ranks=answer.ranks)
    seen = RowReport.of(reported, r, case.vocab_size)

    def distance(other: Alternative) -> float:
        found = other.reported(answer.ids if len(other.batch) > 1 else answer.ids[[r]])
        if found is None or (found.rank, found.past_the_end) != (seen.rank, seen.past_the_end):
            return UNLIKE
        return error(_widened(found.values, seen.values.size), seen.values)

    errors = [(distance(o), o) for o in _alternatives(case, r, declared)]
    same = nearest(errors, min(distance(_contract(case, r, declared)), _spread(seen.values)))
    return explained("the logprobs are those that result", same)


def explained(seen: str, rules: "Iterable[Alternative | Fault]") -> Cause | None:
    """The first rule as the cause of what was seen, and the others beside it; None without a rule."""
    chosen = list({rule.about: rule for rule in rules}.values())
    if not chosen:
        return None
    texts = tuple(f"{seen} if {rule.about}" for rule in chosen)
    return Cause(texts[0], chosen[0].clauses, texts)


def merged(*causes: Cause | None) -> Cause | None:
    """Several causes as one, the first leading."""
    found = [cause for cause in causes if cause]
    if not found:
        return None
    texts = tuple(dict.fromkeys(text for cause in found for text in cause.explanations))
    return replace(found[0], explanations=texts)


def agreed(checks: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """The checks, each failure led by the rule that explains most of them all, where that explains it too.

    Where draws depend on each other, a likelihood says nothing: rules that do not explain the dependence are dropped.
    """
    every = list(checks)
    shared = _times(check.finding for check in every if check.finding and _dependent(check))
    found = [_without_void(check, shared) if shared else check for check in every]
    times = _times(check.finding for check in found if check.finding)
    blamed = _blamed()

    def led(check: CheckResult) -> CheckResult:
        if check.finding is None or not check.finding.explanations:
            return check
        text = max(check.finding.explanations, key=lambda words: times[about(words)])
        finding = replace(check.finding, likely_cause=text, blames=blamed[about(text)])
        return replace(check, finding=finding)

    return tuple(map(led, found))


def _dependent(check: CheckResult) -> bool:
    """Whether a check found draws that are not independent of each other."""
    return check.verdict is Verdict.FAIL and not INDEPENDENCE.isdisjoint(check.clauses)


def _without_void(check: CheckResult, shared: Counter[str]) -> CheckResult:
    """The check without what only the likelihood of its draws spoke for, `shared` the rules that explain dependence."""
    finding = check.finding
    if finding is None or not any(text.startswith(LIKELIER) for text in finding.explanations):
        return check
    left = tuple(
        text
        for text in finding.explanations
        if about(text) in shared or not text.startswith(LIKELIER)
    )
    rule = max(shared, key=lambda words: shared[words])
    texts = left or (f"the draws depend on each other, as they do if {rule}",)
    return replace(check, finding=replace(finding, explanations=texts))


def _times(findings: Iterable[Finding]) -> Counter[str]:
    """How many of the findings each rule explains."""
    return Counter(about(text) for finding in findings for text in finding.explanations)


def likeliest(findings: Iterable[Finding]) -> str:
    """What is wrong, by the rule that explains most of the findings; empty without one."""
    times = _times(findings)
    return max(times, key=lambda words: times[words]) if times else ""


def about(text: str) -> str:
    """What is wrong, from the words of a cause."""
    return text.partition(" if ")[2]


@cache
def _blamed() -> dict[str, tuple[str, ...]]:
    """The clauses that each known rule breaks, by what is wrong."""
    faults = {fault.about: fault.clauses for fault in FAULTS.values()}
    return faults | {_words(f, choice): _breaks(f) for f in FREEDOMS for choice in f.choices}


def error(shown: Rows, values: Rows) -> float:
    """Largest difference over the values; infinite where one is masked and the other is not."""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(shown - values)
    same = (shown == values) | np.isnan(gaps)
    return float(np.where(same, 0.0, gaps).max(initial=0.0))


def nearest(errors: list[tuple[float, Rule]], contract: float) -> list[Rule]:
    """The rules that are as good as the best, if it is clearly nearer than the contract."""
    best = min((size for size, _ in errors), default=UNLIKE)
    if not best * CLEARLY < contract:
        return []
    return [rule for size, rule in errors if size <= best * AS_GOOD]


def _spread(values: Rows) -> float:
    """How far the values that are seen lie apart or from 0: what no rule explains misses by as much."""
    finite = values[np.isfinite(values)]
    return float(max(np.ptp(finite), np.abs(finite).max())) or UNLIKE if finite.size else UNLIKE


def _allowing(others: list[Alternative], ids: Ids) -> Cause | None:
    """Among the alternatives that allow every drawn token, those that make the draws likeliest."""
    able = [other for other in others if (other.law[ids] > 0).all()]
    sums = [float(np.log(other.law[ids]).sum()) for other in able]
    least = max(sums, default=0.0) - math.log(AS_GOOD)
    likeliest = [o for o, total in zip(able, sums, strict=True) if total >= least]
    return explained("all drawn tokens are possible", likeliest)


def _widened(values: npt.NDArray[Any], width: int) -> Rows:
    """Values of one row alone, padded as beside rows that ask for more columns."""
    row = np.full(max(width, len(values)), -np.inf)
    row[: len(values)] = values
    return row[:width]


def _asking_whole_rows(batch: Batch) -> Batch:
    whole = {"logprobs": -1, "logprob_token_ids": None}
    return replace(batch, requests=[with_params(r, **whole) for r in batch.requests])


@dataclass(frozen=True)
class _Row:
    """One row of a case and what the contract makes of it, step by step."""

    case: Case
    r: int
    profile: Profile

    @cached_property
    def logits(self) -> Any:
        """The case's logits [n, V] as a NumPy backend gets them."""
        return arrays.logits_for(self.case, DECLARED)

    @cached_property
    def whole(self) -> Batch:
        """The case's batch."""
        return self.case.batch()

    @cached_property
    def batch(self) -> Batch:
        """The row's request alone."""
        return subset(self.whole, [self.r])

    @cached_property
    def outcome(self) -> pipeline.Outcome | None:
        """What the contract makes of the row."""
        return self.run(self.logits[[self.r]], self.batch, self.profile)

    @cached_property
    def of_whole(self) -> pipeline.Outcome | None:
        """What the contract makes of the whole case, for rules that mix its rows up."""
        return self.run(self.logits, self.whole, self.profile)

    def run(
        self, logits: Any, batch: Batch, profile: Profile, steps: pipeline.Steps | None = None
    ) -> pipeline.Outcome | None:
        """What the steps make of one row; None when it has no law."""
        try:
            return pipeline.run(logits, batch, profile=profile, steps=steps)
        except pipeline.RowError:
            return None

    def left(self, steps: pipeline.Steps, profile: Profile) -> tuple[Rows, Rows]:
        """The row after the penalties and after all of the steps, without laws."""
        rows = self.logits[[self.r]].astype(np.float64)
        context, penalised = pipeline.Context(self.batch, profile), rows
        with np.errstate(all="ignore"):
            for step in steps:
                rows = step.run(rows, context)
                penalised = rows if step.name == "thinking_budget" else penalised
        return penalised, rows

    @cached_property
    def contract(self) -> tuple[Rows, Rows]:
        """What the contract's own steps leave."""
        return self.left(pipeline.steps_for(self.profile), self.profile)

    def changed_by(self, steps: pipeline.Steps, profile: Profile) -> bool:
        """Whether other steps or freedoms leave another row than the contract's."""
        found = self.left(steps, profile)
        return not all(map(np.array_equal, found, self.contract))


def _contract(case: Case, r: int, declared: Capabilities) -> Alternative:
    row = _Row(case, r, declared.profile)
    return Alternative("the contract holds", (), row.batch, row.outcome)


def _alternatives(case: Case, r: int, declared: Capabilities) -> list[Alternative]:
    """What every known rule makes of a row, where that is not what the contract makes of it.

    A freedom comes before the faults that take it only in some batches.
    """
    row = _Row(case, r, declared.profile)
    always = [fault for fault in FAULTS.values() if not fault.profile]
    at_times = [fault for fault in FAULTS.values() if fault.profile]
    first, last = ([_of_fault(row, fault) for fault in part] for part in (always, at_times))
    return [other for other in (*first, *_of_freedoms(row), *last) if other]


def _of_fault(row: _Row, fault: Fault) -> Alternative | None:
    if fault.report_values:
        return Alternative(fault.about, fault.clauses, row.whole, row.of_whole, fault, row.r)
    batch = subset(fault.changed_batch(row.whole), [row.r])
    logits = fault.changed_logits(row.logits)[[row.r]]
    freedoms: dict[str, Any] = dict(fault.profile(row.whole)) if fault.profile else {}
    profile = replace(row.profile, **freedoms)
    moved = bool(freedoms) or not _same_input(row, batch, logits)
    stepped = fault.steps is not None and row.changed_by(fault.steps, profile)
    drawn = fault.outcome or fault.law or fault.token_map
    if not (moved or stepped or drawn or fault.output):
        return None
    outcome = row.run(logits, batch, profile, fault.steps) if moved or stepped else row.outcome
    if outcome is not None:
        outcome = fault.changed_outcome(outcome, batch)
        outcome = _with_output(row, fault, outcome)
    return Alternative(fault.about, fault.clauses, batch, outcome, fault)


def _same_input(row: _Row, batch: Batch, logits: Any) -> bool:
    mask, own = batch.grammar_bitmask, row.batch.grammar_bitmask
    same_mask = mask is own or (mask is not None and own is not None and np.array_equal(mask, own))
    same_logits = np.array_equal(logits, row.logits[[row.r]], equal_nan=True)
    return same_mask and same_logits and batch.requests == row.batch.requests


def _with_output(row: _Row, fault: Fault, outcome: pipeline.Outcome) -> pipeline.Outcome:
    """The outcome of a greedy row whose id the fault changes on its way out."""
    if fault.output is None or not row.batch.requests[0].params.greedy:
        return outcome
    ids = np.full((len(row.whole), 1), int(outcome.greedy_ids[0]), dtype=np.int64)
    output = fault.output(SamplerOutput(sampled_token_ids=ids), row.logits, row.whole)
    token, law = int(output.sampled_token_ids[row.r, 0]), np.zeros_like(outcome.law)
    law[0, token] = 1.0
    return replace(outcome, law=law, greedy_ids=np.array([token]))


def _of_freedoms(row: _Row) -> Iterator[Alternative]:
    for freedom in FREEDOMS:
        for choice in freedom.choices:
            if choice == getattr(row.profile, freedom.name) or freedom.name in OF_ERRORS:
                continue
            change: dict[str, Any] = {freedom.name: choice}
            profile = replace(row.profile, **change)
            shows = freedom.name == "logprobs" and row.whole.logprobs_mode.startswith("raw")
            if shows or row.changed_by(pipeline.steps_for(profile), profile):
                outcome = row.run(row.logits[[row.r]], row.batch, profile)
                words = _words(freedom, choice)
                yield Alternative(words, _breaks(freedom), row.batch, outcome)


def _words(freedom: Freedom, choice: str) -> str:
    return f"{freedom.about}: {choice.replace('_', ' ')}"


@cache
def _breaks(freedom: Freedom) -> tuple[str, ...]:
    return tuple(c.id for c in clauses().values() if c.freedom == freedom.name)
