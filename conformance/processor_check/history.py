"""Histories of a persistent batch: requests come, end, move and grow, as in a serving engine."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hypothesis import strategies as st

from aliquot.conformance.processor_check.batch import kinds, token_lists
from aliquot.conformance.processor_check.params import as_json
from aliquot.conformance.processor_check.subject import MAX_ROWS, Subject
from aliquot.contract.batch import PLACEHOLDER, BatchUpdate, MoveDirectionality, Request
from aliquot.fast.processors.interface import RequestParams
from aliquot.fast.processors.updates import BatchUpdateBuilder

MOST_FIRST, MOST_STEPS = 4, 4


@dataclass(frozen=True)
class Newcomer:
    """A request before it is in the batch."""

    kind: int
    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()

    def request(self, subject: Subject) -> Request:
        """The request, with a running list of its own."""
        return Request(
            id="",
            params=subject.kinds[self.kind],
            prompt_token_ids=self.prompt,
            output_token_ids=list(self.output),
        )


@dataclass(frozen=True)
class Step:
    """What happens before one step.

    Rows are counted from the last one, modulo the number of requests: a history then keeps its meaning
    when an earlier request is left out.
    """

    finish: tuple[int, ...] = ()
    start: tuple[Newcomer, ...] = ()
    swaps: tuple[tuple[int, int], ...] = ()
    grown: tuple[int, ...] = ()


@dataclass(frozen=True)
class Habits:
    """How an engine writes its updates.

    `fill` is the move that closes a gap: UNIDIRECTIONAL, or SWAP with the empty row. With `lists_refilled` a row that
    was emptied and filled in one step is named as removed too. With `placeholder` an output grows by
    -1 before the update, replaced by the token before apply. With `keeps_size` as many requests come as go.
    """

    fill: MoveDirectionality = MoveDirectionality.UNIDIRECTIONAL
    lists_refilled: bool = False
    placeholder: bool = False
    keeps_size: bool = False


USUAL = Habits()


@dataclass(frozen=True)
class History:
    """The first requests and the steps."""

    first: tuple[Newcomer, ...]
    steps: tuple[Step, ...]
    habits: Habits

    @property
    def size(self) -> int:
        """The number of requests at first."""
        return len(self.first)

    def witness(self, subject: Subject) -> dict[str, Any]:
        """The requests and each step's update and tokens as JSON values."""
        return {f"step {i}": _told(played) for i, played in enumerate(replay(self, subject))}


@dataclass
class Played:
    """The batch after a step and the update that led there; `grown` are the tokens that came with it."""

    requests: list[Request]
    update: BatchUpdate | None
    grown: list[int]
    unsettled: list[tuple[list[int], int]]

    def settle(self) -> None:
        """Put the tokens where placeholders stand."""
        while self.unsettled:
            output, token = self.unsettled.pop()
            output[-1] = token


def replay(history: History, subject: Subject) -> Iterator[Played]:
    """Play a history; the first update adds the first requests."""
    batch = _PersistentBatch(history.habits)
    for step in (Step(start=history.first), *history.steps):
        played = batch.play(step, subject)
        yield played
        played.settle()


