"""Hypothesis searches for a history after which a row is unlike a fresh one, and shrinks what it finds."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import cast

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from aliquot.conformance.backend import StatefulBackend
from aliquot.conformance.examples import without_constants
from aliquot.conformance.judge import Judge
from aliquot.conformance.state_machine.engine import MOST_ROWS, Change, Engine, Habit
from aliquot.conformance.state_machine.expected import Expected
from aliquot.conformance.state_machine.requests import KINDS, Requests
from aliquot.conformance.state_machine.simpler import simpler
from aliquot.conformance.state_machine.witness import Departure, report
from aliquot.contract.batch import LogprobsMode
from aliquot.reports.results import Verdict

RULES = 40
ROUND = 50
MOST_QUIET = 4
SHOWN: tuple[LogprobsMode, ...] = ("processed_logits", "processed_logprobs")
PLACES, NEW = range(MOST_ROWS), range(KINDS)


def _among(changes: Sequence[Change]) -> st.SearchStrategy[Change]:
    """One of many changes, which `sampled_from` would list whole in its repr."""
    return st.integers(0, len(changes) - 1).map(lambda i: changes[i])


ARRIVALS = [Change(come=(kind,)) for kind in NEW]
DEPARTURES = [
    Change(leave=(place,), preempted=preempted, habit=habit)
    for habit, preempted, place in product(Habit, (False, True), PLACES)
]
REPLACEMENTS = [replace(change, come=(kind,)) for change, kind in product(DEPARTURES, NEW)]
RETURNS = [Change(back=1, copied=copied) for copied in (False, True)]
EXCHANGES = [Change(swaps=(pair,)) for pair in combinations(PLACES, 2)]
EDITS = st.one_of(*map(_among, (ARRIVALS, DEPARTURES, REPLACEMENTS, RETURNS, EXCHANGES)))
"""One edit: a request arrives, leaves, takes another's row or comes back, or two exchange their rows."""

QUIET = [Change(steps=steps) for steps in range(1, MOST_QUIET + 1)]
CHANGES = _among(QUIET) | EDITS | st.builds(Change.joined, EDITS, EDITS)


class StateMachine(RuleBasedStateMachine):
    """One history; each rule is a change of the batch and a step, or steps without a change."""

    def __init__(self, search: "HistorySearch") -> None:
        super().__init__()
        self.search, self.engine = search, search.engine()

    @rule(change=CHANGES)
    def change(self, change: Change) -> None:
        """A change of the batch, if any, and steps."""
        self.engine.play(change)

    def teardown(self) -> None:
        """Judge all steps of the history at once."""
        self.search.judge_history(self.engine)


class HistorySearch:
    """A search of at least `steps` steps for a departure, the same for the same judge."""

    def __init__(self, judge: Judge, steps: int) -> None:
        declared = judge.session.capabilities
        shown = [mode for mode in SHOWN if judge.shows(mode)]
        mode, rng = (shown or ["raw_logprobs"])[0], judge.rng
        self.asked = Requests.made(rng, declared.parameters, mode, bool(shown))
        self.expected = Expected(judge, self.asked)
        self.backend = cast("StatefulBackend", judge.session.backend)
        self.steps = steps
        self.seed = int(rng.integers(2**63))
        self.done = self.histories = 0
        self.smallest: Departure | None = None

    def run(self) -> Departure | None:
        """The smallest departure among those found and shrunk, None if there is none.

        Each kind of request is tried alone first: there is nothing to shrink where that departs.
        """
        if any(self._smaller((Change(come=(kind,)),)) for kind in NEW):
            return self.smallest
        while self.done < self.steps and self.smallest is None:
            try:
                self._round()
            except (Departure, HypothesisException):
                if self.smallest is None:
                    raise
        while self.smallest and any(map(self._smaller, simpler(self.smallest.changes))):
            pass
        return self.smallest

    def _round(self) -> None:
        options = hypothesis.settings(
            max_examples=min(ROUND, -(-(self.steps - self.done) // RULES)),
            stateful_step_count=RULES,
            phases=(Phase.generate, Phase.shrink),
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
        )

        @hypothesis.seed(self.seed + self.done)
        def machine() -> StateMachine:
            return StateMachine(self)

        with without_constants():
            run_state_machine_as_test(cast("type[StateMachine]", machine), settings=options)

    def _smaller(self, changes: tuple[Change, ...]) -> bool:
        """Whether the history departs and is the smallest so far."""
        before, engine = self.smallest, self.engine()
        for change in changes:
            engine.play(change)
        with contextlib.suppress(Departure):
            self.judge_history(engine)
        return self.smallest is not before

    def engine(self) -> Engine:
        """A new history."""
        self.histories += 1
        return Engine(self.backend, self.asked)

    def judge_history(self, engine: Engine) -> None:
        """Raise the Departure at which the history first departs, if it does."""
        self.done += len(engine.steps)
        place = self.expected.departs(engine.steps)
        if place is not None:
            found = Departure(engine.changes, engine.steps[: place[0] + 1], place[1])
        elif engine.broken is not None:
            found = Departure(engine.changes, engine.steps, 0, engine.broken)
        else:
            return
        if self.smallest is None or found.size < self.smallest.size:
            self.smallest = found
        raise found


def judge_histories(judge: Judge, steps: int) -> None:
    """After each step of random histories every row is what a fresh oracle makes of its request.

    Values are compared where the backend shows them, drawn tokens always, those of seeded requests with what the
    backend draws in a fresh batch. The finding's witness holds the smallest history found.
    """
    if not judge.session.capabilities.stateful:
        judge.conclude(Verdict.UNSUPPORTED, "not declared: stateful")
    search = HistorySearch(judge, steps)
    found = search.run()
    if found is not None:
        report(judge, search.asked, search.expected, found)
    judge.passed(
        "exact", f"{search.done} steps of {search.histories} histories equal fresh batches"
    )
