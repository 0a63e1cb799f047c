"""What the suites make of the known samplers: which evidence kills a fault, how soon, and what is blamed."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from aliquot.conformance import causes
from aliquot.conformance.faults import EQUIVALENTS, FAULTS
from aliquot.conformance.faults.fault import Fault
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.selftest import checks
from aliquot.conformance.tiers import TIERS
from aliquot.reports.results import CheckResult, Verdict, ranked_failures

KNOWN = FAULTS | EQUIVALENTS
LATE = re.compile(
    r"large_(rows|vocab)|real_rows|prompts_|decode_|nearly_flat|generated|far_tail|16_bit_rows|N\(0"
    r"|V = \d\d|\[\d{5,}|STATE06_history|INV03_.*batches|no_sharing|are_independent"
)
"""Names of the checks that take longest: of large vocabularies, of many rows, searches."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The suites' verdict on one known sampler.

    `killed_by` maps each kind of evidence that failed to the fewest draws with which it did, 0 where none were
    counted. `first` are the clauses of the failure shown first, `cause` the rule that explains most failures.
    """

    name: str
    group: str
    about: str
    report: str
    breaks: tuple[str, ...]
    checks: int
    failed: int
    errors: int
    killed_by: dict[str, int]
    first: tuple[str, ...]
    cause: str
    seconds: float

    @property
    def equivalent(self) -> bool:
        """Whether the sampler is right."""
        return self.name in EQUIVALENTS

    @property
    def as_wanted(self) -> bool:
        """A fault that failed a check, or an equivalent sampler that failed none and could be tested."""
        return not (self.failed or self.errors) if self.equivalent else self.failed > 0

    @property
    def own_clause(self) -> bool:
        """Whether the failure shown first is of a clause that the fault breaks."""
        return not set(self.first).isdisjoint(self.breaks)

    @property
    def right_cause(self) -> bool:
        """Whether the likely cause is the fault itself."""
        return self.cause == self.about

    @property
    def draws(self) -> int:
        """The fewest draws after which some evidence decided."""
        return min(self.killed_by.values(), default=0)


@dataclass(frozen=True)
class Conditions:
    """How a known sampler is run.

    `only` names the checks as in `aliquot run`; `quick` ends a faulty sampler at its first red check; with `ids_only`
    the samplers show neither values nor noise.
    """

    tier: str
    seed: int = 0
    only: str | None = None
    quick: bool = False
    ids_only: bool = False


def outcomes(names: Sequence[str], conditions: Conditions, *, workers: int) -> Iterator[Outcome]:
    """Run the suites on each known sampler, in `workers` processes (0: in this one), as they are done."""
    if not workers:
        yield from (outcome(name, conditions) for name in names)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(outcome, name, conditions) for name in names]
        for done in as_completed(waiting):
            yield done.result()


def outcome(name: str, conditions: Conditions) -> Outcome:
    """Run the suites on one known sampler, in this process; the longest checks only if nothing failed before.

    A quick run begins with the checks of the clauses that a fault breaks.
    """
    start = time.perf_counter()
    known = KNOWN[name].hidden() if conditions.ids_only else KNOWN[name]
    session = Session(f"fault:{name}", known.make(), TIERS[conditions.tier], conditions.seed)
    items = list(checks.collected(conditions.tier, conditions.seed, conditions.only))
    if conditions.quick:
        items.sort(key=lambda item: not any(clause in item.name for clause in known.clauses))
    found, killed = [], False
    for item in sorted(items, key=_late):
        if killed and (conditions.quick or _late(item)):
            break
        found.append(checks.judged(item, session))
        killed |= found[-1].verdict is Verdict.FAIL
    return described(known, causes.agreed(found), time.perf_counter() - start)


def _late(item: Any) -> bool:
    return bool(LATE.search(item.name))


def described(known: Fault, found: Sequence[CheckResult], seconds: float) -> Outcome:
    """The outcome in the results of some checks."""
    failures = ranked_failures(found)
    return Outcome(
        name=known.name,
        group=known.group,
        about=known.about,
        report=known.report,
        breaks=known.clauses,
        checks=len(found),
        failed=len(failures),
        errors=sum(check.verdict is Verdict.ERROR for check in found),
        killed_by=_kinds(failures),
        first=failures[0].clauses if failures else (),
        cause=causes.likeliest([check.finding for check in failures if check.finding]),
        seconds=round(seconds, 1),
    )


def _kinds(failures: Sequence[CheckResult]) -> dict[str, int]:
    """The kinds of evidence that failed and the fewest draws each took, the quickest first."""
    kinds: dict[str, int] = {}
    for check in failures:
        if check.finding:
            kind, draws = check.finding.evidence, check.finding.draws
            kinds[kind] = min(draws, kinds.get(kind, draws))
    return dict(sorted(kinds.items(), key=lambda item: (item[1], item[0])))