@dataclass
class _PersistentBatch:
    habits: Habits
    rows: dict[int, Request] = field(default_factory=dict)
    builder: BatchUpdateBuilder = field(default_factory=BatchUpdateBuilder)

    def play(self, step: Step, subject: Subject) -> Played:
        grown = self._grow(step.grown)
        refilled = self._refill(step, subject)
        swapped = self._close_gaps()
        for a, b in step.swaps:
            self._swap(a, b)
        named = swapped + (refilled if self.habits.lists_refilled else [])
        update = self.builder.get_and_reset(len(self.rows))
        if update is not None and named:
            update = replace(update, removed=sorted([*update.removed, *named], reverse=True))
        return Played(
            requests=[self.rows[row] for row in range(len(self.rows))],
            update=update,
            grown=[token for _, token in grown],
            unsettled=grown if self.habits.placeholder else [],
        )

    def _grow(self, tokens: tuple[int, ...]) -> list[tuple[list[int], int]]:
        """Append a token, or a placeholder, to every output; the outputs and their tokens."""
        if not tokens:
            return []
        grown = [
            (r.output_token_ids, tokens[row % len(tokens)]) for row, r in sorted(self.rows.items())
        ]
        for output, token in grown:
            output.append(PLACEHOLDER if self.habits.placeholder else token)
        return grown

    def _refill(self, step: Step, subject: Subject) -> list[int]:
        leaving = sorted({self._row(p) for p in step.finish if self.rows})
        coming = step.start[: MAX_ROWS - len(self.rows)]
        if self.habits.keeps_size and self.rows:
            leaving, coming = leaving[: len(coming)], coming[: len(leaving)]
        for place in leaving:
            del self.rows[place]
            self.builder.removed_append(place)
        refilled = []
        for newcomer in coming:
            free = self.builder.pop_removed()
            row = len(self.rows) if free is None else free
            refilled += [] if free is None else [row]
            request = newcomer.request(subject)
            self.rows[row] = request
            prompt = request.prompt_token_ids
            self.builder.added.append((row, request.params, prompt, request.output_token_ids))
        return refilled

    def _close_gaps(self) -> list[int]:
        """Move the last requests into the lowest free rows; those that a swap fills, they stay named as removed."""
        swapped = []
        while (free := self.builder.peek_removed()) is not None and free < len(self.rows):
            self.builder.pop_removed()
            last = max(self.rows)
            self.rows[free] = self.rows.pop(last)
            self.builder.moved.append((last, free, self.habits.fill))
            if self.habits.fill is MoveDirectionality.SWAP:
                swapped.append(free)
        return swapped

    def _row(self, place: int) -> int:
        return len(self.rows) - 1 - place % len(self.rows)

    def _swap(self, a: int, b: int) -> None:
        if len(self.rows) < 2:
            return
        a, b = self._row(a), self._row(b)
        if a != b:
            self.rows[a], self.rows[b] = self.rows[b], self.rows[a]
            self.builder.moved.append((a, b, MoveDirectionality.SWAP))


def histories(
    subject: Subject,
    most: int,
    *,
    finish: bool = False,
    start: bool = False,
    swaps: bool = False,
    grown: bool = False,
    habits: Habits = USUAL,
) -> st.SearchStrategy[History]:
    """Histories made only of the given kinds of change, with at most `most` requests at first."""
    none = st.just(())
    place = st.integers(0, 3)
    moves = swaps or (finish and not start)
    least = int(not (finish and start and swaps and grown))
    steps = st.builds(
        Step,
        finish=_few(place, least) if finish else none,
        start=_few(newcomers(subject), least) if start else none,
        swaps=_few(st.tuples(place, place), least) if swaps else none,
        grown=token_lists(subject) if grown else none,
    )
    return st.builds(
        History,
        first=st.lists(newcomers(subject), min_size=min(most, 1 + moves), max_size=most).map(tuple),
        steps=st.lists(steps, min_size=1, max_size=MOST_STEPS).map(tuple),
        habits=st.just(habits),
    )


def newcomers(subject: Subject) -> st.SearchStrategy[Newcomer]:
    """Requests of every kind, new or resumed with some output."""
    return st.builds(
        Newcomer,
        kind=kinds(subject),
        prompt=token_lists(subject),
        output=token_lists(subject),
    )


def _few(elements: st.SearchStrategy[Any], least: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, min_size=least, max_size=2).map(tuple)


def _told(played: Played) -> str:
    """One step on one line: `tokens 1, 1; removed [0]; row 1 to 0`."""
    parts = [f"tokens {', '.join(map(str, played.grown))}"] if played.grown else []
    update = played.update
    if update is None:
        return "; ".join([*parts, "no update"])
    if update.removed:
        parts.append(f"removed {list(update.removed)}")
    for row, params, prompt, output in update.added:
        asked = as_json(cast("RequestParams", params)) or "none"
        parts.append(
            f"row {row} added (params {asked}, prompt {list(prompt or ())}, output {list(output)})"
        )
    for a, b, how in update.moved:
        joined = "to" if how is MoveDirectionality.UNIDIRECTIONAL else "swapped with"
        parts.append(f"row {a} {joined} {b}")
    return "; ".join(parts)
