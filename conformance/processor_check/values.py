"""DRAW02, ERR16, IO04: what apply may write."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from aliquot.conformance.processor_check.batch import Rows, batches
from aliquot.conformance.processor_check.compare import form, number
from aliquot.conformance.processor_check.outcome import Check, Outcome, of_search
from aliquot.conformance.processor_check.search import EXAMPLES, Difference, smallest
from aliquot.conformance.processor_check.subject import Subject


def check(subject: Subject, judge: Callable[[Tensor, Tensor], Difference | None]) -> Outcome:
    """Something holds between the logits before and after, in every batch found."""

    def judged(rows: Rows) -> Difference | None:
        return judge(rows.logits(subject), rows.applied(subject))

    search = smallest(subject, batches(subject), judged)
    return of_search(search, f"held in {EXAMPLES} batches")


def masked(before: Tensor, after: Tensor) -> Difference | None:
    """A token that was -inf and is not any more."""
    if before.shape != after.shape:
        return None
    return _first((before == -torch.inf) & (after != -torch.inf), before, after, "to stay -inf")


def finite(before: Tensor, after: Tensor) -> Difference | None:
    """NaN or +inf that was not there."""
    if before.shape != after.shape:
        return None
    wrong = after.isnan() | (after == torch.inf)
    return _first(wrong, before, after, "to be a number or -inf")


def _first(wrong: Tensor, before: Tensor, after: Tensor, wanted: str) -> Difference | None:
    places = wrong.nonzero()
    if not len(places):
        return None
    r, token = (int(i) for i in places[0])
    return Difference(
        wanted=f"the logit of token {token} in row {r} {wanted}",
        got=f"{number(after[r, token])} ({number(before[r, token])} before)",
        effect=f"{len(places)} of {wrong.numel()} logits",
    )


def same_form(before: Tensor, after: Tensor) -> Difference | None:
    """Another shape, dtype or device than the logits'."""
    same = form(before) == form(after)
    return None if same else Difference(wanted=form(before), got=form(after))


CHECKS = (
    Check(id="masked", clauses=("DRAW02",), title="-inf stays -inf",
          run=partial(check, judge=masked)),
    Check(id="finite", clauses=("ERR16",), title="No NaN and no +inf appears",
          run=partial(check, judge=finite)),
    Check(id="form", clauses=("IO04",), title="Shape, dtype and device stay",
          run=partial(check, judge=same_form)),
)  # fmt: skip
