"""How a claim came out, and the checks' common form."""

from collections.abc import Callable
from dataclasses import dataclass

from aliquot.conformance.processor_check.search import Difference, Search
from aliquot.conformance.processor_check.subject import Subject
from aliquot.reports.results import Verdict


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The verdict on one claim, its reason, and the fault if there is one."""

    verdict: Verdict
    reason: str
    fault: Difference | None = None


@dataclass(frozen=True, kw_only=True)
class Check:
    """One claim: its id, the clauses it comes from, what it says, and the function that tries it."""

    id: str
    clauses: tuple[str, ...]
    title: str
    run: Callable[[Subject], Outcome]


def passed(reason: str) -> Outcome:
    """The claim held."""
    return Outcome(verdict=Verdict.PASS, reason=reason)


def failed(fault: Difference) -> Outcome:
    """The claim is false; `fault` says where."""
    reason = f"wanted {fault.wanted}, got {fault.got}"
    return Outcome(verdict=Verdict.FAIL, reason=reason, fault=fault)


def of_search(search: Search, reason: str) -> Outcome:
    """FAIL with the smallest example; UNDECIDED when only rounding could explain one; else PASS."""
    if search.fault is not None:
        return failed(search.fault)
    if search.undecided is not None:
        found = search.undecided
        told = f"wanted {found.wanted}, got {found.got}: inside the rounding band"
        return Outcome(verdict=Verdict.UNDECIDED, reason=told)
    return passed(reason)
