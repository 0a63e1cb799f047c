"""PLUG01: the claim about the argmax decides the place of a processor, so it must be true."""

from functools import partial

import torch
from torch import Tensor

from aliquot.conformance.processor_check.batch import MOST_ROWS, Rows, batches
from aliquot.conformance.processor_check.compare import band, number
from aliquot.conformance.processor_check.outcome import Check, Outcome, of_search, passed
from aliquot.conformance.processor_check.search import Difference, smallest
from aliquot.conformance.processor_check.subject import Subject
from aliquot.reports.results import Verdict

EXAMPLES = 400


def check_claim(subject: Subject) -> Outcome:
    """A claim of invariance holds on every row found; a claim against it is seen to be needed."""
    strategy, judge = partial(batches, subject), partial(moved, subject)
    search = smallest(subject, strategy, MOST_ROWS, judge, EXAMPLES)
    if subject.claims_invariance:
        return of_search(search, f"the argmax stayed in {EXAMPLES} batches, equal maxima included")
    if search.fault is not None:
        return passed(f"says that the argmax may change, and it does: {search.fault.got}")
    return Outcome(
        verdict=Verdict.DIVERGES,
        reason=f"says that the argmax may change, but in {EXAMPLES} batches it never did: "
        "a claim of invariance would spare greedy rows the work",
    )


def moved(subject: Subject, rows: Rows) -> Difference | None:
    """The first row whose argmax changes, lowest id among equals."""
    before, after = rows.logits(subject), rows.applied(subject)
    for r in range(len(before)):
        best, now = argmax(before[r]), argmax(after[r])
        if after.shape == before.shape and best != now:
            return _difference(r, best, now, before[r], after[r])
    return None


def argmax(row: Tensor) -> int:
    """Lowest id among equal maxima (GREEDY02)."""
    return int((row == row.max()).nonzero()[0]) if not row.isnan().any() else -1


def _difference(r: int, best: int, now: int, before: Tensor, after: Tensor) -> Difference:
    tied = now >= 0 and after[now] == after[best] and before[now] < before[best]
    close = tied and bool(before[best] - before[now] <= band(before, after))
    changed = [best] if now < 0 else [best, now]
    told = (f"token {t} from {number(before[t])} to {number(after[t])}" for t in changed)
    return Difference(
        wanted=f"argmax {best} of row {r} to stay",
        got=f"{'no argmax' if now < 0 else f'argmax {now}'}: {', '.join(told)}",
        cause=_cause(best, now, before, after),
        decided=not close,
    )


def _cause(best: int, now: int, before: Tensor, after: Tensor) -> str:
    if now < 0 or after[best] == -torch.inf:
        return "the best token is lost"
    if before[best] == before[now]:
        return "equal maxima are treated differently"
    if after[best] == after[now]:
        return "different logits become equal"
    return "another token is raised above the best"


CHECKS = (
    Check(
        id="argmax-claim",
        clauses=("PLUG01",),
        title="The argmax claim is true",
        run=check_claim,
    ),
)
