"""Bookkeeping of a persistent batch: what a row holds, and the lists that grow between steps."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from aliquot.contract.batch import Added, BatchUpdate, Moved, MoveDirectionality
from aliquot.contract.params import SamplingParams

T = TypeVar("T")
_WINDOW = 64


class RowMap(Generic[T]):
    """Payloads by row index, kept through removals, additions and moves (STATE01, STATE03-STATE05).

    A row without a payload costs nothing. `make` turns an added request into its payload, or None. Parameters of
    which `wants` is false never have a payload; it is asked once for requests that share theirs.
    """

    def __init__(
        self,
        make: Callable[[Added], T | None],
        wants: Callable[[SamplingParams], bool] = lambda params: True,
    ) -> None:
        self._make, self._wants = make, wants
        self._rows: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return iter(sorted(self._rows.items(), key=lambda item: item[0]))

    def get(self, row: int) -> T | None:
        """The payload of `row`, None if it has none."""
        return self._rows.get(row)

    def values(self) -> Iterable[T]:
        """The payloads, in no order."""
        return self._rows.values()

    def update(self, update: BatchUpdate) -> bool:
        """Apply removed, added, moved in this order; whether any payload came, went or moved."""
        if not self._rows and not self._any_wanted(update.added):
            return False
        before = dict(self._rows)
        for row in update.removed:
            self._rows.pop(row, None)
        for added in update.added:
            self._put(added[0], self._make(added))
        for move in update.moved:
            self._move(move)
        return before.keys() != self._rows.keys() or any(
            before[row] is not payload for row, payload in self._rows.items()
        )

    def _any_wanted(self, added: Iterable[Added]) -> bool:
        distinct = {id(params): params for _, params, _, _ in added}
        return any(map(self._wants, distinct.values()))

    def _put(self, row: int, payload: T | None) -> None:
        if payload is None:
            self._rows.pop(row, None)
        else:
            self._rows[row] = payload

    def _move(self, move: Moved) -> None:
        source, target, direction = move
        moving, displaced = self._rows.pop(source, None), self._rows.pop(target, None)
        self._put(target, moving)
        if direction is MoveDirectionality.SWAP:
            self._put(source, displaced)


class LiveTokens:
    """Reads a request's running list step by step, each token once (STATE02).

    Stops before a placeholder -1, which a later step replaces. A list that was shortened or rewritten near
    its end is read again from the start.
    """

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self._done = 0
        self._tail: list[int] = []

    def fresh(self) -> tuple[bool, list[int]]:
        """Whether to start over, and the tokens not read before."""
        done = self._done
        restart = self.tokens[done - len(self._tail) : done] != self._tail
        start = 0 if restart else done
        new = self.tokens[start:]
        if min(new, default=0) < 0:
            new = new[: next(i for i, token in enumerate(new) if token < 0)]
        if restart or new:
            self._done = start + len(new)
            self._tail = self.tokens[max(0, self._done - _WINDOW) : self._done]
        return restart, new
