"""Draws that the black-box tests need at alpha = 1e-6: medians over seeded runs.

Each run draws in steps from a faulty float64 sampler and looks at the e-value after every step;
the draws until it reaches 1 / alpha are counted in whole steps. Runs that do not reach it within
`LONGEST` times the step count as not found.
"""

import argparse
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from statistical_common import (
    RUN_ALPHA,
    SEED,
    Floats,
    Report,
    arguments,
    corpus_logits,
    normal_logits,
    odd_even,
    sampler,
    softmax,
    tempered,
    total_variation,
    without_tail,
)

from aliquot.statistical.eprocess import EProcess, KnownLaw, LikelihoodRatio, TwoSample
from aliquot.statistical.independence import Independence, match_test
from aliquot.statistical.partitions import default_partitions
from aliquot.statistical.tail import GAPS, SOURCES, TailTest, hit_probability

LIMIT = -math.log(RUN_ALPHA)
LONGEST = 400
DRAWN_ROW = "N(0,1), V = 128,256"
FLAT = 0.25
SHARED_ROWS = 8
RARE = 0.01
PILOT = 1_000_000
TAIL_STEP, TAIL_LOOKS = 500, 200

Ids = npt.NDArray[np.int64]

FAULTS: dict[str, tuple[Callable[[Floats], Floats], int, int | None]] = {
    "T x1.05": (lambda logits: tempered(logits, 1.05), 500, 30_000),
    "T x1.02": (lambda logits: tempered(logits, 1.02), 2_000, 160_000),
    "1 % of the tail lost": (lambda logits: without_tail(logits, 0.01), 50, 4_000),
    "0.1 % of the tail lost": (lambda logits: without_tail(logits, 0.001), 500, 40_000),
    "2 % odd/even bias": (lambda logits: odd_even(logits, 0.02), 2_000, None),
}
"""Fault, draws between looks, and the draws to reach for N(0, 1) logits."""


def draws_until_found(test: EProcess, *streams: Callable[[], Any]) -> float:
    """Draws of the test when it first reaches 1 / alpha; infinite if it never does.

    Args:
        test: fed with one array of each stream before every look.
        streams: functions that draw on.
    """
    for _ in range(LONGEST):
        if test.observe(*(stream() for stream in streams)) >= LIMIT:
            return test.draws
    return math.inf


def generator(run: int) -> np.random.Generator:
    """Random generator of a run."""
    return np.random.default_rng([SEED, run])


def summary(draws: list[float]) -> dict[str, object]:
    """Median and range over runs; None where a run did not find the fault."""
    numbers = [float(np.quantile(draws, q, method="higher")) for q in (0.5, 0.0, 1.0)]
    median, least, most = (int(n) if math.isfinite(n) else None for n in numbers)
    return {"runs": len(draws), "median": median, "least": least, "most": most}


def known_law(report: Report, row: str, logits: Floats, runs: int) -> None:
    """Draws against the known law."""
    law = softmax(logits)
    partitions = default_partitions(law)
    for name, (fault, step, target) in FAULTS.items():
        draw, distance = sampler(fault(logits)), total_variation(law, fault(logits))
        draws = [
            draws_until_found(KnownLaw(law, partitions), partial(draw, step, generator(run)))
            for run in range(runs)
        ]
        found = summary(draws)
        report.add(kind="known law", row=row, fault=name, tv=distance, **found, target=target)


def likelihood_ratio(report: Report, row: str, logits: Floats, runs: int) -> None:
    """Draws by the likelihood ratio of all named faults, and how often the right one leads."""
    law = softmax(logits)
    alternatives = {name: fault(logits) for name, (fault, _, _) in FAULTS.items()}
    for name, (_, step, _) in FAULTS.items():
        draw, draws, named = sampler(alternatives[name]), [], 0
        for run in range(runs):
            test = LikelihoodRatio(law, alternatives)
            draws.append(draws_until_found(test, partial(draw, step, generator(run))))
            named += test.strongest() == name
        found = summary(draws)
        report.add(kind="likelihood ratio", row=row, fault=name, **found, named_right=named)


