"""The likely cause of a failure: the known fault or freedom that explains what was seen."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import Case
from aliquot.contract.clauses import clauses
from aliquot.contract.profile import FREEDOMS, Profile
from aliquot.oracle import pipeline
from aliquot.oracle.softmax import log_softmax
from aliquot.statistical.eprocess import LikelihoodRatio

Rows = npt.NDArray[np.float64]
CLEARLY = 1000.0
MOST_BENT = 4096


@dataclass(frozen=True)
class Cause:
    """A likely cause in words, and the clauses that it breaks."""

    text: str
    clauses: tuple[str, ...]


@dataclass(frozen=True)
class Alternative:
    """A rule other than the contract's, and what it makes of one row: values shown and law.

    `bend` turns the law that the steps leave into the rule's own, where the draw itself is at fault.
    """

    about: str
    clauses: tuple[str, ...]
    shown: Rows
    left: Rows
    bend: Callable[[Rows], Rows] | None = None

    @property
    def costly(self) -> bool:
        """Whether the law of a faulty draw would take seconds to compute."""
        return self.bend is not None and int(np.count_nonzero(self.left)) > MOST_BENT

    def explains(self, seen: str) -> Cause:
        """This rule as the cause of what was seen."""
        return Cause(f"{seen} if {self.about}", self.clauses)

    @cached_property
    def law(self) -> Rows:
        """The law of the drawn token."""
        return self.bend(self.left) if self.bend else self.left


def of_support(
    case: Case, r: int, kept: npt.NDArray[np.bool_], declared: Capabilities
) -> Cause | None:
    """The first alternative that keeps exactly the tokens seen."""
    for other in _alternatives(case, r, declared):
        if np.array_equal(other.shown > -np.inf, kept):
            return other.explains("the kept tokens are those that result")
    return None


def of_values(case: Case, r: int, values: Rows, declared: Capabilities) -> Cause | None:
    """The alternative whose values lie nearest, if clearly nearer than the contract's."""
    contract = _contract(case, r, declared)
    errors = [(_error(other.shown, values), other) for other in _alternatives(case, r, declared)]
    error, nearest = min(errors, key=lambda pair: pair[0])
    if error * CLEARLY < _error(contract.shown, values):
        return nearest.explains("the values are those that result")
    return None


def of_draws(
    case: Case, r: int, ids: npt.NDArray[np.int64], declared: Capabilities
) -> Cause | None:
    """The alternative under which the draws are likeliest, if clearly likelier than under the contract."""
    others = {o.about: o for o in _alternatives(case, r, declared) if not o.costly}
    law = _contract(case, r, declared).law
    if (law[ids] == 0).any():
        return _allowing(list(others.values()), ids)
    ratios = LikelihoodRatio(law, {about: other.law for about, other in others.items()})
    ratios.observe(ids)
    likeliest = ratios.strongest()
    log10_e = ratios.evidence()[likeliest] / math.log(10)
    if log10_e < math.log10(CLEARLY):
        return None
    return others[likeliest].explains(f"the draws are 10^{log10_e:.0f} times likelier")


def _allowing(others: list[Alternative], ids: npt.NDArray[np.int64]) -> Cause | None:
    """Among the alternatives that allow every drawn token, the one that makes the draws likeliest."""
    able = [other for other in others if (other.law[ids] > 0).all()]
    if not able:
        return None
    likeliest = max(able, key=lambda other: float(np.log(other.law[ids]).sum()))
    return likeliest.explains("all drawn tokens are possible")


def _error(shown: Rows, values: Rows) -> float:
    """Largest difference over the values; infinite where one is masked and the other is not."""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(shown - values)
    same = (shown == values) | np.isnan(gaps)
    return float(np.where(same, 0.0, gaps).max(initial=0.0))


def _contract(case: Case, r: int, declared: Capabilities) -> Alternative:
    return _of(case.only([r]), "the contract holds", (), declared.profile)


def _alternatives(case: Case, r: int, declared: Capabilities) -> Iterator[Alternative]:
    from aliquot.conformance.faults import FAULTS

    alone = case.only([r])
    for fault in FAULTS.values():
        if not (fault.steps or fault.law or fault.shown):
            continue
        yield replace(
            _of(alone, fault.about, fault.clauses, declared.profile, fault.steps, fault.shown),
            bend=fault.law,
        )
    for freedom in FREEDOMS:
        breaks = tuple(c.id for c in clauses().values() if c.freedom == freedom.name)
        for choice in freedom.choices:
            if choice != getattr(declared.profile, freedom.name) and freedom.name != "bad_row":
                change: dict[str, Any] = {freedom.name: choice}
                about = f"{freedom.about}: {choice.replace('_', ' ')}"
                yield _of(alone, about, breaks, replace(declared.profile, **change))


def _of(
    alone: Case,
    about: str,
    breaks: tuple[str, ...],
    profile: Profile,
    steps: pipeline.Steps | None = None,
    shown: str | None = None,
) -> Alternative:
    outcome = pipeline.run(alone.logits, alone.batch(), profile=profile, steps=steps)
    raw = alone.mode.startswith("raw")
    rows = getattr(outcome, shown or "raw") if raw else outcome.filtered
    values = rows if alone.mode.endswith("logits") else log_softmax(rows)
    return Alternative(about, breaks, values[0], outcome.law[0])
