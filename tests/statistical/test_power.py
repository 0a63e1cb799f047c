"""Power: stated effects hold in simulation within 20 %, plans invert them."""

import numpy as np
import pytest
from laws import ALPHA, LIMIT, SEED
from scipy import stats

from aliquot.statistical import power
from aliquot.statistical.eprocess import PRIORS, Mixture, TwoSample
from aliquot.statistical.independence import PairTest
from aliquot.statistical.partitions import Partition
from aliquot.statistical.tail import EXACT, TailTest, hit_probability


def tilted(law: np.ndarray, effect: float) -> np.ndarray:
    """Alternate cells up and down by the least favourable factor."""
    return law * (1 + 2 * effect * np.where(np.arange(len(law)) % 2, 1, -1))


def known_law_power(cells: int, draws: int, effect: float) -> float:
    """Rate at which the mixture on one of the partitions reaches 1 / alpha."""
    law = np.full(cells, 1 / cells)
    tables = np.random.default_rng(SEED).multinomial(draws, tilted(law, effect), size=200)
    mixture, limit = Mixture(law, PRIORS), LIMIT + np.log(power.PARTITIONS)
    return float(np.mean([mixture.log_es(table)[0] >= limit for table in tables]))


def two_sample_power(cells: int, draws: int, effect: float) -> float:
    """Rate at which two samples, tilted by half the effect each way, are told apart."""
    rng, law = np.random.default_rng(SEED), np.full(cells, 1 / cells)
    part = Partition("cells", np.arange(cells, dtype=np.int32))
    found = 0
    for _ in range(60):
        samples = [
            rng.choice(cells, size=draws, p=tilted(law, sign * effect / 2)) for sign in (1, -1)
        ]
        found += TwoSample([part]).observe(*samples) >= LIMIT + np.log(power.PARTITIONS)
    return found / 60


def pair_power(side: int, draws: int, effect: float) -> float:
    """Rate at which a chequered pair table is found."""
    rng, law = np.random.default_rng(SEED), np.full(side, 1 / side)
    signs = np.where(np.add.outer(np.arange(side), np.arange(side)) % 2, 1, -1)
    table = ((1 + 2 * effect * signs) / side**2).ravel()
    found = 0
    for _ in range(60):
        cells = rng.choice(side**2, size=draws, p=table)
        test = PairTest(law, sides=(side,))
        test.observe(cells // side, cells % side)
        found += test.evidence()[f"id mod {side}"] >= LIMIT + np.log(power.PAIR_TABLES)
    return found / 60


POWERS = {
    "known law 4": (power.known_law_effect, known_law_power, 4, 20_000),
    "known law 64": (power.known_law_effect, known_law_power, 64, 50_000),
    "two-sample": (power.two_sample_effect, two_sample_power, 16, 10_000),
    "pairs": (power.pair_effect, pair_power, 4, 10_000),
}


@pytest.mark.parametrize("name", POWERS)
def test_stated_effect_holds_within_twenty_percent(name):
    """The stated effect is found nearly always, 20 % less is found less than 99 %."""
    effect_of, power_of, cells, draws = POWERS[name]
    effect = effect_of(cells, draws, ALPHA)
    assert power_of(cells, draws, 0.8 * effect) < 0.95
    assert power_of(cells, draws, effect) > 0.95
    assert power_of(cells, draws, 1.2 * effect) == 1.0


def tail_power(gap: float, draws: int, lost: float) -> float:
    """Probability of finding a loss of hits, from the binomial law of the hits."""
    rate = hit_probability(EXACT, gap)
    hits = np.arange(int(draws * rate) + 1)
    masses = stats.binom.pmf(hits, draws, rate * (1 - lost))
    likely = hits[masses > 1e-7]
    return float(sum(masses[k] for k in likely if tail_found(gap, draws, k)))


def test_tail_effect_is_found_by_99_percent():
    """The stated loss of hits is found by 99 %, a loss 10 % smaller is not."""
    gap, draws = 18.0, 100_000
    lost = power.tail_effect(gap, draws, ALPHA)
    assert tail_power(gap, draws, 0.9 * lost) < 0.97
    assert 0.985 < tail_power(gap, draws, lost) < 0.995


def tail_found(gap: float, draws: int, hits: int) -> bool:
    """Whether that many hits reject."""
    return TailTest().observe(gap, int(hits), draws) >= LIMIT


def test_replay_draws_invert_the_effect():
    """The draws planned for an effect have it as minimum detectable effect."""
    draws = power.replay_draws(0.004)
    assert power.replay_effect(draws) <= 0.004 < power.replay_effect(draws - 1)


def test_plan_inverts_the_effects():
    """The planned draws of the known-law test detect the effect, one draw fewer does not."""
    steps = {step.test: step.draws for step in power.plan(0.02, ALPHA).steps}
    draws = steps["known law"]
    effects = [power.known_law_effect(power.CELLS_PLANNED, n, ALPHA) for n in (draws - 1, draws)]
    assert effects[0] > 0.02 >= effects[1]


def test_plan_lists_cheapest_first():
    """The plan is in order of draws, with replay before any test of counts."""
    steps = power.plan(0.02, ALPHA).steps
    assert [step.draws for step in steps] == sorted(step.draws for step in steps)
    assert {steps[0].test, steps[1].test} == {"support", "replay"}


def test_plan_table_shows_each_step():
    """The printed plan has a line for each test."""
    plan = power.plan(0.1, 1e-3)
    lines = plan.table().splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines] == [step.test for step in plan.steps]


@pytest.mark.parametrize(
    ("effect", "alpha", "message"),
    [
        (0.0, 1e-6, "effect = 0.0"),
        (1.5, 1e-6, "effect = 1.5"),
        (0.1, 0.0, "alpha = 0.0"),
        (1e-7, 1e-6, "effect = 1e-07: needs more than"),
    ],
)
def test_bad_plan_is_refused(effect, alpha, message):
    """A plan outside its range, or beyond a trillion draws, is refused."""
    with pytest.raises(ValueError, match=message):
        power.plan(effect, alpha)