def two_sample(report: Report, row: str, logits: Floats, runs: int) -> None:
    """Draws of each sample, with partitions from the law or from a pilot of the reference."""
    law = softmax(logits)
    reference = sampler(law)
    for source in ("law", "pilot"):
        for name, (fault, step, _) in FAULTS.items():
            draws = []
            for run in range(runs):
                rng = generator(run)
                pilot = np.bincount(reference(PILOT, rng), minlength=len(law))
                test = TwoSample(default_partitions(law if source == "law" else pilot))
                samplers = (reference, sampler(fault(logits)))
                streams = [partial(draw, 8 * step, rng) for draw in samplers]
                draws.append(draws_until_found(test, *streams))
            kind = f"two-sample, partitions of the {source}"
            report.add(kind=kind, row=row, fault=name, **summary(draws))


def shared_uniforms(kind: str, steps: int, rng: np.random.Generator) -> Floats:
    """Uniform numbers [steps, rows] of which one pair of streams is shared."""
    uniform = rng.random((steps, SHARED_ROWS))
    if kind == "noise shared by two rows":
        uniform[:, 3] = uniform[:, 2]
    elif kind == "noise shared by two steps":
        uniform[1::2, 3] = uniform[0::2, 3]
    else:
        stream = rng.random(steps + SHARED_ROWS)
        uniform = stream[np.add.outer(np.arange(steps), np.arange(SHARED_ROWS)[::-1])]
    return uniform


def shared_ids(kind: str, upper: Floats, rng: np.random.Generator) -> Ids:
    """Ids [16 steps, rows] drawn by inverse CDF from shared uniforms."""
    return np.searchsorted(upper, shared_uniforms(kind, 16, rng), side="right")


def rare_matches(draw: Callable[..., Ids], rng: np.random.Generator) -> Ids:
    """Whether the ids of 50 pairs are equal, one pair in a hundred sharing its noise."""
    first, second = draw(50, rng), draw(50, rng)
    shared = rng.random(50) < RARE
    return (np.where(shared, first, second) == first).astype(np.int64)


def independence(report: Report, logits: Floats, runs: int) -> None:
    """Draws, over all rows of a batch, that find shared noise on a flat row."""
    law = softmax(FLAT * logits)
    upper, draw = np.cumsum(law)[:-1], sampler(law)
    for kind in (
        "noise shared by two rows",
        "noise shared by two steps",
        "noise keyed by position",
    ):
        draws = [
            draws_until_found(
                Independence(law, SHARED_ROWS), partial(shared_ids, kind, upper, generator(run))
            )
            for run in range(runs)
        ]
        report.add(kind="independence", fault=kind, target=10_000, **summary(draws))
    draws = [
        draws_until_found(match_test(law, law), partial(rare_matches, draw, generator(run)))
        for run in range(runs)
    ]
    report.add(kind="independence", fault="1 % of pairs share", target=None, **summary(draws))


class TailStream(TailTest):
    """Tail test that draws `TAIL_STEP` times at every gap from a noise source at each look."""

    def look(self, source: str, rng: np.random.Generator) -> float:
        """Draw at every gap and return the log e-value."""
        for gap in GAPS:
            hits = rng.binomial(TAIL_STEP, hit_probability(source, gap))
            self.observe(gap, int(hits), TAIL_STEP)
        return self.log_e


def tails(report: Report, runs: int) -> None:
    """Draws over all gaps that reject each noise source, and how often it is named right."""
    for source in SOURCES:
        draws, named = [], 0
        for run in range(runs):
            test, rng, found = TailStream(), generator(run), math.inf
            for _ in range(TAIL_LOOKS):
                if test.look(source, rng) >= LIMIT:
                    found = min(found, test.draws)
            draws.append(found)
            named += test.source() == source
        report.add(kind="tail", fault=source, **summary(draws), named_right=named)


def main(options: argparse.Namespace) -> None:
    """Run one part; the corpus contributes one peaked, one middling and one flat row."""
    if options.part == "two-sample":
        two_sample(Report("two_sample"), DRAWN_ROW, normal_logits(), options.runs)
        return
    report = Report("blackbox")
    known_law(report, DRAWN_ROW, normal_logits(), options.runs)
    likelihood_ratio(report, DRAWN_ROW, normal_logits(), options.runs)
    real = corpus_logits(options.corpus)
    entropy = np.array([-float(np.sum(p * np.log(p + (p == 0)))) for p in map(softmax, real)])
    order = np.argsort(entropy)
    for place in (len(order) // 4, len(order) // 2, len(order) - 1):
        index = int(order[place])
        name = f"real row {index} ({entropy[index]:.2f} nats)"
        known_law(report, name, real[index], options.runs)
    independence(report, normal_logits(), options.runs)
    tails(report, options.runs)


if __name__ == "__main__":
    main(arguments(part="known law", runs=20))
