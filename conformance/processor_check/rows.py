"""INV03, DRAW02, ERR16, IO02, IO04, IO10: rows, however they lie and however few there are."""

from collections.abc import Callable
from functools import partial

import torch

from aliquot.conformance.processor_check import judges
from aliquot.conformance.processor_check.batch import MOST_ROWS, Rows, batches
from aliquot.conformance.processor_check.compare import form
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed, of_search, passed
from aliquot.conformance.processor_check.search import (
    Difference,
    fault_of,
    searched,
    smallest,
)
from aliquot.conformance.processor_check.subject import (
    ProcessorRaised,
    Subject,
    apply,
    update,
)
from aliquot.contract.batch import BatchUpdate
from aliquot.fast.processors.interface import LogitsProcessor

EXAMPLES = 300
RowsJudge = Callable[[Subject, Rows], Difference | None]
JUDGES: tuple[RowsJudge, ...] = (
    judges.neighbours,
    judges.masked,
    judges.finite,
    judges.same_form,
    judges.in_wider_buffer,
)


def check_rows(subject: Subject, judge: RowsJudge) -> Outcome:
    """Nothing is found fault with in any batch; the batches are looked through once for all judges together."""
    held = f"held in {EXAMPLES} batches"
    if "suspects" not in subject.memory:
        subject.memory["suspects"] = _suspects(subject)
    if judge.__name__ not in subject.memory["suspects"]:
        return passed(held)
    strategy = partial(batches, subject)
    return of_search(
        smallest(subject, strategy, MOST_ROWS, partial(judge, subject), EXAMPLES), held
    )


def _suspects(subject: Subject) -> set[str]:
    """The judges that find fault with any of the batches."""
    found: set[str] = set()

    def note(rows: Rows) -> None:
        for judge in JUDGES:
            if fault_of(partial(judge, subject), rows) is not None:
                found.add(judge.__name__)

    searched(subject, batches(subject, MOST_ROWS), note, EXAMPLES)
    return found


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


def _check(name: str, clause: str, title: str, judge: RowsJudge) -> Check:
    return Check(id=name, clauses=(clause,), title=title, run=partial(check_rows, judge=judge))


CHECKS = (
    _check("own-rows", "INV03", "Each row is its own", judges.neighbours),
    _check("masked", "DRAW02", "-inf stays -inf", judges.masked),
    _check("finite", "ERR16", "No NaN and no +inf appears", judges.finite),
    _check("form", "IO04", "Shape, dtype and device stay", judges.same_form),
    _check("row-stride", "IO02", "Any row stride", judges.in_wider_buffer),
    Check(id="empty-batch", clauses=("IO10",), title="An empty batch is legal", run=check_empty),
)
