"""What each step did to one row, as plain data for a table or a plot."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aliquot.contract.accuracy import CLASSES, AccuracyClass
from aliquot.contract.batch import Batch
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import bounds, pipeline
from aliquot.oracle.logprobs import largest
from aliquot.oracle.rows import Rows, from_logits
from aliquot.oracle.softmax import softmax

TOP = 5


@dataclass(frozen=True)
class TokenView:
    """A token with its logit and its probability in the softmax of the row."""

    token: int
    logit: float
    prob: float


@dataclass(frozen=True)
class StepView:
    """A row after one step.

    `alive` tokens are finite; `mass` is their share of the softmax before the step; `changed`
    counts logits that got another finite value; `removed` counts tokens that became -inf and
    `removed_top` are the likeliest of them, with their logit and probability before the step; `top`
    are the largest after it; `undecided` counts tokens whose stay the declared rounding leaves
    open.
    """

    name: str
    clauses: tuple[str, ...]
    alive: int
    mass: float
    changed: int
    removed: int
    removed_top: tuple[TokenView, ...]
    top: tuple[TokenView, ...]
    undecided: int


def explain(
    logits: npt.ArrayLike,
    batch: Batch,
    row: int = 0,
    *,
    accuracy: AccuracyClass = CLASSES["float32"],
    profile: Profile = CANONICAL,
) -> tuple[StepView, ...]:
    """The logits of one row of `[n, V]` as they came, then after each step in order.

    Raises RowError as `pipeline.run` does.
    """
    outcome = pipeline.run(
        logits, batch, profile=profile, parameter_dtype=accuracy.parameter_dtype, trace=True
    )
    held = bounds.trace(logits, batch, row, accuracy=accuracy, profile=profile)
    before = from_logits(logits, batch)[row]
    views = [_view("logits", (), before, before, 0)]
    for step, (name, rows) in zip(pipeline.steps_for(profile), outcome.trace, strict=True):
        views.append(_view(name, step.clauses, before, rows[row], held.get(name, 0)))
        before = rows[row]
    return tuple(views)


def _view(
    name: str, clauses: tuple[str, ...], before: Rows, after: Rows, undecided: int
) -> StepView:
    probs = softmax(np.stack([before, after]))
    alive = after > -np.inf
    removed = np.where(~alive & (before > -np.inf), before, -np.inf)
    return StepView(
        name=name,
        clauses=clauses,
        alive=int(alive.sum()),
        mass=float(probs[0][alive].sum()),
        changed=int((alive & (before != after)).sum()),
        removed=int((removed > -np.inf).sum()),
        removed_top=_top(removed, probs[0]),
        top=_top(after, probs[1]),
        undecided=undecided,
    )


def _top(row: Rows, probs: Rows) -> tuple[TokenView, ...]:
    tokens = largest(row, min(TOP, int((row > -np.inf).sum())))
    return tuple(TokenView(int(t), float(row[t]), float(probs[t])) for t in tokens)
