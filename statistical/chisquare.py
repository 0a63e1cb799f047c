"""Chi-square and G-tests of counts, with a pooling rule that says what it pooled, and their power.

Signatures that other code may rely on::

    goodness_of_fit(counts, probs, *, min_expected=5.0) -> ChiSquare
    g_test(counts, probs, *, min_expected=5.0) -> ChiSquare
    two_sample(counts_a, counts_b, *, min_expected=5.0) -> ChiSquare
    minimum_detectable_effect(cells_or_probs, draws, alpha, power=0.99) -> float
    relative_entropy_bound(counts, probs) -> float
    exact_multinomial(counts, probs) -> float

Pooling rule. A cell whose expected count is at least ``min_expected`` stands alone. The others are
ordered by expected count, largest first, and cut into groups wherever their running sum passes a
multiple of ``2 * min_expected``; what is left at the end joins the group before it. Every group
then expects at least ``min_expected``, cells of like size stay together, and no cell is dropped:
the tail is tested in as many groups as the draws can carry.

Which p-value may gate. The p-values of Pearson's and the G statistic are asymptotic: with cells
near ``min_expected`` they are too small far in the tail (a Poisson count of mean 5 reaches
Pearson's 1e-6 limit with probability 7e-5). Report them; to gate at a small alpha use
`relative_entropy_bound`, `exact_multinomial` or the e-processes of `aliquot.statistical.eprocess`,
which hold for every number of draws.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

Counts = npt.NDArray[np.int64]
Probs = npt.NDArray[np.float64]

MAX_OUTCOMES = 1_000_000


@dataclass(frozen=True)
class ChiSquare:
    """Result of a test of counts.

    Attributes:
        statistic: Pearson's or the G statistic; infinite when a cell of probability 0 was drawn.
        dof: degrees of freedom of the reference chi-square law.
        p_value: probability of a statistic at least as large under the null, asymptotic.
        cells: number of cells tested, after pooling and without those of probability 0.
        pooled: what was pooled, in words; empty when nothing was.
        draws: number of draws counted (both samples together for a two-sample test).
    """

    statistic: float
    dof: int
    p_value: float
    cells: int
    pooled: str
    draws: int


def goodness_of_fit(
    counts: npt.ArrayLike, probs: npt.ArrayLike, *, min_expected: float = 5.0
) -> ChiSquare:
    """Pearson's chi-square of counts against a known law.

    Args:
        counts: int [cells], non-negative.
        probs: float64 [cells], non-negative; normalised here.
        min_expected: a group of cells expects at least this many draws.

    Raises:
        ValueError: shapes that differ, negative entries, or a law without mass.

    A count in a cell of probability 0 gives ``p_value`` 0 at once.
    """
    return _against_law(counts, probs, min_expected, _pearson)


def g_test(counts: npt.ArrayLike, probs: npt.ArrayLike, *, min_expected: float = 5.0) -> ChiSquare:
    """Likelihood-ratio (G) test of counts against a known law; arguments of `goodness_of_fit`.

    The statistic is divided by Williams' correction ``1 + (sum 1/p - 1) / (6 draws dof)``, without
    which it runs high when expected counts are small (Williams 1976, Biometrika 63).
    """
    return _against_law(counts, probs, min_expected, _corrected_deviance)


def two_sample(
    counts_a: npt.ArrayLike, counts_b: npt.ArrayLike, *, min_expected: float = 5.0
) -> ChiSquare:
    """Chi-square test that two samples come from one law, which need not be known.

    Args:
        counts_a: int [cells], counts of the first sample.
        counts_b: int [cells], counts of the second sample over the same cells.
        min_expected: a group expects at least this many draws in the smaller sample.

    Raises:
        ValueError: shapes that differ or negative entries.
    """
    a, b = _as_counts(counts_a, "counts_a"), _as_counts(counts_b, "counts_b")
    _same_shape(a, b, "counts_a", "counts_b")
    draws_a, draws_b = int(a.sum()), int(b.sum())
    seen = a + b > 0
    if not draws_a or not draws_b:
        return ChiSquare(0.0, 0, 1.0, int(seen.sum()), "", draws_a + draws_b)
    a, b = a[seen], b[seen]
    share = min(draws_a, draws_b) / (draws_a + draws_b)
    groups, pooled = pool(np.asarray((a + b) * share, np.float64), min_expected)
    a, b = _sum_groups(a, groups), _sum_groups(b, groups)
    scaled = a * math.sqrt(draws_b / draws_a) - b * math.sqrt(draws_a / draws_b)
    statistic = float((scaled**2 / (a + b)).sum())
    return _result(statistic, len(a), pooled, draws_a + draws_b)


def pool(expected: Probs, min_expected: float) -> tuple[Counts, str]:
    """Group number of each cell under the pooling rule of this module, and what was pooled.

    Args:
        expected: float64 [cells], expected counts.
        min_expected: smallest expected count of a group.

    Returns:
        int64 [cells] group numbers ``0..groups-1``, and a sentence (empty if nothing was pooled).
    """
    order = np.argsort(-expected, kind="stable")
    ranked = expected[order]
    alone = int(np.count_nonzero(ranked >= min_expected))
    before = np.cumsum(ranked[alone:]) - ranked[alone:]
    total = float(ranked[alone:].sum())
    last = max(int(total // (2 * min_expected)) - 1, 0) if min_expected > 0 else 0
    bins = np.minimum(before // (2 * min_expected), last).astype(np.int64)
    joins_alone = total < min_expected and alone > 0
    offset = alone - 1 if joins_alone else alone
    groups = np.empty(len(expected), dtype=np.int64)
    groups[order] = np.concatenate([np.arange(alone), offset + bins])
    return groups, _describe_pool(len(expected) - alone, last + 1, min_expected, joins_alone)


def minimum_detectable_effect(
    cells_or_probs: int | npt.ArrayLike, draws: int, alpha: float, power: float = 0.99
) -> float:
    """Total-variation distance that `goodness_of_fit` finds with the given power.

    Args:
        cells_or_probs: number of cells after pooling, or the law, float64 [cells], which is pooled
            as `goodness_of_fit` would pool it.
        draws: number of draws.
        alpha: false-alarm probability of the test.
        power: probability of finding the effect.

    Returns:
        TV in [0, 1]; 1.0 when even the largest distance is not found so often.

    The alternative is the least favourable one of its distance over the tested cells: half of the
    mass grows by a factor ``1 + 2 TV``, the other half shrinks by ``1 - 2 TV``. By Cauchy-Schwarz,
    ``(sum |q - p|)**2 <= sum (q - p)**2 / p``, so every other alternative at this distance has a
    larger non-centrality and is found more often. (A change that moves mass only inside a pooled
    group is at distance 0 over the tested cells.)
    """
    cells = _tested_cells(cells_or_probs, draws)
    if cells < 2 or draws < 1:
        return 1.0
    noncentrality = _noncentrality(cells - 1, alpha, power)
    return min(1.0, 0.5 * math.sqrt(noncentrality / draws))


def draws_needed(cells: int, effect: float, alpha: float, power: float = 0.99) -> int:
    """Draws after which `goodness_of_fit` over ``cells`` cells finds a TV of ``effect``."""
    if not 0 < effect <= 1:
        raise ValueError(f"effect = {effect}: a total-variation distance lies in (0, 1]")
    return math.ceil(_noncentrality(cells - 1, alpha, power) / (2 * effect) ** 2)


def relative_entropy_bound(counts: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """p-value of the G statistic that holds for every number of draws, not only in the limit.

    ``P(n KL(counts/n || p) >= t) <= exp(-t) (e t / (k-1))**(k-1)`` for ``t > k-1`` and ``k`` cells
    (Agrawal 2020, Finite-sample concentration of the multinomial in relative entropy). It asks for
    more evidence than the asymptotic p-value and never flakes, whatever the expected counts are.

    Args:
        counts: int [cells].
        probs: float64 [cells]; cells of probability 0 may hold no count (else the result is 0).
    """
    observed, law = _checked(counts, probs)
    possible = law > 0
    if observed[~possible].any():
        return 0.0
    dof = int(possible.sum()) - 1
    divergence = _deviance(observed[possible], law[possible] * observed.sum()) / 2
    if dof == 0 or divergence <= dof:
        return 1.0
    return math.exp(dof - divergence + dof * math.log(divergence / dof))


def exact_multinomial(counts: npt.ArrayLike, probs: npt.ArrayLike) -> float:
    """Exact p-value for a tiny table: the mass of all outcomes no likelier than the one seen.

    Args:
        counts: int [cells].
        probs: float64 [cells].

    Raises:
        ValueError: more than `MAX_OUTCOMES` possible outcomes.
    """
    seen, law = _checked(counts, probs)
    draws, cells = int(seen.sum()), len(seen)
    outcomes = math.comb(draws + cells - 1, cells - 1)
    if outcomes > MAX_OUTCOMES:
        raise ValueError(
            f"counts: {draws} draws over {cells} cells have {outcomes} outcomes; "
            f"at most {MAX_OUTCOMES} are enumerated, use goodness_of_fit"
        )
    table = _compositions(draws, cells)
    log_mass = _log_multinomial(table, law)
    observed = float(_log_multinomial(seen[None, :], law)[0])
    if observed == -math.inf:
        return 0.0
    rounding = 16 * np.finfo(np.float64).eps * max(1.0, abs(observed), math.lgamma(draws + 2))
    return float(min(1.0, np.exp(log_mass[log_mass <= observed + rounding]).sum()))


def _against_law(
    counts: npt.ArrayLike,
    probs: npt.ArrayLike,
    min_expected: float,
    statistic_of: Callable[[Counts, Probs], float],
) -> ChiSquare:
    observed, law = _checked(counts, probs)
    draws = int(observed.sum())
    possible = law > 0
    impossible_draws = int(observed[~possible].sum())
    expected = law[possible] * draws
    groups, pooled = pool(expected, min_expected)
    grouped, expected = _sum_groups(observed[possible], groups), _sum_groups(expected, groups)
    cells = len(grouped)
    if impossible_draws:
        return ChiSquare(math.inf, cells - 1, 0.0, cells, pooled, draws)
    return _result(statistic_of(grouped, expected) if draws else 0.0, cells, pooled, draws)


def _result(statistic: float, cells: int, pooled: str, draws: int) -> ChiSquare:
    dof = cells - 1
    p_value = float(stats.chi2.sf(statistic, dof)) if dof else 1.0
    return ChiSquare(statistic, dof, p_value, cells, pooled, draws)


def _pearson(counts: Counts, expected: Probs) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def _deviance(counts: Counts, expected: Probs) -> float:
    return float(2 * special.kl_div(counts, expected).sum())


def _corrected_deviance(counts: Counts, expected: Probs) -> float:
    dof = len(counts) - 1
    if not dof:
        return 0.0
    correction = 1 + (float((1 / expected).sum()) - 1 / float(expected.sum())) / (6 * dof)
    return _deviance(counts, expected) / correction


def _sum_groups(values: Any, groups: Counts) -> Any:
    summed = np.bincount(groups, weights=values)
    return summed.astype(values.dtype)


def _describe_pool(small: int, groups: int, min_expected: float, joins_alone: bool) -> str:
    if not small:
        return ""
    where = "the smallest other cell" if joins_alone else f"{groups} group(s)"
    return f"{small} cell(s) expecting fewer than {min_expected:g} draws pooled into {where}"


def _tested_cells(cells_or_probs: int | npt.ArrayLike, draws: int) -> int:
    if isinstance(cells_or_probs, int):
        return cells_or_probs
    probs = _as_probs(cells_or_probs)
    groups, _ = pool(probs[probs > 0] * draws, 5.0)
    return int(groups.max()) + 1


def _noncentrality(dof: int, alpha: float, power: float) -> float:
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise ValueError(f"alpha = {alpha}, power = {power}: both must lie in (0, 1)")
    critical = float(stats.chi2.isf(alpha, dof))

    def shortfall(noncentrality: float) -> float:
        return float(stats.ncx2.sf(critical, dof, noncentrality)) - power

    upper = critical
    while shortfall(upper) < 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper))


def _compositions(draws: int, cells: int) -> Counts:
    places = list(itertools.combinations(range(draws + cells - 1), cells - 1))
    bars = np.array(places, dtype=np.int64).reshape(len(places), cells - 1)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, draws + cells - 1)))
    return np.diff(edges, axis=1) - 1


def _log_multinomial(table: Counts, probs: Probs) -> Probs:
    ways = special.gammaln(table.sum(axis=1) + 1) - special.gammaln(table + 1).sum(axis=1)
    return np.asarray(ways + special.xlogy(table, probs).sum(axis=1))


def _checked(counts: npt.ArrayLike, probs: npt.ArrayLike) -> tuple[Counts, Probs]:
    observed, law = _as_counts(counts, "counts"), _as_probs(probs)
    _same_shape(observed, law, "counts", "probs")
    return observed, law


def _as_counts(values: npt.ArrayLike, name: str) -> Counts:
    counts = np.asarray(values)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ValueError(
            f"{name}: non-negative integers of shape [cells] are allowed, "
            f"got {counts.dtype} of shape {counts.shape}"
        )
    return counts.astype(np.int64)


def _as_probs(values: npt.ArrayLike) -> Probs:
    probs = np.asarray(values, dtype=np.float64)
    total = float(probs.sum())
    if probs.ndim != 1 or not np.isfinite(total) or (probs < 0).any() or total <= 0:
        raise ValueError(
            f"probs: a law of shape [cells] with finite, non-negative entries is allowed, "
            f"got shape {probs.shape} with sum {total}"
        )
    return probs / total


def _same_shape(left: Any, right: Any, left_name: str, right_name: str) -> None:
    if left.shape != right.shape:
        raise ValueError(f"{left_name} has shape {left.shape}, {right_name} has {right.shape}")
