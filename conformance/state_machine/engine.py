"""An engine that keeps requests in a persistent batch, tells a backend what changed and notes its answers."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays
from aliquot.conformance.arrays import Answer, FormError
from aliquot.conformance.backend import StatefulBackend, one_line, place_of
from aliquot.conformance.case import Case
from aliquot.conformance.judging.calls import BACKEND_RAISES
from aliquot.conformance.state_machine.requests import VOCAB, Key, Requests
from aliquot.contract.batch import Added, BatchUpdate, Moved, MoveDirectionality

MOST_ROWS = 4
NO_ANSWER = Answer(np.zeros(0, dtype=np.int64))


class Habit(Enum):
    """How an update tells that a request left, and what closes the gap."""

    REMOVED = "named as removed, the gap closed by a one-way move"
    SWAPPED = "named as removed, the gap closed by a swap with the empty row"
    OVERWRITTEN = "not named where an add or a one-way move overwrites it"


@dataclass(frozen=True)
class Change:
    """What happens before a step, and how many steps follow.

    `leave` and `swaps` hold places, counted from the last row modulo the number of requests: a history then keeps its
    meaning when an earlier request is left out. Those that leave wait if `preempted`. The first `back` of those that
    waited before return, their output in a new list if `copied`. `come` holds the kinds of new requests.
    """

    leave: tuple[int, ...] = ()
    preempted: bool = False
    back: int = 0
    copied: bool = False
    come: tuple[int, ...] = ()
    swaps: tuple[tuple[int, int], ...] = ()
    habit: Habit = Habit.REMOVED
    steps: int = 1

    def joined(self, other: "Change") -> "Change":
        """Both in one update, told by the habit of the first."""
        return replace(
            self,
            leave=self.leave + other.leave,
            back=self.back + other.back,
            come=self.come + other.come,
            swaps=self.swaps + other.swaps,
        )


@dataclass(eq=False)
class Live:
    """A request in the engine: its number in order of arrival, its kind and its running output."""

    number: int
    kind: int
    output: list[int] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """What decides its next row."""
        return self.kind, tuple(self.output)


@dataclass(frozen=True, eq=False)
class Step:
    """The update, the requests that it added as (number, key), and what was asked and answered."""

    update: BatchUpdate | None
    added: tuple[tuple[int, Key], ...]
    keys: tuple[Key, ...] = ()
    answer: Answer = NO_ANSWER

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """The values shown, [n, VOCAB]."""
        assert self.answer.logprobs is not None
        return self.answer.logprobs


@dataclass(eq=False)
class Engine:
    """Plays one history on a backend, each drawn token appended to its request's output.

    `broken` is what ended the history early: an answer of the wrong form, or what an exception said.
    """

    backend: StatefulBackend
    asked: Requests
    rows: list[Live] = field(default_factory=list)
    waiting: list[Live] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    arrived: int = 0
    broken: FormError | str | None = None

    def __post_init__(self) -> None:
        try:
            if hasattr(self.backend, "reseed"):
                self.backend.reseed(0)
            self.backend.start(VOCAB, self.asked.mode)
        except BACKEND_RAISES as error:
            self.broken = f"start raised {one_line(error)}{place_of(error)}"

    def play(self, change: Change) -> None:
        """Change the batch, then take its steps."""
        self.changes.append(change)
        if self.broken is None:
            self._step(*self._update(change))
        for _ in range(1, change.steps):
            if self.broken is None:
                self._step(None, ())

    def _step(self, update: BatchUpdate | None, added: tuple[tuple[int, Key], ...]) -> None:
        """Draw one token per row."""
        keys = tuple(live.key for live in self.rows)
        try:
            answer = self._answer(update, keys)
        except FormError as error:
            self.broken = error
        except BACKEND_RAISES as error:
            self.broken = f"step raised {one_line(error)}{place_of(error)}"
        if self.broken is not None:
            self.steps.append(Step(update, added))
            return
        self.steps.append(Step(update, added, keys, answer))
        for live, token in zip(self.rows, answer.ids.tolist(), strict=True):
            live.output.append(token)

    def _answer(self, update: BatchUpdate | None, keys: Sequence[Key]) -> Answer:
        declared, logits = self.backend.capabilities, self.asked.logits_of(keys)
        case = Case(name="step", logits=logits, requests=(), mode=self.asked.mode)
        output = self.backend.step(arrays.logits_for(case, declared), update)
        answer = arrays.read(output, case, declared)
        shape = None if answer.logprobs is None else answer.logprobs.shape
        if keys and self.asked.shown and shape != logits.shape:
            raise FormError("LOGP09", f"values of shape {list(logits.shape)}", f"shape {shape}")
        return answer

    def _update(self, change: Change) -> tuple[BatchUpdate | None, tuple[tuple[int, Key], ...]]:
        """Carry the change out; the update that tells of it, None when nothing changed."""
        slots = dict(enumerate(self.rows))
        left = sorted({_row(place, len(slots)) for place in change.leave if slots})
        gone = [slots.pop(row) for row in left]
        free = (*left, *range(len(self.rows), MOST_ROWS))
        placed = dict(zip(free, self._coming(change, len(free)), strict=False))
        if change.preempted:
            self.waiting += gone
        slots |= placed
        moved = [*_closed(slots, change.habit), *_swapped(slots, change.swaps)]
        self.rows = [slots[row] for row in range(len(slots))]
        if not (left or placed or moved):
            return None, ()
        update = BatchUpdate(
            batch_size=len(slots),
            removed=_named(left, {*placed, *(b for _, b, _ in moved)}, change.habit),
            added=[self._added(row, live) for row, live in placed.items()],
            moved=moved,
        )
        return update, tuple((live.number, live.key) for live in placed.values())

    def _coming(self, change: Change, most: int) -> list[Live]:
        """Up to `most` requests that return or arrive."""
        count = min(change.back, most)
        back, self.waiting = self.waiting[:count], self.waiting[count:]
        if change.copied:
            back = [Live(live.number, live.kind, list(live.output)) for live in back]
        new = change.come[: most - len(back)]
        self.arrived += len(new)
        numbers = range(self.arrived - len(new), self.arrived)
        return [*back, *map(Live, numbers, new)]

    def _added(self, row: int, live: Live) -> Added:
        kind = self.asked.kinds[live.kind]
        return (row, kind.params, kind.prompt, live.output)


def _row(place: int, rows: int) -> int:
    return rows - 1 - place % rows


def _closed(slots: dict[int, Live], habit: Habit) -> Iterator[Moved]:
    """Move the last request into the lowest empty row until there is no gap."""
    while gaps := set(range(len(slots))) - set(slots):
        gap, last = min(gaps), max(slots)
        slots[gap] = slots.pop(last)
        if habit is Habit.SWAPPED:
            yield gap, last, MoveDirectionality.SWAP
        else:
            yield last, gap, MoveDirectionality.UNIDIRECTIONAL


def _swapped(slots: dict[int, Live], swaps: Sequence[tuple[int, int]]) -> Iterator[Moved]:
    """Exchange the requests at each pair of places."""
    for pair in swaps if slots else ():
        a, b = (_row(place, len(slots)) for place in pair)
        if a != b:
            slots[a], slots[b] = slots[b], slots[a]
            yield a, b, MoveDirectionality.SWAP


def _named(left: Sequence[int], overwritten: Collection[int], habit: Habit) -> list[int]:
    """The rows that the update names as removed."""
    return [row for row in left if habit is not Habit.OVERWRITTEN or row not in overwritten]
