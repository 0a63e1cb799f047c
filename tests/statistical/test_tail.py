"""Directed tails: coarse noise is found and named, exact noise passes."""

import numpy as np
import pytest
from laws import LIMIT, SEED

from aliquot.statistical import tail
from aliquot.statistical.tail import GAPS, SOURCES, TAIL_TOKENS, TailTest, hit_probability

DRAWS = 100_000


def smallest_uniform(rng: np.random.Generator, draws: int) -> np.ndarray:
    """Smallest of one uniform number for each tail token: rounding keeps the order."""
    return -np.expm1(np.log1p(-rng.random(draws)) / TAIL_TOKENS)


def uniform_grid(bits: int, uniform: np.ndarray) -> np.ndarray:
    """Exponential noise -log(1 - k 2^-bits), k from 1, of uniforms rounded up to the grid."""
    return -np.log1p(-np.minimum(np.ceil(uniform * 2.0**bits), 2.0**bits - 1) * 2.0**-bits)


def float32_exponential(uniform: np.ndarray) -> np.ndarray:
    """CUDA's exponential: -log(u) with u in float32, held off 1 by 2^-24."""
    rounded = (1 - uniform).astype(np.float32).astype(np.float64)
    return np.maximum(-np.log(rounded), 2.0**-24)


NOISE = {
    "float64": lambda uniform: -np.log1p(-uniform),
    "23-bit uniform": lambda uniform: uniform_grid(23, uniform),
    "24-bit uniform": lambda uniform: uniform_grid(24, uniform),
    "32-bit uniform": lambda uniform: uniform_grid(32, uniform),
    "float32 exponential": float32_exponential,
}


def simulated_hits(source: str, gap: float, draws: int = DRAWS, seed: int = SEED) -> int:
    """Draws in which the best tail token beats the head, with noise of a source."""
    rng = np.random.default_rng(seed)
    head = NOISE[source](rng.random(draws))
    return int((NOISE[source](smallest_uniform(rng, draws)) < head * np.exp(-gap)).sum())


def observed(source: str) -> TailTest:
    """Tail test of a simulated source at every gap."""
    test = TailTest()
    for gap in GAPS:
        test.observe(gap, simulated_hits(source, gap), DRAWS)
    return test


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("source", NOISE)
def test_hit_probability_matches_simulation(source, gap):
    """Simulated hits of each source lie within five standard deviations of the closed form."""
    rate = hit_probability(source, gap)
    hits = simulated_hits(source, gap)
    assert abs(hits - DRAWS * rate) <= 5 * np.sqrt(DRAWS * rate) + (rate == 0)


def test_reported_figure():
    """At gap 20.5 with 262,144 tail tokens, 100,000 draws expect 32.76 hits."""
    assert round(DRAWS * hit_probability("float64", 20.5), 2) == 32.76


def test_exact_noise_passes():
    """Exact noise is not rejected."""
    assert observed("float64").log_e < LIMIT


@pytest.mark.parametrize("source", ["23-bit uniform", "24-bit uniform", "float32 exponential"])
def test_coarse_noise_is_found_and_named(source):
    """Each coarse source is rejected at 1e-6 and named in 100,000 draws a gap."""
    test = observed(source)
    assert (test.log_e >= LIMIT, test.source()) == (True, source)


def test_unknown_loss_is_found():
    """A sampler that loses half of the tail at one gap is rejected though no source explains it."""
    test = TailTest()
    test.observe(18.0, 200, DRAWS)
    assert (test.log_e >= LIMIT, test.source()) == (True, tail.OTHER)


def test_without_draws_undecided():
    """No draws name no source."""
    assert TailTest().source() == tail.UNDECIDED


def test_finer_noise_hits_more():
    """At every gap the hit probability grows with the number of bits, up to the exact one."""
    names = ["23-bit uniform", "24-bit uniform", "32-bit uniform", "float64"]
    rates = np.array([[hit_probability(name, gap) for gap in GAPS] for name in names])
    assert (np.diff(rates, axis=0) >= 0).all()
    assert set(names[:3]) < set(SOURCES)


def test_row_has_the_stated_law():
    """Softmax of the row gives the tail the exact hit probability."""
    weights = np.exp(tail.tail_logits(16.0, 1_000))
    mass = weights[1:].sum() / weights.sum()
    assert abs(mass - hit_probability("float64", 16.0, 1_000)) < 1_000 * np.finfo(float).eps * mass


def test_merged_shards_equal_one_stream():
    """Hits of shards add up."""
    shards = [TailTest() for _ in range(2)]
    for shard in shards:
        shard.observe(18.0, 150, 50_000)
    shards[0].merge(shards[1])
    whole = TailTest()
    assert whole.observe(18.0, 300, 100_000) == shards[0].log_e


@pytest.mark.parametrize(("gap", "hits", "draws"), [(18.0, 5, 4), (18.0, -1, 4), (0.0, 1, 4)])
def test_bad_input_is_named(gap, hits, draws):
    """Counts that are none are refused."""
    with pytest.raises(ValueError, match=f"gap = {gap}, hits = {hits}, draws = {draws}"):
        TailTest().observe(gap, hits, draws)


def test_other_tails_do_not_merge():
    """Tests of other tail lengths are not merged."""
    with pytest.raises(ValueError, match="has 10 tail tokens"):
        TailTest().merge(TailTest(10))
