"""SEED: requests with generators of their own."""

import numpy as np
import pytest

from aliquot.conformance.behaviour.noise import STATE_PROBES
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.judge import Judge
from aliquot.reports.results import Verdict

FLAT = np.zeros(64, dtype=np.float32)
PAIRED = 64


SEEDED = row("seeded", normal(1000, 21), seed=20_240_229)


def test_SEED01_same_seed_same_tokens(judge: Judge) -> None:
    """The same seeded request twice gives the same token, whatever was drawn in between."""
    judge.supports(SEEDED)
    first = judge.answer(SEEDED).ids[0]
    judge.answer(row("other", normal(1000, 22)))
    judge.equal(SEEDED, 0, "the same id", first, judge.answer(SEEDED).ids[0])


@pytest.mark.parametrize("place", [0, 1, 5])
def test_SEED02_whatever_the_batch(judge: Judge, place: int) -> None:
    """A seeded request draws the same token alone and in any row beside others."""
    judge.supports(SEEDED)
    alone = judge.answer(SEEDED).ids[0]
    others = [row(f"other {i}", normal(1000, 30 + i), top_k=i % 3 or 50) for i in range(5)]
    others.insert(place, SEEDED)
    together = judge.answer(stacked("six rows", *others)).ids[place]
    judge.equal(SEEDED, 0, "alone and in a batch the same id", alone, together)


def test_SEED04_equal_seeds_agree(judge: Judge) -> None:
    """Two requests with equal seeds, parameters and logits in one batch draw equal tokens."""
    case = stacked("twice", SEEDED, row("between", normal(1000, 23)), SEEDED)
    judge.supports(case)
    ids = judge.answer(case).ids
    judge.equal(case, 0, "equal ids", ids[0], ids[2])


@pytest.mark.parametrize("change", STATE_PROBES)
def test_SEED02_STATE06_a_running_request_draws_as_alone(judge: Judge, change: str) -> None:
    """After a pause, or moved to another row, a seeded request goes on with its own noise."""
    if not judge.session.capabilities.stateful:
        judge.conclude(Verdict.UNSUPPORTED, "not declared: stateful")
    judge.supports(SEEDED)
    same = STATE_PROBES[change](judge.session.backend)
    judge.equal(SEEDED, 0, f"{change}, the same id:", True, same)


def far_apart(judge: Judge, number: int) -> list[int]:
    """Seeds as a harness must choose them: engines use neighbours of a seed for the samples of one request."""
    return [int(seed) for seed in judge.rng.integers(2**62, size=number)]


def flat(name: str, *seeds: int | None) -> Case:
    """A batch of flat rows, one a seed."""
    return stacked(name, *(row(f"seed {seed}", FLAT, seed=seed) for seed in seeds))


@pytest.mark.statistical
def test_SEED03_steps_of_a_seeded_request_are_independent(judge: Judge) -> None:
    """One seeded request draws independently at each of its steps, its generator going on."""
    judge.independent(flat("one seeded request", *far_apart(judge, 1)), grow=True)


@pytest.mark.statistical
def test_SEED06_different_seeds_are_independent(judge: Judge) -> None:
    """Requests with different seeds in one batch draw independently, step after step."""
    judge.independent(flat("32 seeds", *far_apart(judge, 32)), grow=True)


@pytest.mark.statistical
def test_SEED05_no_seed_no_sharing(judge: Judge) -> None:
    """Requests without a seed draw independently of each other and of seeded neighbours."""
    seeds = [seed for own in far_apart(judge, 16) for seed in (own, None)]
    judge.independent(flat("every other row seeded", *seeds), grow=True)


def flipped(seed: int, bit: int) -> int:
    """The signed 64-bit seed with one bit changed."""
    changed = (seed % 2**64) ^ (1 << bit)
    return changed - 2**64 if changed >= 2**63 else changed


@pytest.mark.statistical
@pytest.mark.parametrize("bit", [0, 1, 8, 16, 31])
def test_SEED06_every_low_bit_of_the_seed(judge: Judge, bit: int) -> None:
    """Seeds that differ in one of their lower 32 bits draw independently."""
    one_bit_apart(judge, bit)


@pytest.mark.statistical
@pytest.mark.parametrize("bit", [32, 33, 47, 62, 63])
def test_SEED07_every_high_bit_of_the_seed(judge: Judge, bit: int) -> None:
    """Seeds that differ in one of their upper 32 bits draw independently."""
    one_bit_apart(judge, bit)


def one_bit_apart(judge: Judge, bit: int) -> None:
    """Pairs of seeds that differ in one bit, in one batch."""
    seeds = far_apart(judge, PAIRED)
    case = flat(f"bit {bit}", *(s for own in seeds for s in (own, flipped(own, bit))))
    ids = judge.stepped(case, 4, grow=True)
    judge.unlike(case, [(2 * pair, 2 * pair + 1) for pair in range(PAIRED)], ids)
