"""What apply may do to a batch of one step, as judges of one batch each."""

import torch
from torch import Tensor

from aliquot.conformance.backend import one_line
from aliquot.conformance.processor_check.batch import Rows
from aliquot.conformance.processor_check.compare import (
    band,
    different,
    first_difference,
    form,
    number,
)
from aliquot.conformance.processor_check.search import Difference
from aliquot.conformance.processor_check.subject import ProcessorRaised, Subject

SPARE = 3
SENTINEL = 99.0


def masked(subject: Subject, rows: Rows) -> Difference | None:
    """A token that was -inf and is not any more."""
    before, after = rows.logits(subject), rows.applied(subject)
    if before.shape != after.shape:
        return None
    return _first((before == -torch.inf) & (after != -torch.inf), before, after, "to stay -inf")


def finite(subject: Subject, rows: Rows) -> Difference | None:
    """NaN or +inf that was not there."""
    before, after = rows.logits(subject), rows.applied(subject)
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


def same_form(subject: Subject, rows: Rows) -> Difference | None:
    """Another shape, dtype or device than the logits'."""
    wanted, got = form(rows.logits(subject)), form(rows.applied(subject))
    return None if wanted == got else Difference(wanted=wanted, got=got)


def neighbours(subject: Subject, rows: Rows) -> Difference | None:
    """The first row that comes out differently beside others."""
    before, together = rows.logits(subject), rows.applied(subject)
    for r, row in enumerate(rows.rows):
        alone = Rows((row,)).applied(subject)
        place = first_difference(alone, together[r : r + 1])
        if place is not None:
            return _neighbour(r, place[1], before[r], alone[0], together[r])
    return None


def _neighbour(r: int, token: int, before: Tensor, alone: Tensor, together: Tensor) -> Difference:
    gap = (alone - together)[different(alone, together)].abs().nan_to_num(nan=torch.inf)
    return Difference(
        wanted=f"logit {number(alone[token])} of token {token} in row {r}, as when the row is alone",
        got=f"{number(together[token])} beside the others ({number(before[token])} before)",
        cause="the row's result depends on other rows, or a change meant for another row reaches it",
        decided=float(gap.max()) > band(alone, together),
    )


def in_wider_buffer(subject: Subject, rows: Rows) -> Difference | None:
    """What differs when the rows are columns of a wider buffer."""
    logits = rows.logits(subject)
    buffer = torch.full((len(logits), logits.shape[1] + SPARE), SENTINEL)
    view = buffer[:, : logits.shape[1]].copy_(logits)
    try:
        after = subject.fresh(rows.requests(subject)).apply(view)
    except Exception as error:
        raise ProcessorRaised(f"apply raised {one_line(error)} in a wider buffer") from error
    wanted = rows.applied(subject)
    place = first_difference(wanted, after)
    if place is not None:
        told = f"logit {number(wanted[place])} of token {place[1]} in row {place[0]}"
        return Difference(wanted=told, got=f"{number(after[place])} in a wider buffer")
    spilt = bool((buffer[:, logits.shape[1] :] != SENTINEL).any())
    return Difference(wanted="nothing written beside the rows", got="a write") if spilt else None
