"""Chi-square, G and exact tests: right numbers, honest pooling, stated power."""

import numpy as np
import pytest
from scipy import stats

from aliquot.statistical import chisquare

SEED = 20240601


def skewed_law(cells: int) -> np.ndarray:
    """Softmax of N(0, 1) logits."""
    weights = np.exp(np.random.default_rng(SEED).normal(size=cells))
    return weights / weights.sum()


def ulps_apart(got: float, wanted: float) -> float:
    """Distance in units in the last place."""
    return abs(got - wanted) / np.spacing(wanted)


def test_pearson_equals_scipy():
    """Without small cells the statistic and the p-value are those of scipy.stats.chisquare."""
    counts, probs = np.array([35, 60, 105]), np.array([0.25, 0.25, 0.5])
    wanted = stats.chisquare(counts, probs * 200)
    got = chisquare.goodness_of_fit(counts, probs)
    assert (got.statistic, got.p_value) == (wanted.statistic, wanted.pvalue)


def test_two_sample_equals_contingency_table():
    """The two-sample test is the chi-square of the 2 x k contingency table."""
    a, b = [30, 20, 50], [25, 40, 60]
    wanted = stats.chi2_contingency(np.array([a, b]))
    got = chisquare.two_sample(a, b)
    assert ulps_apart(got.p_value, wanted.pvalue) < 64


def test_impossible_draw_gives_p_zero():
    """One draw in a cell of probability 0 is a certain fault."""
    assert chisquare.goodness_of_fit([900, 99, 1], [0.9, 0.1, 0.0]).p_value == 0.0


@pytest.mark.parametrize("total", [0.5, 4.9, 5.0, 9.9, 10.0, 400.0])
def test_pooled_groups_reach_the_expected_minimum(total):
    """Every pooled group expects at least the minimum, whatever the small cells sum to."""
    expected = np.append([20.0, 6.0], skewed_law(300) * total)
    groups, _ = chisquare.pool(expected, 5.0)
    assert np.bincount(groups, weights=expected).min() >= 5.0 - 300 * np.spacing(5.0)


def test_pooling_says_what_was_pooled():
    """The result names how many cells went into how many groups."""
    result = chisquare.goodness_of_fit([50, 2, 3, 1, 4], [0.8, 0.05, 0.05, 0.05, 0.05])
    assert result.pooled == "4 cell(s) expecting fewer than 5 draws pooled into 1 group(s)"


@pytest.mark.parametrize("test", [chisquare.goodness_of_fit, chisquare.g_test])
def test_null_p_values_are_uniform(test):
    """p-values of 2,000 null tables are uniform by Kolmogorov-Smirnov."""
    law = skewed_law(64)
    tables = np.random.default_rng(SEED).multinomial(5_000, law, size=2_000)
    p_values = [test(counts, law).p_value for counts in tables]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4


def test_g_test_holds_with_small_cells():
    """With 1,500 cells near the pooling limit the null p-values of G are still not all small."""
    law = skewed_law(3_000)
    tables = np.random.default_rng(SEED).multinomial(10_000, law, size=200)
    p_values = [chisquare.g_test(counts, law).p_value for counts in tables]
    assert abs(np.mean(p_values) - 0.5) < 5 / np.sqrt(12 * len(p_values))


@pytest.mark.parametrize("test", [chisquare.goodness_of_fit, chisquare.g_test])
def test_lost_tail_is_found(test):
    """A sampler that never draws the least likely third of the ids fails at 1e-6."""
    law = skewed_law(2_000)
    faulty = np.where(law >= np.quantile(law, 1 / 3), law, 0)
    counts = np.random.default_rng(SEED).multinomial(20_000, faulty / faulty.sum())
    assert test(counts, law).p_value < 1e-6


@pytest.mark.parametrize(("cells", "draws"), [(64, 20_000), (512, 20_000)])
def test_minimum_detectable_effect_holds_within_twenty_percent(cells, draws):
    """The stated effect is found by 99 %; 20 % less is not, 20 % more always nearly."""
    law, alpha = np.full(cells, 1 / cells), 1e-6
    effect = chisquare.minimum_detectable_effect(law, draws, alpha)
    found = [power_of_tilt(law, draws, alpha, scale * effect) for scale in (0.8, 1.0, 1.2)]
    assert found[0] < 0.99
    assert found[1] > 0.97
    assert found[2] > 0.99


def power_of_tilt(law: np.ndarray, draws: int, alpha: float, effect: float) -> float:
    """Rate at which Pearson's test finds alternate cells tilted up and down."""
    tilted = law * (1 + 2 * effect * np.where(np.arange(len(law)) % 2, 1, -1))
    tables = np.random.default_rng(SEED).multinomial(draws, tilted, size=400)
    return float(np.mean([chisquare.goodness_of_fit(t, law).p_value <= alpha for t in tables]))


def test_draws_needed_inverts_the_effect():
    """The draws planned for an effect have that minimum detectable effect."""
    draws = chisquare.draws_needed(100, 0.05, 1e-6)
    below, at = (
        chisquare.minimum_detectable_effect(100, n, 1e-6) <= 0.05 for n in (draws - 1, draws)
    )
    assert (below, at) == (False, True)


def test_exact_multinomial_equals_the_binomial_test():
    """With two cells the exact test is scipy's two-sided binomial test."""
    wanted = stats.binomtest(3, 20, 0.3).pvalue
    got = chisquare.exact_multinomial([3, 17], [0.3, 0.7])
    assert ulps_apart(got, wanted) < 64


def test_exact_multinomial_refuses_large_tables():
    """A table too large to enumerate is refused with the number of its outcomes."""
    with pytest.raises(ValueError, match="at most 1000000 are enumerated"):
        chisquare.exact_multinomial([500] * 6, np.full(6, 1 / 6))


def test_asymptotic_p_values_do_not_gate_at_small_alpha():
    """A Poisson count of mean 5 gets a p-value below 1e-6 about 70 times as often as it should."""
    draws, law = 10_000_000, np.array([5e-7, 1 - 5e-7])
    p_value = chisquare.goodness_of_fit([16, draws - 16], law).p_value
    assert p_value <= 1e-6
    assert round(1e6 * stats.poisson.sf(15, 5)) == 69
    assert chisquare.relative_entropy_bound([16, draws - 16], law) > stats.poisson.sf(15, 5)


def test_relative_entropy_bound_exceeds_the_exact_tail():
    """The finite-sample bound is never below the true tail of the G statistic."""
    draws, probs = 60, np.array([0.05, 0.95])
    outcomes = np.arange(draws + 1)
    bounds = np.array([chisquare.relative_entropy_bound([k, draws - k], probs) for k in outcomes])
    masses = stats.binom.pmf(outcomes, draws, probs[0])
    true_tails = np.array([masses[bounds <= bound].sum() for bound in bounds])
    informative = bounds < 1
    assert np.all(true_tails[informative] <= bounds[informative])


@pytest.mark.parametrize(
    ("counts", "probs", "message"),
    [
        ([1, 2], [0.5, 0.25, 0.25], r"counts has shape \(2,\), probs has \(3,\)"),
        ([1.5, 2.0], [0.5, 0.5], "counts: non-negative integers"),
        ([-1, 2], [0.5, 0.5], "counts: non-negative integers"),
        ([1, 2], [np.nan, 0.5], "probs: a law"),
        ([1, 2], [0.0, 0.0], "probs: a law"),
    ],
)
def test_bad_input_is_named(counts, probs, message):
    """Input that is not a table and a law is refused by name."""
    with pytest.raises(ValueError, match=message):
        chisquare.goodness_of_fit(counts, probs)
