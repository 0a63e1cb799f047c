"""Customary verdict rules beside ours, on the same faults: draws needed, or faults that escape.

The rules are our own re-implementations of what sampler test suites commonly assert:

- cosine: cosine similarity of frequencies and law above 0.99 on five million draws;
- TV: total variation of frequencies and law below 0.05 on 20,000 draws;
- chi-square, 10 sigma: Pearson's statistic over cells expecting at least 5 (the others dropped)
  above its mean by 10 standard deviations;
- tolerance: every probability within 1e-3 absolute plus 1e-3 relative;
- count: as many tokens kept as the filter should keep.

Each is judged on what it would let pass, and, where draws decide, on the draws that it needs.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from statistical_common import (
    RUN_ALPHA,
    SEED,
    VOCAB,
    Floats,
    Report,
    arguments,
    corpus_logits,
    normal_logits,
    softmax,
    tempered,
    total_variation,
    without_tail,
)

from aliquot.statistical import power, support
from aliquot.statistical.eprocess import KnownLaw
from aliquot.statistical.partitions import Partition, default_partitions

Counts = npt.NDArray[np.int64]

LIMIT = -math.log(RUN_ALPHA)
COSINE_DRAWS, COSINE_LEAST = 5_000_000, 0.99
TV_DRAWS, TV_MOST = 20_000, 0.05
SIGMAS, LEAST_EXPECTED = 10, 5
TOLERANCE = 1e-3
MOST_DRAWS = 1 << 26
GRID = 2.0**0.125
ZEROS = "kernel that returns zeros"


def shifted(logits: Floats, distance: float) -> Floats:
    """Law at a total variation of ``distance``: alternate ids up and down by one factor."""
    law = softmax(logits)
    signs = np.where(np.arange(len(law)) % 2, 1.0, -1.0)
    change = law * (signs - signs @ law)
    return law + change * distance / (0.5 * np.abs(change).sum())


FAULTS: dict[str, Callable[[Floats], Floats]] = {
    "T x1.10": lambda logits: tempered(logits, 1.10),
    "T x1.05": lambda logits: tempered(logits, 1.05),
    "T x1.02": lambda logits: tempered(logits, 1.02),
    "1 % of the tail lost": lambda logits: without_tail(logits, 0.01),
    "0.1 % of the tail lost": lambda logits: without_tail(logits, 0.001),
    "30 % of the tail lost": lambda logits: without_tail(logits, 0.30),
    "TV 0.04": lambda logits: shifted(logits, 0.04),
}


def cosine_passes(counts: Counts, law: Floats) -> bool:
    """Whether the cosine rule lets the counts pass."""
    cosine = counts @ law / math.sqrt(float(counts @ counts) * float(law @ law))
    return bool(cosine > COSINE_LEAST)


def tv_passes(counts: Counts, law: Floats) -> bool:
    """Whether the TV rule lets the counts pass."""
    return total_variation(counts / counts.sum(), law) < TV_MOST


def ten_sigma_finds(counts: Counts, law: Floats) -> bool:
    """Whether the 10-sigma chi-square rule finds the counts faulty."""
    expected = law * counts.sum()
    kept = expected >= LEAST_EXPECTED
    dof = int(kept.sum()) - 1
    if dof < 1:
        return False
    statistic = float(((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum())
    return statistic > dof + SIGMAS * math.sqrt(2 * dof)


def tolerance_passes(given: Floats, law: Floats) -> bool:
    """Whether the tolerance rule lets the probabilities pass."""
    return bool((np.abs(given - law) <= TOLERANCE + TOLERANCE * law).all())


def escape_rate(
    passes: Callable[[Counts, Floats], bool], law: Floats, faulty: Floats, draws: int, runs: int
) -> float:
    """Share of seeded runs in which the fault passes a rule."""
    rng = np.random.default_rng(SEED)
    return float(np.mean([passes(rng.multinomial(draws, faulty), law) for _ in range(runs)]))


def median_draws(
    finds: Callable[[Counts], bool], faulty: Floats, runs: int, start: int
) -> int | None:
    """Median over runs of the draws at which growing counts are first found faulty."""
    needed = []
    for run in range(runs):
        rng, draws = np.random.default_rng([SEED, run]), start
        counts = rng.multinomial(draws, faulty)
        while draws < MOST_DRAWS and not finds(counts):
            more = math.ceil(draws * (GRID - 1))
            counts += rng.multinomial(more, faulty)
            draws += more
        needed.append(draws if draws < MOST_DRAWS else math.inf)
    median = float(np.quantile(needed, 0.5, method="higher"))
    return int(median) if math.isfinite(median) else None


def ours_finds(law: Floats, partitions: tuple[Partition, ...]) -> Callable[[Counts], bool]:
    """Whether the known-law e-process on all counts so far reaches 1 / alpha."""

    def finds(counts: Counts) -> bool:
        test = KnownLaw(law, partitions)
        return test.observe(np.repeat(np.arange(len(law)), counts)) >= LIMIT

    return finds


def compare(report: Report, row: str, logits: Floats, runs: int) -> None:
    """Every rule on every fault of a row."""
    law = softmax(logits)
    ours = ours_finds(law, default_partitions(law))
    for name, fault in FAULTS.items():
        faulty = fault(logits)
        if (faulty == law).all():
            continue
        report.add(
            kind="rules",
            row=row,
            fault=name,
            tv=total_variation(law, faulty),
            replay_draws=power.replay_draws(total_variation(law, faulty)),
            ours_draws=median_draws(ours, faulty, runs, 100),
            ten_sigma_draws=median_draws(
                lambda counts: ten_sigma_finds(counts, law), faulty, runs, 1_000
            ),
            cosine_escapes=escape_rate(cosine_passes, law, faulty, COSINE_DRAWS, runs),
            tv_escapes=escape_rate(tv_passes, law, faulty, TV_DRAWS, 10 * runs),
            tolerance_escapes=float(tolerance_passes(faulty, law)),
        )
    report.add(
        kind="null",
        row=row,
        cosine_false_alarms=1 - escape_rate(cosine_passes, law, law, COSINE_DRAWS, runs),
        tv_false_alarms=1 - escape_rate(tv_passes, law, law, TV_DRAWS, 10 * runs),
    )


def accepted_as_law(given: Floats) -> bool:
    """Whether the probabilities are taken as a law to test against."""
    try:
        KnownLaw(given)
    except ValueError:
        return False
    return True


def zeros(report: Report) -> None:
    """A kernel that returns zeros, under the tolerance rule and by its own sum."""
    cases = [(vocab, seed) for vocab in (32_000, VOCAB) for seed in range(4)]
    laws = [softmax(normal_logits(vocab, seed)) for vocab, seed in cases]
    report.add(
        kind="zeros",
        fault=ZEROS,
        cases=len(cases),
        tolerance_escapes=sum(tolerance_passes(np.zeros_like(law), law) for law in laws),
        ours_escapes=sum(accepted_as_law(np.zeros_like(law)) for law in laws),
    )


def counted(report: Report, logits: Floats, runs: int) -> None:
    """A top-k filter that keeps k wrong tokens, under the count rule and by the support test."""
    top_k, order = 50, np.argsort(-logits)
    allowed = np.zeros(len(logits), dtype=np.bool_)
    allowed[order[:top_k]] = True
    law = softmax(logits)
    for name, kept in (
        ("one wrong token of 50", np.delete(order[: top_k + 1], top_k - 1)),
        ("tokens 2 to 51", order[1 : top_k + 1]),
    ):
        masses, found = law[kept] / law[kept].sum(), []
        for run in range(runs):
            ids = np.random.default_rng([SEED, run]).choice(kept, size=100_000, p=masses)
            first = np.flatnonzero(~allowed[ids])
            found.append(int(first[0]) + 1 if first.size else 100_000)
            assert support.check(ids, allowed).passed == (first.size == 0)
        report.add(
            kind="count",
            fault=f"top-k keeps {name}",
            count_escapes=float(len(kept) == top_k),
            ours_draws=int(np.median(found)),
        )


def main(options: argparse.Namespace) -> None:
    """Compare on a large drawn row, a row of 64 tokens and real rows."""
    report = Report("weak")
    compare(report, "N(0,1), V = 128,256", normal_logits(), options.runs)
    compare(report, "N(0,1), V = 64", normal_logits(64), options.runs)
    real = corpus_logits(options.corpus)
    entropy = np.array([-float(np.sum(p * np.log(p + (p == 0)))) for p in map(softmax, real)])
    order = np.argsort(entropy)
    for place in (len(order) // 2, len(order) - 1):
        index = int(order[place])
        compare(report, f"real row {index} ({entropy[index]:.2f} nats)", real[index], options.runs)
    zeros(report)
    counted(report, normal_logits(), options.runs)


if __name__ == "__main__":
    main(arguments(runs=5))
