"""INV03, IO02, IO10: what apply may do to rows, however they lie and however few there are."""

from functools import partial

import torch
from torch import Tensor

from aliquot.conformance.backend import one_line
from aliquot.conformance.processor_check.batch import Rows, batches
from aliquot.conformance.processor_check.compare import (
    band,
    different,
    first_difference,
    form,
    number,
)
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed, of_search, passed
from aliquot.conformance.processor_check.search import EXAMPLES, Difference, smallest
from aliquot.conformance.processor_check.subject import (
    ProcessorRaised,
    Subject,
    apply,
    update,
)
from aliquot.contract.batch import BatchUpdate
from aliquot.fast.processors.interface import LogitsProcessor

SPARE = 3
SENTINEL = 99.0


def check_own_rows(subject: Subject) -> Outcome:
    """Each row comes out as it does alone."""
    search = smallest(subject, batches(subject), partial(neighbours, subject))
    return of_search(search, f"each row comes out as it does alone in {EXAMPLES} batches")


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


def check_stride(subject: Subject) -> Outcome:
    """Rows in a wider buffer come out as in one of their own, and nothing beside them is written."""
    search = smallest(subject, batches(subject), partial(in_wider_buffer, subject))
    return of_search(search, f"rows in a wider buffer come out the same in {EXAMPLES} batches")


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


def check_empty(subject: Subject) -> Outcome:
    """Batches without rows: before any request, with an empty update, and after all requests left."""
    nothing = torch.empty(0, subject.vocab_size)
    for processor in (subject.make(), subject.fresh(()), _deserted(subject)):
        try:
            update(processor, None)
            found = form(apply(processor, nothing))
        except ProcessorRaised as error:
            return failed(Difference(wanted="no exception for n = 0", got=str(error)))
        if found != form(nothing):
            return failed(Difference(wanted=form(nothing), got=found))
    return passed("n = 0 works before, without and after requests")


def _deserted(subject: Subject) -> LogitsProcessor:
    """A processor whose requests, one of each kind, have all left."""
    number_of = len(subject.kinds)
    processor = subject.fresh([subject.request(kind) for kind in range(number_of)])
    update(processor, BatchUpdate(batch_size=0, removed=list(range(number_of))[::-1]))
    return processor


CHECKS = (
    Check(id="own-rows", clauses=("INV03",), title="Each row is its own", run=check_own_rows),
    Check(id="row-stride", clauses=("IO02",), title="Any row stride", run=check_stride),
    Check(id="empty-batch", clauses=("IO10",), title="An empty batch is legal", run=check_empty),
)
