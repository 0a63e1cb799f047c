"""Independence: shared noise is found in 10,000 draws, wrong marginals are not mistaken for it."""

import numpy as np
import pytest
from laws import LIMIT, SEED, draw, logits_of, softmax

from aliquot.statistical.independence import Independence, PairTest, lagged, match_test

VOCAB = 512
LAW = softmax(logits_of(VOCAB) / 4)
OTHER = softmax(logits_of(VOCAB, seed=1) / 4)
STEPS, ROWS = 1_250, 8


def tokens(law: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Inverse CDF, any shape."""
    return np.searchsorted(np.cumsum(law)[:-1], uniform, side="right")


def batch() -> np.ndarray:
    """Independent uniforms [steps, rows], 10,000 in all."""
    return np.random.default_rng(SEED).random((STEPS, ROWS))


def shared_rows() -> np.ndarray:
    """Rows 4 and 6 use the same noise."""
    uniform = batch()
    uniform[:, 6] = uniform[:, 4]
    return uniform


def shared_steps() -> np.ndarray:
    """Row 2 uses its noise of four steps before."""
    uniform = batch()
    for step in range(4, STEPS):
        uniform[step, 2] = uniform[step - 4, 2] if step // 4 % 2 else uniform[step, 2]
    return uniform


def keyed_by_position() -> np.ndarray:
    """Row r at step t uses noise number r + t."""
    stream = np.random.default_rng(SEED).random(STEPS + ROWS)
    return stream[np.add.outer(np.arange(STEPS), ROWS - 1 - np.arange(ROWS))]


SHARED = {
    "rows 2 apart": shared_rows,
    "steps 4 apart": shared_steps,
    "position": keyed_by_position,
}


def test_independent_batch_passes():
    """10,000 independent draws give no evidence."""
    assert Independence(LAW, ROWS).observe(tokens(LAW, batch())) < 0


@pytest.mark.parametrize("kind", SHARED)
def test_shared_noise_is_found_and_named(kind):
    """Noise shared by rows, steps or a running position is found in 10,000 draws and named."""
    test = Independence(LAW, ROWS)
    log_e = test.observe(tokens(LAW, SHARED[kind]()))
    assert (log_e >= LIMIT, test.strongest()) == (True, kind)


def test_wrong_marginals_are_not_dependence():
    """Independent draws of quite another law than the stated one pass."""
    hot = softmax(logits_of(VOCAB))
    test = PairTest(LAW)
    assert test.observe(draw(hot, 10_000, 1), draw(hot, 10_000, 2)) < LIMIT


def test_null_crosses_no_more_often_than_alpha():
    """Of 200 independent pair streams at most 5 % ever reach e = 20."""
    crossed = 0
    for seed in range(200):
        test = PairTest(LAW, OTHER, sides=(4,))
        streams = [np.split(draw(law, 900, s), 3) for law, s in ((LAW, seed), (OTHER, seed + 999))]
        pairs = zip(*streams, strict=True)
        crossed += any(test.observe(a, b) >= np.log(20) for a, b in pairs)
    assert crossed <= 10


def test_shared_gumbel_noise_on_different_rows_is_found():
    """Two rows of different laws that add the same Gumbel noise are found."""
    gumbel = np.random.default_rng(SEED).gumbel(size=(2_000, VOCAB))
    first, second = ((np.log(law) + gumbel).argmax(axis=1) for law in (LAW, OTHER))
    assert PairTest(LAW, OTHER).observe(first, second) >= LIMIT


def test_residual_that_reuses_the_draft_uniform_is_found():
    """A residual token drawn with the draft's uniform number depends on the rejected draft."""
    uniform = np.random.default_rng(SEED).random(3_000)
    assert PairTest(LAW, OTHER).observe(tokens(LAW, uniform), tokens(OTHER, uniform)) >= LIMIT


def test_neighbouring_seeds_with_one_stream_are_found():
    """Seeds that differ in a bit which the generator ignores give equal draws."""
    first, second = (draw(LAW, 1_000, seed & ~1) for seed in (8, 9))
    assert PairTest(LAW).observe(first, second) >= LIMIT


def test_match_test_finds_rare_sharing():
    """Two in a hundred shared draws are found in 5,000 pairs of flat rows."""
    first, second = draw(LAW, 5_000, 1), draw(LAW, 5_000, 2)
    second[::50] = first[::50]
    assert match_test(LAW, LAW).observe((first == second).astype(int)) >= LIMIT


def test_match_test_null_passes():
    """Equal ids of independent rows are as frequent as the laws say."""
    equal = draw(LAW, 50_000, 1) == draw(LAW, 50_000, 2)
    assert match_test(LAW, LAW).observe(equal.astype(int)) < 0


def test_fresh_test_shares_no_counts():
    """A fresh test of the same laws starts without draws and leaves the first alone."""
    first = PairTest(LAW)
    first.observe(draw(LAW, 100, 1), draw(LAW, 100, 2))
    second, before = first.fresh(), first.log_e
    assert (second.draws, second.log_e) == (0, PairTest(LAW).log_e)
    second.observe([0], [0])
    assert (first.draws, first.log_e) == (100, before)


def test_lagged_pairs_are_disjoint():
    """Every step is in one pair at most, at the lag given."""
    first, second = lagged(np.arange(11), 2)
    assert (first.tolist(), second.tolist()) == ([0, 1, 4, 5], [2, 3, 6, 7])


def test_merged_shards_equal_one_stream():
    """Pair tables of shards add up."""
    ids = tokens(LAW, shared_rows())[:1_024]
    whole, shards = Independence(LAW, ROWS), [Independence(LAW, ROWS) for _ in range(2)]
    whole.observe(ids)
    for shard, part in zip(shards, np.split(ids, 2), strict=True):
        shard.observe(part)
    shards[0].merge(shards[1])
    assert (shards[0].log_e, shards[0].draws) == (whole.log_e, whole.draws)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairTest(LAW).observe([0, 1], [0]), "shapes"),
        (lambda: PairTest(LAW).observe([0], [VOCAB]), "second_ids: integers"),
        (lambda: Independence(LAW, 4).observe([[0, 1]]), r"shape \[steps, 4\]"),
        (lambda: PairTest(LAW).merge(PairTest(OTHER)), "other laws"),
        (lambda: Independence(LAW, 4).merge(Independence(LAW, 2)), "has 2 rows, this 4"),
    ],
)
def test_bad_input_is_named(call, message):
    """Input that is not allowed is refused by name."""
    with pytest.raises(ValueError, match=message):
        call()
