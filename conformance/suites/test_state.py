"""STATE: the persistent batch between steps."""

from collections.abc import Iterator

import pytest

from aliquot.conformance.corpus.crafted import POOL, request_params
from aliquot.conformance.judge import Judge
from aliquot.conformance.state_machine.machine import judge_histories
from aliquot.contract.batch import Added, BatchUpdate, MoveDirectionality

VOCAB = 12
SEARCHES = 4
SWAP, ONE_WAY = MoveDirectionality.SWAP, MoveDirectionality.UNIDIRECTIONAL


def added(row: int, number: int, prompt: tuple[int, ...] = (1, 4)) -> Added:
    """An added request with the pool's parameters of that number."""
    return (row, request_params(number), prompt, [])


def filled(first: int, size: int) -> BatchUpdate:
    """A batch of `size` requests with consecutive parameters of the pool."""
    return BatchUpdate(batch_size=size, added=[added(r, first + r) for r in range(size)])


@pytest.mark.parametrize("first", range(len(POOL)))
def test_STATE01_removed_added_moved(judge: Judge, first: int) -> None:
    """An update that removes, adds in the freed row and moves leaves each row its own state."""
    change = BatchUpdate(
        batch_size=3, removed=[1], added=[added(1, first + 5)], moved=[(0, 1, SWAP)]
    )
    judge.history("replace and swap", [filled(first, 3), None, change, None], VOCAB)


@pytest.mark.parametrize("first", range(len(POOL)))
def test_STATE02_STATE07_live_output_lists(judge: Judge, first: int) -> None:
    """Tokens appended between steps are seen without an update."""
    judge.history("six quiet steps", [filled(first, 2), *[None] * 6], VOCAB)


@pytest.mark.parametrize("first", range(len(POOL)))
def test_STATE03_an_add_overwrites(judge: Judge, first: int) -> None:
    """Adding at an occupied row leaves nothing of the request that was there."""
    change = BatchUpdate(batch_size=2, added=[added(0, first + 1)])
    judge.history("overwritten", [filled(first, 2), None, change, None], VOCAB)


@pytest.mark.parametrize("first", range(len(POOL)))
def test_STATE04_unidirectional_moves(judge: Judge, first: int) -> None:
    """The last request moved into a hole takes its state along and leaves none behind."""
    condense = BatchUpdate(batch_size=2, removed=[0], moved=[(2, 0, ONE_WAY)])
    grown = BatchUpdate(batch_size=3, added=[added(2, 0)])
    judge.history("condensed, then grown", [filled(first, 3), None, condense, grown, None], VOCAB)


@pytest.mark.parametrize("first", range(len(POOL)))
def test_STATE05_swaps(judge: Judge, first: int) -> None:
    """Swaps, three in a cycle and one with an empty side, exchange the rows."""
    cycle = BatchUpdate(batch_size=3, moved=[(0, 1, SWAP), (1, 2, SWAP)])
    one_empty = BatchUpdate(batch_size=2, removed=[0], moved=[(0, 2, SWAP)])
    judge.history("cycle", [filled(first, 3), cycle, None, one_empty, None], VOCAB)


@pytest.mark.parametrize("number", range(SEARCHES))
def test_STATE06_history_does_not_matter(judge: Judge, number: int) -> None:
    """After any history of updates each row equals a fresh batch."""
    judge_histories(judge, judge.session.tier.state_steps // SEARCHES)


def test_STATE08_nothing_active(judge: Judge) -> None:
    """After its last active request left, no processor touches the rows."""

    def updates() -> Iterator[BatchUpdate | None]:
        yield BatchUpdate(batch_size=2, added=[added(0, 0), added(1, 3)])
        for number in range(1, len(POOL)):
            yield BatchUpdate(batch_size=2, added=[added(1, number)])
            yield BatchUpdate(batch_size=2, added=[added(1, 0)])

    judge.history("one after the other", updates(), VOCAB)
