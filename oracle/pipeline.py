"""The contract's order of steps as one list, and what running it yields.

A step is a pure function from rows to rows. A sampler that departs from the contract is the same
list with a step moved, replaced or removed; a freedom that concerns order is the list that
`steps_for` gives for the profile.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import Batch
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import (
    allowed,
    bad_words,
    grammar,
    greedy,
    logit_bias,
    min_p,
    min_tokens,
    penalties,
    temperature,
    thinking,
    top_k,
    top_p,
)
from aliquot.oracle.context import Context
from aliquot.oracle.rows import RowError, Rows, from_logits, require_alive
from aliquot.oracle.softmax import softmax

__all__ = [
    "CONTRACT",
    "Context",
    "Outcome",
    "RowError",
    "Rows",
    "Step",
    "moved",
    "removed",
    "replaced",
    "run",
    "steps_for",
]


@dataclass(frozen=True)
class Step:
    """One step: its name, the clauses that it implements and the pure function that does it."""

    name: str
    clauses: tuple[str, ...]
    run: Callable[[Rows, Context], Rows]


Steps = tuple[Step, ...]

CONTRACT: Steps = (
    Step("grammar", grammar.CLAUSES, grammar.apply),
    Step("allowed_token_ids", allowed.CLAUSES, allowed.apply),
    Step("bad_words", bad_words.CLAUSES, bad_words.apply),
    Step("min_tokens", min_tokens.CLAUSES, min_tokens.apply),  # BIAS05
    Step("logit_bias", logit_bias.CLAUSES, logit_bias.apply),
    Step("penalties", penalties.CLAUSES, penalties.apply),
    Step("thinking_budget", thinking.CLAUSES, thinking.apply),  # GREEDY05
    Step("temperature", temperature.CLAUSES, temperature.apply),
    Step("min_p", min_p.CLAUSES, min_p.apply),
    Step("top_k", top_k.CLAUSES, top_k.apply),
    Step("top_p", top_p.CLAUSES, top_p.apply),
)


@dataclass(frozen=True)
class Outcome:
    """What the steps leave, all of it float64 `[n, V]` unless said.

    `raw` is the row after the grammar, `penalised` after the thinking budget, `filtered` after the
    last step. `greedy_ids` int64 `[n]` is the argmax of `penalised`. `law` is the law of the token,
    certainty for greedy rows. `trace` holds (step, rows) pairs in order when asked for. `profile`
    is the one in force.
    """

    raw: Rows
    penalised: Rows
    filtered: Rows
    greedy_ids: npt.NDArray[np.int64]
    law: Rows
    trace: tuple[tuple[str, Rows], ...] = ()
    profile: Profile = CANONICAL


def run(
    logits: npt.ArrayLike,
    batch: Batch,
    *,
    profile: Profile = CANONICAL,
    steps: Steps | None = None,
    parameter_dtype: type[Any] = np.float32,
    trace: bool = False,
) -> Outcome:
    """Run the steps on float16, float32 or float64 logits `[n, V]`, which stay as they were.

    `steps` defaults to the contract's order under the profile; parameters act as rounded to
    `parameter_dtype` (INV10). Raises RowError for a row with NaN, +inf or nothing left, naming row,
    request and step (ERR16), and BatchError for logits of another shape than the batch's (ERR14).
    """
    context = Context(batch, profile, parameter_dtype)
    rows = from_logits(logits, batch)
    require_alive(rows, batch, "logits")
    after = {"logits": rows}
    for step in steps_for(profile) if steps is None else steps:
        with np.errstate(over="ignore", under="ignore"):
            rows = step.run(rows, context)
        require_alive(rows, batch, step.name)
        after[step.name] = rows
    return _outcome(after, context, trace)


def _outcome(after: dict[str, Rows], context: Context, trace: bool) -> Outcome:
    """Snapshots by step name; a list without the step falls back to the rows before it."""
    filtered = list(after.values())[-1]
    raw = after.get("grammar", after["logits"])  # GRAM03 LOGP03
    penalised = after.get("thinking_budget", after.get("penalties", raw))
    greedy_ids = greedy.ids(penalised)
    law = greedy.one_hot(softmax(filtered), greedy_ids, greedy.is_greedy(context))
    kept = tuple(after.items())[1:] if trace else ()
    return Outcome(raw, penalised, filtered, greedy_ids, law, kept, context.profile)


def steps_for(profile: Profile) -> Steps:
    """The contract's steps in the order that the profile declares.

    `filter_order = joint` cuts the nucleus on the full law and then intersects with top-k: as both
    keep upper sets, that is top-p before top-k.
    """
    steps = CONTRACT
    if profile.filter_order == "joint":
        steps = moved(steps, "top_p", before="top_k")
    if profile.minp_order == "before_temperature":
        steps = moved(steps, "min_p", before="temperature")
    if profile.minp_order == "after_filters":
        steps = moved(steps, "min_p")
    if profile.temperature_order == "after":
        steps = moved(steps, "temperature")
        if profile.minp_order == "after_temperature":
            steps = moved(steps, "min_p")
    return steps


def replaced(steps: Steps, name: str, run: Callable[[Rows, Context], Rows]) -> Steps:
    """The steps with the named one doing something else. Raises KeyError for an unknown name."""
    _index(steps, name)
    return tuple(replace(step, run=run) if step.name == name else step for step in steps)


def moved(steps: Steps, name: str, *, before: str | None = None) -> Steps:
    """The steps with the named one moved directly before another, or to the end. Raises KeyError."""
    step = steps[_index(steps, name)]
    others = removed(steps, name)
    place = len(others) if before is None else _index(others, before)
    return (*others[:place], step, *others[place:])


def removed(steps: Steps, name: str) -> Steps:
    """The steps without the named one. Raises KeyError for an unknown name."""
    index = _index(steps, name)
    return (*steps[:index], *steps[index + 1 :])


def _index(steps: Steps, name: str) -> int:
    names = [step.name for step in steps]
    if name not in names:
        raise KeyError(f"step {name!r} is unknown, allowed are {', '.join(names)}")
    return names.index(name)
