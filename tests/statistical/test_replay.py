"""Replay: the same noise gives the same token, rounding is told from fault."""

import numpy as np
import pytest
from laws import SEED, logits_of, softmax

from aliquot.statistical import replay

VOCAB, DRAWS = 2_048, 4_000
LOGITS = logits_of(VOCAB)
LAW = softmax(LOGITS)
ULP = 2.0**-24
FLOAT32_BOUND = (np.abs(LOGITS - LOGITS.max()) + 12) * ULP


def exponential(draws: int = DRAWS, seed: int = SEED) -> np.ndarray:
    """Float32 exponential noise."""
    return np.random.default_rng(seed).exponential(size=(draws, VOCAB)).astype(np.float32)


def float32_race(logits: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """The customary race, all in float32."""
    weights = np.exp((logits - logits.max()).astype(np.float32))
    return (weights / weights.sum() / noise).argmax(axis=1)


WRONG = {
    "temperature x1.02": LOGITS / 1.02,
    "1 % of the tail lost": np.where(
        np.cumsum(np.sort(LAW))[np.argsort(np.argsort(LAW))] <= 0.01, -np.inf, LOGITS
    ),
    "2 % odd/even bias": LOGITS + np.log1p(0.02 * (-1.0) ** np.arange(VOCAB)),
}


def test_float32_race_has_no_mismatch():
    """A correct float32 race agrees but for what rounding explains."""
    noise = exponential()
    ids = float32_race(LOGITS, noise)
    assert replay.exponential_race(LOGITS, noise, ids, FLOAT32_BOUND).passed


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_law_mismatches(fault):
    """A wrong law mismatches within 4,000 draws."""
    noise = exponential()
    ids = float32_race(WRONG[fault], noise)
    assert not replay.exponential_race(LOGITS, noise, ids, FLOAT32_BOUND).passed


def test_gumbel_equals_race():
    """Gumbel noise -log(e) gives the outcome of exponential noise e."""
    noise = exponential(200).astype(np.float64)
    ids = float32_race(WRONG["temperature x1.02"] * 1.2, noise)
    race = replay.exponential_race(LOGITS, noise, ids, FLOAT32_BOUND)
    gumbel = replay.gumbel_max(LOGITS, -np.log(noise), ids, FLOAT32_BOUND)
    assert (race.outcome == gumbel.outcome).all()
    assert race.mismatches.size > 0


def test_wrong_gumbel_sign_mismatches():
    """Subtracting the Gumbel noise instead of adding it is found at once."""
    gumbel = np.random.default_rng(SEED).gumbel(size=(50, VOCAB))
    ids = (LOGITS - gumbel).argmax(axis=1)
    assert replay.gumbel_max(LOGITS, gumbel, ids, FLOAT32_BOUND).mismatches.size > 40


def test_close_race_is_explained_by_rounding():
    """A loser whose score is within the bounds of both tokens is rounding, beyond it is not."""
    weights, noise = np.zeros(3), np.array([[0.0, 1e-6, -1.0]])
    outcomes = [
        replay.gumbel_max(weights, noise, [0], bound).outcome[0] for bound in (0.4e-6, 0.6e-6)
    ]
    assert outcomes == [replay.MISMATCH, replay.ROUNDING]


def test_bounds_of_both_tokens_count():
    """The bound is the sum of the winner's and the drawn token's bounds."""
    got = replay.gumbel_max(np.zeros(3), [[1.0, 2.0, 0.0]], [0], [0.25, 0.5, 64.0])
    assert (got.wanted[0], got.margin[0], got.bound[0]) == (1, 1.0, 0.75)


def test_one_row_for_each_draw():
    """Rows [draws, vocab] with bounds of their own are judged draw by draw."""
    rows = np.array([[0.0, 1.0], [1.0, 0.0]])
    got = replay.gumbel_max(rows, np.zeros((2, 2)), [1, 1], np.array([[0.0, 0.0], [0.5, 0.5]]))
    assert got.outcome.tolist() == [replay.AGREE, replay.ROUNDING]


@pytest.mark.parametrize("kind", [replay.exponential_race, replay.gumbel_max])
def test_masked_token_is_a_mismatch(kind):
    """A token outside the support never is explained by rounding, whatever its noise."""
    extreme = {replay.exponential_race: 0.0, replay.gumbel_max: np.inf}[kind]
    got = kind([0.0, -np.inf], np.array([[1.0, extreme]]), [1], 1e3)
    assert (got.wanted[0], got.outcome[0]) == (0, replay.MISMATCH)


def test_zero_noise_wins_outright():
    """Noise of exactly 0 makes a token of the support win, and ties are rounding."""
    got = replay.exponential_race(np.zeros(3), np.array([[1.0, 0.0, 0.0]] * 2), [0, 2], 1e-6)
    assert got.outcome.tolist() == [replay.MISMATCH, replay.ROUNDING]


def test_inverse_cdf_agrees():
    """Float64 inverse-CDF draws agree with the law."""
    uniform = np.random.default_rng(SEED).random(DRAWS)
    ids = np.searchsorted(np.cumsum(LAW), uniform, side="right")
    assert (replay.inverse_cdf(LAW, uniform, ids, 0.0).outcome == replay.AGREE).all()


def test_inverse_cdf_in_float32_is_explained():
    """Sequential float32 sums stay within (vocab + 1) roundings of the cumulative law."""
    uniform = np.random.default_rng(SEED).random(DRAWS).astype(np.float32)
    sums = np.cumsum(LAW.astype(np.float32), dtype=np.float32)
    ids = np.minimum(np.searchsorted(sums, uniform, side="right"), VOCAB - 1)
    got = replay.inverse_cdf(LAW, uniform, ids, (VOCAB + 1) * ULP)
    assert got.passed


@pytest.mark.parametrize("fault", WRONG)
def test_inverse_cdf_finds_wrong_laws(fault):
    """A wrong law mismatches in many of 4,000 inverse-CDF draws."""
    uniform = np.random.default_rng(SEED).random(DRAWS)
    ids = np.searchsorted(np.cumsum(softmax(WRONG[fault]))[:-1], uniform, side="right")
    assert not replay.inverse_cdf(LAW, uniform, ids, (VOCAB + 1) * ULP).passed


def test_inverse_cdf_never_explains_an_impossible_token():
    """A token of probability 0 is a mismatch although its margin is 0."""
    got = replay.inverse_cdf([0.5, 0.0, 0.5], [0.5], [1], 0.1)
    assert (got.margin[0], got.outcome[0]) == (np.inf, replay.MISMATCH)


def test_uniform_on_an_edge_wants_the_next_token():
    """A token is wanted while its cumulative probability exceeds u: at u = 1/2 the second half."""
    got = replay.inverse_cdf([0.5, 0.5], [0.5, 0.25], [1, 0], 0.0)
    assert got.wanted.tolist() == [1, 0]


def test_uniform_of_one_stays_in_the_support():
    """u = 1 wants the last possible token."""
    assert replay.inverse_cdf([0.5, 0.5, 0.0], [1.0], [1], 0.0).outcome[0] == replay.AGREE


def test_no_draws():
    """No draws replay to nothing."""
    assert replay.gumbel_max(np.zeros(3), np.zeros((0, 3)), np.zeros(0, int), 0.0).passed


def test_chunks_do_not_change_the_outcome(monkeypatch):
    """Outcomes are the same whether replayed at once or in chunks of one draw."""
    noise = exponential(20)
    ids = float32_race(LOGITS / 1.5, noise)
    at_once = replay.exponential_race(LOGITS, noise, ids, FLOAT32_BOUND)
    monkeypatch.setattr(replay, "CHUNK_ELEMENTS", 1)
    in_chunks = replay.exponential_race(LOGITS, noise, ids, FLOAT32_BOUND)
    assert (at_once.margin == in_chunks.margin).all()


def test_chunks_take_their_own_rows_and_bounds(monkeypatch):
    """In chunks of one draw each draw keeps its own row and its own bounds."""
    monkeypatch.setattr(replay, "CHUNK_ELEMENTS", 1)
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    bounds = np.array([[0.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    got = replay.gumbel_max(rows, np.zeros((3, 2)), [1, 1, 1], bounds)
    assert got.outcome.tolist() == [replay.AGREE, replay.ROUNDING, replay.MISMATCH]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: replay.gumbel_max(np.zeros(3), np.zeros((1, 2)), [0], 0.0), "log_weights has"),
        (lambda: replay.gumbel_max(np.zeros(2), np.zeros((1, 2)), [2], 0.0), r"in \[0, 2\)"),
        (lambda: replay.gumbel_max(np.zeros(2), np.zeros((1, 2)), [[0]], 0.0), "ids: integers"),
        (lambda: replay.gumbel_max(np.zeros(2), np.zeros((1, 2)), [0], -1.0), "bounds: must"),
        (lambda: replay.gumbel_max([np.nan, 0], np.zeros((1, 2)), [0], 0.0), "log_weights of"),
        (lambda: replay.gumbel_max([-np.inf] * 2, np.zeros((1, 2)), [0], 0.0), "finite maximum"),
        (lambda: replay.exponential_race(np.zeros(2), [[1.0, -1.0]], [0], 0.0), "noise: must"),
        (lambda: replay.inverse_cdf([0.5, 0.5], [1.5], [0], 0.0), "noise: must"),
    ],
)
def test_bad_input_is_named(call, message):
    """Shapes, ids, noise and bounds that are not allowed are refused by name."""
    with pytest.raises(ValueError, match=message):
        call()
