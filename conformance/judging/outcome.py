"""How a check ends: its verdict, its finding, and the result that a report shows."""

import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from aliquot.conformance.backend import Backend, Capabilities
from aliquot.conformance.behaviour.suspects import evidence_of, suspected
from aliquot.conformance.case import Case
from aliquot.conformance.causes import Cause, merged
from aliquot.conformance.tiers import Tier
from aliquot.contract.accuracy import CLASSES, AccuracyClass
from aliquot.contract.clauses import clauses
from aliquot.reports.results import CheckResult, Finding, Frequencies, Statistic, Verdict


class Concluded(Exception):
    """A check that ended early; the judge holds the verdict."""


@dataclass(frozen=True)
class Session:
    """What all checks of a worker share: the backend under its spec, the tier and the run's seed."""

    spec: str
    backend: Backend
    tier: Tier
    seed: int

    @property
    def capabilities(self) -> Capabilities:
        """The backend's declaration."""
        return self.backend.capabilities

    @property
    def accuracy(self) -> AccuracyClass:
        """The arithmetic that the backend declares."""
        return CLASSES[self.capabilities.accuracy]


@dataclass
class Outcome:
    """One check and what it found so far.

    `alpha` is its share of the run's false-alarm budget, `unseen_alpha` a further share for the laws of rows that
    the backend does not show, `seconds` its time for further draws. `undeclared` is what the backend would have to
    declare for any of the clauses to be tested.
    """

    session: Session
    check_id: str
    clause_ids: tuple[str, ...]
    title: str
    case_name: str
    alpha: float = 0.0
    undeclared: str = ""
    unseen_alpha: float = 0.0
    unseen_laws: int = 0
    seconds: float = 0.0
    verdict: Verdict | None = None
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    evidence: set[str] = field(default_factory=set)
    finding: Finding | None = None
    statistics: list[Statistic] = field(default_factory=list)
    frequencies: Frequencies | None = None

    @cached_property
    def rng(self) -> np.random.Generator:
        """The check's own noise, the same in every order of checks and number of workers."""
        digest = hashlib.sha256(self.check_id.encode()).digest()
        return np.random.default_rng([self.session.seed, *np.frombuffer(digest[:16], np.uint32)])

    def conclude(self, verdict: Verdict, reason: str) -> NoReturn:
        """End the check."""
        self.verdict, self.reason = verdict, reason
        raise Concluded(f"{verdict} {self.check_id}: {reason}")

    def fail(
        self,
        case: Case,
        row: int,
        wanted: str,
        got: str,
        *,
        tokens: Iterable[int] = (),
        effect: str | None = None,
        cause: Cause | None = None,
        kind: str = "",
        draws: int = 0,
    ) -> NoReturn:
        """End the check as FAIL with a finding, by evidence of `kind` after `draws` draws (0: not counted)."""
        asked = suspected(self.session.backend, self.clause_ids, case, row)
        cause = merged(cause, asked)
        self.finding = Finding(
            witness=case.witness(row, tokens),
            wanted=wanted,
            got=got,
            effect=effect,
            likely_cause=cause.text if cause else None,
            blames=cause.clauses if cause else (),
            explanations=cause.explanations if cause else (),
            evidence=kind or evidence_of(self.clause_ids),
            draws=draws,
            reproduce=self.reproduce(),
        )
        self.conclude(Verdict.FAIL, f"wanted {wanted}, got {got}")

    def passed(self, kind: str, note: str) -> None:
        """Record evidence of `kind` that agreed with the contract."""
        self.evidence.add(kind)
        self.notes.append(note)

    def equal(
        self, case: Case, row: int, what: str, wanted: Any, got: Any, tokens: Iterable[int] = ()
    ) -> None:
        """Fail unless two values are the same."""
        if wanted != got:
            self.fail(case, row, f"{what} {wanted}", str(got), tokens=tokens)
        self.passed("exact", f"{what} as wanted")

    def reproduce(self) -> str:
        """The command that runs this check alone."""
        session = self.session
        words = ["aliquot", "run", "--backend", session.spec, "--tier", session.tier.name,
                 "--seed", str(session.seed), "--only", self.check_id]  # fmt: skip
        return shlex.join(words)

    def result(self, group: str) -> CheckResult:
        """The check's result; a check without evidence is an ERROR."""
        if self.verdict is None:
            self._finish()
        assert self.verdict is not None
        return CheckResult(
            id=self.check_id,
            clauses=self.clause_ids,
            group=group,
            title=self.title,
            case=self.case_name,
            evidence=", ".join(sorted(self.evidence)) or "none",
            verdict=self.verdict,
            reason=self.reason,
            finding=self.finding,
            statistics=tuple(self.statistics),
            frequencies=self.frequencies,
            alpha=self.alpha + (self.unseen_alpha if self.unseen_laws else 0.0),
        )

    def _finish(self) -> None:
        if not self.notes:
            self.verdict, self.reason = Verdict.ERROR, "the check compared nothing"
            return
        if self.undeclared:
            self.verdict, self.reason = Verdict.UNSUPPORTED, f"not declared: {self.undeclared}"
            return
        departures = self.session.capabilities.profile.departures()
        freedoms = {clauses()[c].freedom for c in self.clause_ids} & set(departures)
        self.reason = "; ".join(dict.fromkeys(self.notes))
        self.verdict = Verdict.DIVERGES if freedoms else Verdict.PASS
        if freedoms:
            choices = ", ".join(f"{name} = {departures[name]}" for name in sorted(freedoms))
            self.reason = f"as declared, {choices}: {self.reason}"
