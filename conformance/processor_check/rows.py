"""INV03, DRAW02, ERR16, IO02, IO04, IO10: rows, however they lie and however few there are."""

from collections.abc import Callable
from functools import partial

import torch

from aliquot.conformance.processor_check import judges
from aliquot.conformance.processor_check.batch import MOST_ROWS, Rows, batches
from aliquot.conformance.processor_check.compare import form
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed, of_search, passed
from aliquot.conformance.processor_check.search import Difference, Judge, searched, smallest
from aliquot.conformance.processor_check.subject import (
    ProcessorRaised,
    Subject,
    apply,
    update,
)
from aliquot.contract.batch import BatchUpdate
from aliquot.fast.processors.interface import LogitsProcessor

EXAMPLES = 300
JUDGES = (
    judges.neighbours,
    judges.masked,
    judges.finite,
    judges.same_form,
    judges.in_wider_buffer,
)


def check_rows(subject: Subject, judge: Judge[Rows]) -> Outcome:
    """Nothing is found fault with in any batch; the batches are searched once for all judges together."""
    held = f"held in {EXAMPLES} batches"
    if "rows are right" not in subject.memory:
        subject.memory["rows are right"] = _any_fault(subject) is None
    if subject.memory["rows are right"]:
        return passed(held)
    search = smallest(subject, partial(batches, subject), MOST_ROWS, judge, EXAMPLES)
    return of_search(search, held)


def _any_fault(subject: Subject) -> Difference | None:
    """A fault or doubt that any of the judges has."""

    def judge(rows: Rows) -> Difference | None:
        found = (judge(subject, rows) for judge in JUDGES)
        return next((difference for difference in found if difference is not None), None)

    search = searched(subject, batches(subject, MOST_ROWS), judge, EXAMPLES)
    return search.fault or search.undecided


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


def _check(
    name: str, clause: str, title: str, judge: Callable[[Subject, Rows], Difference | None]
) -> Check:
    def run(subject: Subject) -> Outcome:
        return check_rows(subject, partial(judge, subject))

    return Check(id=name, clauses=(clause,), title=title, run=run)


CHECKS = (
    _check("own-rows", "INV03", "Each row is its own", judges.neighbours),
    _check("masked", "DRAW02", "-inf stays -inf", judges.masked),
    _check("finite", "ERR16", "No NaN and no +inf appears", judges.finite),
    _check("form", "IO04", "Shape, dtype and device stay", judges.same_form),
    _check("row-stride", "IO02", "Any row stride", judges.in_wider_buffer),
    Check(id="empty-batch", clauses=("IO10",), title="An empty batch is legal", run=check_empty),
)
