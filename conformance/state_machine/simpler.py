"""Simpler histories: fewer changes, smaller changes, plainer requests."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain, combinations, permutations
from typing import Any, TypeVar

from aliquot.conformance.state_machine.engine import MOST_ROWS, Change

SPANS = (8, 4, 2)
FEW = 8
NOTHING = Change()
Changes = tuple[Change, ...]
T = TypeVar("T")


def simpler(changes: Changes) -> Iterator[Changes]:
    """Histories that are simpler, the likely ones first; short ones are tried harder."""
    for span in SPANS:
        for start in range(len(changes) - span, -1, -1):
            yield changes[:start] + changes[start + span :]
    yield from _without(changes, 1)
    yield from _altered(changes, lambda change: chain(_smaller(change), _plainer(change)))
    if len(changes) <= FEW:
        yield from _without(changes, 2)
        for fewer in _without(changes, 1):
            yield from _repeated(fewer)
            yield from _altered(fewer, lambda change: chain(_smaller(change), _elsewhere(change)))


def _altered(changes: Changes, others: Callable[[Change], Iterable[Change]]) -> Iterator[Changes]:
    """With one change replaced by one of its others."""
    for i, change in enumerate(changes):
        for other in others(change):
            yield (*changes[:i], other, *changes[i + 1 :])


def _without(several: tuple[T, ...], number: int) -> Iterator[tuple[T, ...]]:
    """All but `number` of several, the last ones left out first."""
    yield from combinations(several, max(0, len(several) - number))


def _smaller(change: Change) -> Iterator[Change]:
    """The change with one part left out or less."""
    for part in fields(change):
        nothing = getattr(NOTHING, part.name)
        if getattr(change, part.name) != nothing:
            yield replace(change, **{part.name: nothing})
    for steps in range(1, change.steps):
        yield replace(change, steps=steps)
    for name in ("leave", "come", "swaps"):
        for fewer in _without(getattr(change, name), 1):
            part_of_it: dict[str, Any] = {name: fewer}
            yield replace(change, **part_of_it)


def _plainer(change: Change) -> Iterator[Change]:
    """The change with one request made plainer."""
    for i, kind in enumerate(change.come):
        for plain in range(kind):
            yield _with_kind(change, i, plain)


def _elsewhere(change: Change) -> Iterator[Change]:
    """The change with another request leaving, or others exchanging their rows."""
    if change.leave:
        yield from (replace(change, leave=(place,)) for place in range(MOST_ROWS))
    if change.swaps:
        pairs = combinations(range(MOST_ROWS), 2)
        yield from (replace(change, swaps=(pair,)) for pair in pairs)


def _repeated(changes: Changes) -> Iterator[Changes]:
    """With one request of the kind of another: what needs a swap may need none in another order."""
    places = [(i, j) for i, change in enumerate(changes) for j in range(len(change.come))]
    for (i, j), (k, m) in permutations(places, 2):
        kind = changes[k].come[m]
        yield (*changes[:i], _with_kind(changes[i], j, kind), *changes[i + 1 :])


def _with_kind(change: Change, i: int, kind: int) -> Change:
    return replace(change, come=(*change.come[:i], kind, *change.come[i + 1 :]))
