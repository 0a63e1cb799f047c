"""The exact law, drawing from it, greedy rows and seeds."""

import math

import numpy as np
import pytest
from oracle_cases import batch, request, run

from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import greedy, law, pipeline, sampler
from aliquot.oracle.softmax import prefix_sums

MASKED = np.array([0.0, 0.5, 0.0, 0.5, 0.0])


def spread(size, seed=0, scale=3.0):
    """A row of normal logits."""
    return np.random.default_rng(seed).normal(scale=scale, size=size)


@pytest.mark.parametrize("size", [1, 2, 1000, 128_256])
@pytest.mark.parametrize("params", [{}, {"temperature": 0.05}, {"top_p": 0.9, "top_k": 40}])
def test_DRAW01_laws_sum_to_one(size, params):
    """The exact sum of the probabilities is 1 within 1e-15 relative."""
    probs = law.law(spread(size), SamplingParams(**params))
    assert abs(math.fsum([*probs.tolist(), -1.0])) <= 1e-15


def test_DRAW01_softmax_of_the_filtered_row():
    """Odds are exp of the logit differences; a filtered token has none."""
    probs = law.law([0.0, math.log(2.0), -9.0], SamplingParams(top_k=2, temperature=0.5))
    assert (probs / probs[0]).round(12).tolist() == [1.0, 4.0, 0.0]


@pytest.mark.parametrize("u", [0.0, 5e-324, 0.5, 1 - 2**-53, 1.0])
def test_DRAW02_DRAW05_zero_mass_is_never_drawn(u):
    """Not even extreme noise draws a token without mass."""
    assert law.draw(MASKED[None], [u])[0] in (1, 3)


def test_DRAW01_inverse_cdf_places():
    """Token t is drawn from its own share of [0, 1)."""
    row = np.array([[0.25, 0.0, 0.5, 0.25]])
    us = [0.0, 0.2499, 0.25, 0.7499, 0.75]
    assert law.draw(np.repeat(row, 5, axis=0), us).tolist() == [0, 0, 2, 2, 3]


def test_DRAW06_the_far_tail_has_its_place():
    """A token 21 nats below the best is drawn from exactly its share of u."""
    probs = law.law([21.0, 0.0], SamplingParams())
    assert law.draw_row(probs, [1 - probs[1] / 2, 1 - 2 * probs[1]]).tolist() == [1, 0]


@pytest.mark.parametrize("size", [1, 7, 128_256])
def test_prefix_sums_are_exact_to_the_last_units(size):
    """Running sums agree with exact summation within 2^-52, at any length."""
    weights = np.sort(np.exp(-np.abs(spread(size, scale=9.0))))[::-1]
    got = prefix_sums(weights)
    places = sorted({0, size // 3, size - 1})
    wanted = [math.fsum(weights[: place + 1]) for place in places]
    assert all(abs(got[p] - w) <= w * 2.0**-52 for p, w in zip(places, wanted, strict=True))


def test_GREEDY01_GREEDY04_mixed_rows():
    """Below 1e-5 a row is certain of its argmax, beside a random row with its law."""
    asks = request(temperature=9.9e-6), request(temperature=1.0)
    assert run([[1.0, 2.0, 1.0], [0.0, 0.0, -math.inf]], *asks).law.tolist() == [
        [0.0, 1.0, 0.0],
        [0.5, 0.5, 0.0],
    ]


def test_GREEDY02_lowest_id_among_equals():
    """The first of two maxima; all maxima are known for samplers that may take any."""
    outcome = run([1.0, 3.0, 3.0], request(temperature=0.0))
    assert (outcome.greedy_ids.tolist(), greedy.maxima(outcome.penalised).tolist()) == (
        [1],
        [[False, True, True]],
    )


def test_GREEDY03_filters_are_off():
    """top_k, top_p and min_p of a greedy request remove nothing."""
    outcome = run([1.0, 2.0, 3.0], request(temperature=0.0, top_k=1, top_p=0.1, min_p=1.0))
    assert outcome.filtered.tolist() == [[1.0, 2.0, 3.0]]


def test_GREEDY05_everything_before_acts():
    """Bias makes another token the argmax, bad words and penalties take the next away."""
    asks = request([1], temperature=0.0, logit_bias={0: 5.0}, bad_words=[(2,)], presence_penalty=2)
    assert run([1.0, 7.0, 9.0], asks).greedy_ids.tolist() == [0]


def drawn(*requests, seed=0, rows=None, profile=CANONICAL):
    """The ids that the oracle's sampler draws on flat rows of 1000 tokens."""
    logits = np.zeros((len(requests), 1000)) if rows is None else np.asarray(rows)
    asks = batch(*requests, vocab_size=logits.shape[1])
    output = sampler.sample(logits, asks, np.random.default_rng(seed), profile=profile)
    return output.sampled_token_ids


def test_IO06_IO07_shape_and_dtype():
    """Ids are int64 [n, 1], or int32 where declared."""
    ids = drawn(request(), request())
    narrow = drawn(request(), profile=Profile(id_dtype="int32"))
    assert (ids.shape, ids.dtype, narrow.dtype) == ((2, 1), np.int64, np.int32)


def test_IO10_empty_batch():
    """No rows: empty ids of the right shape and dtype, and empty laws."""
    ids = drawn(rows=np.zeros((0, 5)))
    outcome = pipeline.run(np.zeros((0, 5)), batch(vocab_size=5))
    assert (ids.shape, ids.dtype, outcome.law.shape) == ((0, 1), np.int64, (0, 5))


def test_SEED01_SEED02_SEED04_seed_decides_whatever_the_batch():
    """A seeded request draws the same alone, in another row, beside its twin, with another generator."""
    alone = drawn(request(seed=5))[0, 0]
    beside = drawn(request(), request(seed=5), request(seed=5), seed=9)
    assert beside[1:, 0].tolist() == [alone, alone]


def test_SEED03_steps_differ():
    """With each output token the noise is another one."""
    ids = drawn(*[request([0] * length, seed=5) for length in range(20)])
    assert len(set(ids[:, 0].tolist())) > 15


def test_SEED05_requests_without_seed_share_nothing():
    """Rows without a seed differ from each other, from a seeded one and from run to run."""
    first, second = (
        drawn(*[request() for _ in range(20)]),
        drawn(*[request() for _ in range(20)], seed=1),
    )
    assert len(set(first[:, 0].tolist())) > 15
    assert (first == second).sum() <= 2


@pytest.mark.parametrize("bit", [0, 31, 32, 62])
def test_SEED06_SEED07_every_bit_counts(bit):
    """Seeds that differ in one bit, or in sign, give other noise at every step."""
    for other in (5 ^ (1 << bit), 5 - 2**63):
        pairs = [(request([0] * n, seed=5), request([0] * n, seed=other)) for n in range(10)]
        ids = drawn(*[r for pair in pairs for r in pair]).reshape(10, 2)
        assert (ids[:, 0] == ids[:, 1]).sum() <= 1


def test_SEED07_seed_words_do_not_run_into_the_step():
    """Seed 3 at step 5 differs from the seed whose upper half is 5 at step 0."""
    ids = drawn(request([0] * 5, seed=3), request(seed=3 + 5 * 2**32))
    assert ids[0, 0] != ids[1, 0]


def test_DRAW07_logprobs_change_no_token():
    """The same seed with and without logprobs."""
    assert drawn(request(seed=1, logprobs=3)).tolist() == drawn(request(seed=1)).tolist()
