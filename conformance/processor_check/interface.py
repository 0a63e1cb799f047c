"""PLUG09: the parts of the interface, and that a processor does anything at all with the given requests."""

from aliquot.conformance.processor_check.batch import Rows, rows
from aliquot.conformance.processor_check.compare import first_difference
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed, passed
from aliquot.conformance.processor_check.search import Difference, searched
from aliquot.conformance.processor_check.subject import Subject, additions, update
from aliquot.reports.results import Verdict

EXAMPLES = 60


def check_claim_kept(subject: Subject) -> Outcome:
    """is_argmax_invariant gives one bool, however often it is asked."""
    processor = subject.make()
    said = [processor.is_argmax_invariant()]
    update(processor, additions([subject.request(kind) for kind in range(len(subject.kinds))]))
    said.append(processor.is_argmax_invariant())
    said.append(subject.make().is_argmax_invariant())
    if not all(isinstance(claim, bool) for claim in said) or len(set(said)) > 1:
        return failed(Difference(wanted="one bool, always the same", got=f"{said}"))
    return passed(f"is_argmax_invariant is {said[0]}")


def acting(subject: Subject) -> tuple[int, ...]:
    """The kinds of request with which some logits change."""

    def changes(rows: Rows) -> Difference | None:
        same = first_difference(rows.logits(subject), rows.applied(subject)) is None
        return None if same else Difference(wanted="", got="a change")

    def acts(kind: int) -> bool:
        alone = rows(subject, kind).map(lambda row: Rows((row,)))
        return searched(subject, alone, changes, EXAMPLES).fault is not None

    return tuple(kind for kind in range(1, len(subject.kinds)) if acts(kind))


def check_active(subject: Subject) -> Outcome:
    """Some request changes some logits; otherwise all other checks are void."""
    number = len(subject.kinds) - 1
    if subject.acting:
        return passed(f"{len(subject.acting)} of {number} kinds of request make it act")
    return Outcome(
        verdict=Verdict.ERROR,
        reason="no request made the processor change any logits: give requests that do with --params",
    )


ACTIVE = Check(id="active", clauses=(), title="The requests make it act", run=check_active)
CHECKS = (
    Check(
        id="claim-kept",
        clauses=("PLUG09",),
        title="The claim is one bool",
        run=check_claim_kept,
    ),
)
