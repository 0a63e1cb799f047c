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
from aliquot.contract.profile import FREEDOMS, Profile
from aliquot.oracle import pipeline
from aliquot.oracle.softmax import log_softmax
from aliquot.statistical.eprocess import LikelihoodRatio

Rows = npt.NDArray[np.float64]
CLEARLY = 1000.0


@dataclass(frozen=True)
class Alternative:
    """A rule other than the contract's, and what it makes of one row: values shown and law.

    `bend` turns the law that the steps leave into the rule's own, where the draw itself is at fault.
    """

    about: str
    shown: Rows
    left: Rows
    bend: Callable[[Rows], Rows] | None = None

    @cached_property
    def law(self) -> Rows:
        """The law of the drawn token."""
        return self.bend(self.left) if self.bend else self.left


def of_support(
    case: Case, r: int, kept: npt.NDArray[np.bool_], declared: Capabilities
) -> str | None:
    """The first alternative that keeps exactly the tokens seen."""
    for other in _alternatives(case, r, declared):
        if np.array_equal(other.shown > -np.inf, kept):
            return f"the kept tokens are those that result if {other.about}"
    return None


def of_values(case: Case, r: int, values: Rows, declared: Capabilities) -> str | None:
    """The alternative whose values lie nearest, if clearly nearer than the contract's."""
    contract = _contract(case, r, declared)
    errors = [(_error(other.shown, values), other) for other in _alternatives(case, r, declared)]
    if not errors:
        return None
    error, nearest = min(errors, key=lambda pair: pair[0])
    if error * CLEARLY < _error(contract.shown, values):
        return f"the values are those that result if {nearest.about}"
    return None


def of_draws(case: Case, r: int, ids: npt.NDArray[np.int64], declared: Capabilities) -> str | None:
    """The alternative under which the draws are likeliest, if clearly likelier than under the contract."""
    others = list(_alternatives(case, r, declared))
    if not others:
        return None
    law = _contract(case, r, declared).law
    impossible = np.count_nonzero(law[ids] == 0)
    if impossible:
        return _allowing(others, ids)
    ratios = LikelihoodRatio(law, {o.about: o.law for o in others})
    ratios.observe(ids)
    log10_e = ratios.evidence()[ratios.strongest()] / math.log(10)
    if log10_e < math.log10(CLEARLY):
        return None
    return f"the draws are 10^{log10_e:.0f} times likelier if {ratios.strongest()}"


def _allowing(others: list[Alternative], ids: npt.NDArray[np.int64]) -> str | None:
    """Among the alternatives that allow every drawn token, the one that makes the draws likeliest."""
    scores = {o.about: float(np.log(o.law[ids]).sum()) for o in others if (o.law[ids] > 0).all()}
    if not scores:
        return None
    return f"all drawn tokens are possible if {max(scores, key=lambda about: scores[about])}"


def _error(shown: Rows, values: Rows) -> float:
    """Largest difference over the values; infinite where one is masked and the other is not."""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(shown - values)
    same = (shown == values) | np.isnan(gaps)
    return float(np.where(same, 0.0, gaps).max(initial=0.0))


def _contract(case: Case, r: int, declared: Capabilities) -> Alternative:
    return _of(case.only([r]), "the contract holds", declared.profile, None)


def _alternatives(case: Case, r: int, declared: Capabilities) -> Iterator[Alternative]:
    from aliquot.conformance.faults import FAULTS

    alone = case.only([r])
    for fault in FAULTS.values():
        about = f"{fault.about} ({' '.join(fault.clauses)})"
        if fault.steps is not None:
            yield _of(alone, about, declared.profile, fault.steps)
        elif fault.law is not None:
            plain = _of(alone, about, declared.profile, None)
            yield replace(plain, bend=fault.law)
        elif fault.shown is not None:
            yield _of(alone, about, declared.profile, None, fault.shown)
    for freedom in FREEDOMS:
        for choice in freedom.choices:
            if choice != getattr(declared.profile, freedom.name) and freedom.name != "bad_row":
                change: dict[str, Any] = {freedom.name: choice}
                profile = replace(declared.profile, **change)
                yield _of(alone, f"{freedom.about}: {choice.replace('_', ' ')}", profile, None)


def _of(
    alone: Case,
    about: str,
    profile: Profile,
    steps: pipeline.Steps | None,
    shown: str | None = None,
) -> Alternative:
    outcome = pipeline.run(alone.logits, alone.batch(), profile=profile, steps=steps)
    stage = shown or ("raw" if alone.mode.startswith("raw") else "filtered")
    rows = getattr(outcome, stage)
    values = rows if alone.mode.endswith("logits") else log_softmax(rows)
    return Alternative(about, values[0], outcome.law[0])
