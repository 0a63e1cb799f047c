"""Stated minimum detectable effects against simulation: the effect found by 99 % of the runs.

For each test the simulated power is measured at several multiples of the stated effect, in the
least favourable direction, and the multiple with power 0.99 is interpolated on the normal scale.
The statement holds when that multiple lies in [0.8, 1.2].
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from scipy import stats
from statistical_common import RUN_ALPHA, SEED, Floats, Report, arguments

from aliquot.statistical import chisquare, power, support
from aliquot.statistical.eprocess import PRIORS, Mixture, TwoSample
from aliquot.statistical.independence import PairTest
from aliquot.statistical.partitions import Partition
from aliquot.statistical.tail import EXACT, TailTest, hit_probability

LIMIT = -math.log(RUN_ALPHA)
MULTIPLES = (0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
GAP = 18.0
Found = Callable[[float, np.random.Generator], bool]


def tilted(law: Floats, effect: float) -> Floats:
    """Alternate cells up and down by the least favourable factor."""
    return law * (1 + 2 * effect * np.where(np.arange(len(law)) % 2, 1, -1))


def chi_square(cells: int, draws: int) -> tuple[float, Found]:
    """Stated effect of Pearson's test, and one simulated run."""
    law = np.full(cells, 1 / cells)

    def found(effect: float, rng: np.random.Generator) -> bool:
        counts = rng.multinomial(draws, tilted(law, effect))
        return chisquare.goodness_of_fit(counts, law).p_value <= RUN_ALPHA

    return chisquare.minimum_detectable_effect(law, draws, RUN_ALPHA), found


def known_law(cells: int, draws: int) -> tuple[float, Found]:
    """Stated effect of the known-law e-process, and one simulated run."""
    law, limit = np.full(cells, 1 / cells), LIMIT + math.log(power.PARTITIONS)
    mixture = Mixture(law, PRIORS)

    def found(effect: float, rng: np.random.Generator) -> bool:
        counts = rng.multinomial(draws, tilted(law, effect))
        return bool(mixture.log_es(counts)[0] >= limit)

    return power.known_law_effect(cells, draws, RUN_ALPHA), found


def two_sample(cells: int, draws: int) -> tuple[float, Found]:
    """Stated effect of the two-sample e-process, and one simulated run."""
    law, limit = np.full(cells, 1 / cells), LIMIT + math.log(power.PARTITIONS)
    part = Partition("cells", np.arange(cells, dtype=np.int32))

    def found(effect: float, rng: np.random.Generator) -> bool:
        laws = [tilted(law, sign * effect / 2) for sign in (1, -1)]
        return TwoSample([part]).observe(*(rng.choice(cells, draws, p=p) for p in laws)) >= limit

    return power.two_sample_effect(cells, draws, RUN_ALPHA), found


def pairs(side: int, draws: int) -> tuple[float, Found]:
    """Stated effect of the pair test, and one simulated run."""
    law, limit = np.full(side, 1 / side), LIMIT + math.log(power.PAIR_TABLES)
    signs = np.where(np.add.outer(np.arange(side), np.arange(side)) % 2, 1, -1)

    def found(effect: float, rng: np.random.Generator) -> bool:
        table = (1 + 2 * effect * signs).ravel() / side**2
        cells, test = rng.choice(side**2, draws, p=table), PairTest(law, sides=(side,))
        test.observe(cells // side, cells % side)
        return test.evidence()[f"id mod {side}"] >= limit

    return power.pair_effect(side, draws, RUN_ALPHA), found


def tail(_: int, draws: int) -> tuple[float, Found]:
    """Stated loss of hits of the tail test at one gap, and one simulated run."""
    rate = hit_probability(EXACT, GAP)

    def found(lost: float, rng: np.random.Generator) -> bool:
        hits = rng.binomial(draws, rate * (1 - min(lost, 1.0)))
        return TailTest().observe(GAP, hits, draws) >= LIMIT

    return power.tail_effect(GAP, draws, RUN_ALPHA), found


def support_test(_: int, draws: int) -> tuple[float, Found]:
    """Stated forbidden mass of the support test, and one simulated run."""

    def found(mass: float, rng: np.random.Generator) -> bool:
        return bool(rng.binomial(draws, mass))

    return support.minimum_detectable_mass(draws), found


CASES = (
    ("support", support_test, 2, 5_000),
    ("chi-square", chi_square, 16, 20_000),
    ("chi-square", chi_square, 1_024, 100_000),
    ("known law", known_law, 4, 20_000),
    ("known law", known_law, 16, 160_000),
    ("known law", known_law, 128, 50_000),
    ("two-sample", two_sample, 4, 20_000),
    ("two-sample", two_sample, 16, 40_000),
    ("pairs", pairs, 4, 10_000),
    ("pairs", pairs, 16, 10_000),
    ("tail", tail, 2, 100_000),
)


def multiple_at(found: list[float], runs: int) -> float:
    """Multiple of the stated effect whose power is 0.99, interpolated on the normal scale."""
    kept = np.clip(found, 0.5 / runs, 1 - 0.5 / runs)
    scores = np.maximum.accumulate(stats.norm.ppf(kept))
    return float(np.interp(stats.norm.ppf(power.POWER), scores, MULTIPLES))


def main(options: argparse.Namespace) -> None:
    """Measure each case."""
    report = Report("power")
    for name, make, cells, draws in CASES:
        effect, found = make(cells, draws)
        rng = np.random.default_rng(SEED)
        rates = [
            float(np.mean([found(multiple * effect, rng) for _ in range(options.runs)]))
            for multiple in MULTIPLES
        ]
        report.add(
            test=name,
            cells=cells,
            draws=draws,
            stated_effect=effect,
            power_at_stated=rates[MULTIPLES.index(1.0)],
            measured_over_stated=round(multiple_at(rates, options.runs), 3),
            runs=options.runs,
            power_at=dict(zip(map(str, MULTIPLES), rates, strict=True)),
        )


if __name__ == "__main__":
    main(arguments(runs=1_000))
