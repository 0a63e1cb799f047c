"""Power of every test: the effect that it finds with 99 % probability, and the draws that it needs.

Signatures that other code may rely on::

    plan(effect, alpha, power=0.99) -> Plan; .table() -> str
    known_law_effect(cells, draws, alpha, power=0.99) -> TV
    two_sample_effect(cells, draws, alpha, power=0.99) -> TV
    pair_effect(side, draws, alpha, power=0.99) -> TV
    replay_effect(draws, power=0.99) -> TV
    tail_effect(gap, draws, alpha, power=0.99) -> fraction of the tail lost

Effects are total-variation distances over the cells of one partition (replay: over tokens), in the
least favourable direction, half of the mass up and half down by the factor ``1 +- 2 TV`` (see
`aliquot.statistical.chisquare.minimum_detectable_effect`).

Theory of the mixtures. Near the null the cell counts are Gaussian, and a Dirichlet mixture of
concentration ``c`` over ``k`` cells has
``log e = z n / (2 (n + c)) - (k - 1) / 2 log(1 + n / c)`` with ``z`` noncentral chi-square of
``k - 1`` degrees and noncentrality ``4 n TV**2``. The average over priors grows with ``z``, so its
quantile is its value at the quantile of ``z``. Looking at all times can only find more.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from aliquot.statistical import chisquare, support
from aliquot.statistical.eprocess import PRIORS, Mixture
from aliquot.statistical.independence import CELLS, TABLE_SIDES
from aliquot.statistical.partitions import BLOCK_SIZES, MODULI, RANK_CELLS
from aliquot.statistical.tail import EXACT, SOURCES, TAIL_TOKENS, hit_probability

POWER = 0.99
# The rank, modulo and block partitions; octaves, head, slices; the tail cuts share one weight.
PARTITIONS = len(RANK_CELLS) + len(MODULI) + len(BLOCK_SIZES) + 4
PAIR_TABLES = len(CELLS) * len(TABLE_SIDES)
CELLS_PLANNED = 16
MOST_DRAWS = 10**12


def known_law_effect(
    cells: int, draws: int, alpha: float, power: float = POWER, partitions: int = PARTITIONS
) -> float:
    """TV over ``cells`` cells of one of ``partitions`` partitions that `KnownLaw` finds."""
    mixtures = 1 if cells == 2 else 2
    needed = _needed_chi_square(cells - 1, draws, alpha, mixtures * partitions)
    noncentrality = _noncentrality(needed, cells - 1, power)
    return min(1.0, 0.5 * math.sqrt(noncentrality / draws))


def two_sample_effect(
    cells: int, draws: int, alpha: float, power: float = POWER, partitions: int = PARTITIONS
) -> float:
    """TV over ``cells`` cells that `TwoSample` finds with ``draws`` draws of each sample.

    Each sample's estimate has an error of its own, which halves the noncentrality.
    """
    needed = _needed_chi_square(cells - 1, draws, alpha, partitions)
    noncentrality = _noncentrality(needed, cells - 1, power)
    return min(1.0, 0.5 * math.sqrt(2 * noncentrality / draws))


def pair_effect(
    side: int, draws: int, alpha: float, power: float = POWER, tables: int = PAIR_TABLES
) -> float:
    """TV between the pair table and the product of its margins that `PairTest` finds.

    Args:
        side: cells a side of the table.
        draws: number of pairs.

    Of the ``side**2 - 1`` degrees, ``2 (side - 1)`` belong to the margins, which are fitted; they
    carry no noncentrality.
    """
    margins = 2 * (side - 1)

    def log_e(interaction: float) -> float:
        mixture = _log_mixture_e(interaction + margins, side**2 - 1, draws)
        return mixture - margins / 2 - math.log(tables)

    needed = _root(lambda z: log_e(z) + math.log(alpha))
    noncentrality = _noncentrality(needed, (side - 1) ** 2, power)
    return min(1.0, 0.5 * math.sqrt(noncentrality / draws))


def replay_effect(draws: int, power: float = POWER) -> float:
    """TV that replay finds: two laws under common noise differ at least as often as their TV."""
    return support.minimum_detectable_mass(draws, power)


def replay_draws(effect: float, power: float = POWER) -> int:
    """Draws of which replay finds a TV of ``effect`` with probability ``power``."""
    return math.ceil(math.log(1 - power) / math.log1p(-effect))


def tail_effect(
    gap: float,
    draws: int,
    alpha: float,
    power: float = POWER,
    tail_tokens: int = TAIL_TOKENS,
) -> float:
    """Fraction of the tail's hits whose loss `TailTest` finds at one gap; 1.0 if none is."""
    rate = hit_probability(EXACT, gap, tail_tokens)
    mixture = Mixture([1 - rate, rate], PRIORS)

    def surplus(hits: int) -> float:
        log_e = mixture.log_es(np.array([draws - hits, hits]))
        return float(log_e[0]) - math.log(len(SOURCES) + 1) + math.log(alpha)

    most = bisect.bisect_left(range(int(draws * rate)), 0.0, key=lambda hits: -surplus(hits)) - 1
    if most < 0:
        return 1.0

    def shortfall(lost: float) -> float:
        return float(stats.binom.cdf(most, draws, rate * (1 - lost))) - power

    return float(optimize.brentq(shortfall, 0.0, 1.0))


