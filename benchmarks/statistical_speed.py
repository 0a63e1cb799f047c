"""Time to count and test one million draws over 128,256 tokens; the best of five."""

import argparse
import time
from collections.abc import Callable

import numpy as np
from statistical_common import SEED, VOCAB, Report, arguments, normal_logits, sampler, softmax

from aliquot.statistical.chisquare import goodness_of_fit
from aliquot.statistical.eprocess import KnownLaw
from aliquot.statistical.partitions import default_partitions

DRAWS = 1_000_000
REPEATS = 5


def best_of(work: Callable[[], object]) -> float:
    """Shortest of `REPEATS` wall-clock times, in seconds."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(min(times), 4)


def main(options: argparse.Namespace) -> None:
    """Time each part."""
    report, law = Report("speed"), softmax(normal_logits())
    ids = sampler(law)(DRAWS, np.random.default_rng(SEED))
    partitions = default_partitions(law)
    parts: dict[str, Callable[[], object]] = {
        "partitions of a law": lambda: default_partitions(law),
        "count and test, e-process": lambda: KnownLaw(law, partitions).observe(ids),
        "count and test, chi-square": lambda: goodness_of_fit(
            np.bincount(ids, minlength=VOCAB), law
        ),
        "all, from law and ids to e-value": lambda: KnownLaw(law).observe(ids),
    }
    for name, work in parts.items():
        report.add(part=name, draws=DRAWS, vocab=VOCAB, seconds=best_of(work))


if __name__ == "__main__":
    main(arguments())
