"""STATE01-STATE07: after any history a processor does what a new instance with the same requests does."""

from functools import partial
from typing import Any

from aliquot.conformance.processor_check.compare import different, first_difference, number
from aliquot.conformance.processor_check.history import (
    MOST_FIRST,
    Habits,
    History,
    Played,
    histories,
    replay,
)
from aliquot.conformance.processor_check.outcome import Check, Outcome, of_search
from aliquot.conformance.processor_check.search import EXAMPLES, Difference, smallest
from aliquot.conformance.processor_check.subject import Subject, apply, update
from aliquot.contract.batch import MoveDirectionality

RESTLESS = 2


def check_history(subject: Subject, **changes: Any) -> Outcome:
    """Histories of some kinds of change end like a fresh start."""
    strategy = partial(histories, subject, **changes)
    search = smallest(subject, strategy, MOST_FIRST, partial(departs, subject))
    return of_search(search, f"{EXAMPLES} histories end like a new instance with the same requests")


def check_quiet(subject: Subject) -> Outcome:
    """Steps without an update and without new tokens change nothing."""
    judge = partial(departs, subject, applications=RESTLESS)
    search = smallest(subject, partial(histories, subject), MOST_FIRST, judge)
    return of_search(search, f"repeated steps without an update agree in {EXAMPLES} batches")


def departs(subject: Subject, history: History, applications: int = 1) -> Difference | None:
    """The first place at which the veteran's logits are not the newcomer's."""
    veteran = subject.make()
    for step, played in enumerate(replay(history, subject)):
        for time in range(applications):
            update(veteran, played.update if time == 0 else None)
            played.settle()
            found = _compare(subject, veteran, played, step)
            if found is not None:
                return found
    return None


def _compare(subject: Subject, veteran: Any, played: Played, step: int) -> Difference | None:
    logits = subject.reference[: len(played.requests)]
    got = apply(veteran, logits)
    wanted = apply(subject.fresh(played.requests), logits)
    place = first_difference(wanted, got)
    if place is None:
        return None
    row, token = place
    return Difference(
        wanted=f"logit {number(wanted[row, token])} of token {token} in row {row} at step {step}, as in a new instance",
        got=f"{number(got[row, token])} ({number(logits[row, token])} before)",
        effect=f"{int(different(wanted, got).sum())} of {wanted.numel()} logits differ",
    )


def _check(name: str, clause: str, title: str, **changes: Any) -> Check:
    return Check(
        id=f"state-{name}",
        clauses=(clause,),
        title=title,
        run=partial(check_history, **changes),
    )


SWAP_FILL = Habits(fill=MoveDirectionality.SWAP)
REPLACE = Habits(keeps_size=True)
REFILL = Habits(keeps_size=True, lists_refilled=True)
PLACEHOLDER = Habits(placeholder=True)

CHECKS = (
    _check("removed-added", "STATE01", "A row removed and added in one update holds the new request",
           finish=True, start=True, habits=REFILL),
    _check("live-output", "STATE02", "Tokens are seen without an update", grown=True),
    _check("placeholder", "STATE02", "A token that comes between update and apply is seen", grown=True,
           habits=PLACEHOLDER),
    _check("overwrite", "STATE03", "An add replaces the request that was there",
           finish=True, start=True, habits=REPLACE),
    _check("move", "STATE04", "A unidirectional move frees its source and overwrites its target",
           finish=True),
    _check("swap", "STATE05", "A swap exchanges two rows", swaps=True),
    _check("swap-empty", "STATE05", "A swap with an empty row empties the other", finish=True,
           habits=SWAP_FILL),
    _check("history", "STATE06", "Any history ends like a fresh start",
           finish=True, start=True, swaps=True, grown=True),
    Check(id="state-quiet", clauses=("STATE07",), title="No update, no change", run=check_quiet),
)  # fmt: skip