@dataclass(frozen=True)
class Step:
    """What one test needs for an effect.

    Attributes:
        test: name of the test.
        draws: draws needed.
        needs: what the sampler must give, and what the effect is measured over.
    """

    test: str
    draws: int
    needs: str


@dataclass(frozen=True)
class Plan:
    """Draws that each test needs to find an effect.

    Attributes:
        effect: total-variation distance to find.
        alpha: false-alarm probability.
        power: probability of finding it.
        steps: one for each test, fewest draws first.
    """

    effect: float
    alpha: float
    power: float
    steps: tuple[Step, ...]

    def table(self) -> str:
        """The plan as Markdown."""
        lines = ["| test | draws | needs |", "|---|---:|---|"]
        lines += [f"| {step.test} | {step.draws:,} | {step.needs} |" for step in self.steps]
        return "\n".join(lines)


def plan(effect: float, alpha: float, power: float = POWER, cells: int = CELLS_PLANNED) -> Plan:
    """Draws that each test needs to find a TV of ``effect`` with probability ``power``.

    Args:
        effect: total-variation distance, in (0, 1).
        alpha: false-alarm probability.
        power: probability of finding the effect.
        cells: cells of the partition over which the effect shows.

    Raises:
        ValueError: an argument outside its range, or an effect that needs over 10**12 draws.
    """
    for name, value in (("effect", effect), ("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise ValueError(f"{name} = {value}: must lie in (0, 1)")
    side = TABLE_SIDES[0]
    over = f"over {cells} cells"
    steps = [
        Step("support", replay_draws(effect, power), "mass on forbidden ids"),
        Step("replay", replay_draws(effect, power), "the noise, over tokens"),
        Step("chi-square", chisquare.draws_needed(cells, effect, alpha, power), f"the law, {over}"),
        Step(
            "known law", _draws(known_law_effect, cells, effect, alpha, power), f"the law, {over}"
        ),
        Step(
            "two-sample",
            _draws(two_sample_effect, cells, effect, alpha, power),
            f"reference, {over}",
        ),
        Step(
            "pairs",
            _draws(pair_effect, side, effect, alpha, power),
            f"pairs, {side} x {side} cells",
        ),
    ]
    return Plan(effect, alpha, power, tuple(sorted(steps, key=lambda step: step.draws)))


def _draws(
    effect_of: Callable[[int, int, float, float], float],
    cells: int,
    effect: float,
    alpha: float,
    power: float,
) -> int:
    low, high = 1, 2
    while effect_of(cells, high, alpha, power) > effect:
        low, high = high, high * 2
        if high > MOST_DRAWS:
            raise ValueError(f"effect = {effect}: needs more than {MOST_DRAWS} draws")
    while high - low > 1:
        middle = (low + high) // 2
        if effect_of(cells, middle, alpha, power) > effect:
            low = middle
        else:
            high = middle
    return high


def _needed_chi_square(dof: int, draws: int, alpha: float, averaged: int) -> float:
    def surplus(z: float) -> float:
        return _log_mixture_e(z, dof, draws) - math.log(averaged) + math.log(alpha)

    return _root(surplus)


def _log_mixture_e(z: float, dof: int, draws: int) -> float:
    ratios = draws / np.array([prior.concentration for prior in PRIORS if not prior.uniform])
    log_es = z / 2 * ratios / (1 + ratios) - dof / 2 * np.log1p(ratios)
    return float(special.logsumexp(log_es) - math.log(len(PRIORS)))


def _root(surplus: Callable[[float], float]) -> float:
    upper = 1.0
    while surplus(upper) < 0:
        upper *= 2
    return float(optimize.brentq(surplus, 0.0, upper)) if surplus(0.0) < 0 else 0.0


def _noncentrality(needed: float, dof: int, power: float) -> float:
    def shortfall(noncentrality: float) -> float:
        return float(stats.ncx2.sf(needed, dof, noncentrality)) - power

    upper = max(needed, 1.0)
    while shortfall(upper) < 0:
        upper *= 2
    return float(optimize.brentq(shortfall, 0.0, upper))
