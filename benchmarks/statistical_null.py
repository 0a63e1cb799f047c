"""False alarms: complete runs at alpha = 1e-6, e-processes at alpha = 1e-3, uniform p-values.

A complete run spends the ledger on seven named tests of correct float64 samplers: known
law on a drawn row and on a real row, two-sample, likelihood ratio, independence of a batch, equal
ids and directed tails; it also replays a float32 race. Every e-value is looked at after each of `LOOKS`
parts of the draws.
"""

import argparse
import functools
import math

import numpy as np
from scipy import stats
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
    without_tail,
)

from aliquot.statistical import chisquare, replay
from aliquot.statistical.eprocess import EProcess, KnownLaw, LikelihoodRatio, TwoSample
from aliquot.statistical.independence import Independence, match_test
from aliquot.statistical.ledger import Ledger
from aliquot.statistical.partitions import default_partitions
from aliquot.statistical.tail import EXACT, GAPS, TailTest, hit_probability

LOOKS = 4
ROWS = 8
RACE_VOCAB, RACE_DRAWS = 2_048, 64
E_ALPHA = 1e-3
E_PROCESSES = 10_000
TABLES = 2_000
UNIT_ROUNDOFF = 2.0**-24


class NullRun:
    """Laws and partitions of a complete run, made once."""

    def __init__(self, vocab: int, real: Floats) -> None:
        self.logits, self.real = normal_logits(vocab), real
        self.laws = [softmax(self.logits), softmax(real), softmax(self.logits / 4)]
        self.partitions = [default_partitions(law) for law in self.laws]
        self.draws = [sampler(law) for law in self.laws]
        self.alternatives = {
            "hot": tempered(self.logits, 1.05),
            "odd": odd_even(self.logits, 0.02),
            "short": without_tail(self.logits, 0.001),
        }

    def run(self, number: int, draws: int) -> Ledger:
        """Ledger of one complete run with ``draws`` draws a test."""
        ledger, rng = Ledger(RUN_ALPHA), np.random.default_rng([SEED, number])
        tests = self.tests()
        ledger.grant_evenly(tests)
        for _ in range(LOOKS):
            for name, test in tests.items():
                ledger.reject_e(name, self.look(name, test, draws // LOOKS, rng))
        return ledger

    def tests(self) -> dict[str, EProcess]:
        """Fresh tests by name."""
        normal, real, flat = self.laws
        return {
            "known law, drawn row": KnownLaw(normal, self.partitions[0]),
            "known law, real row": KnownLaw(real, self.partitions[1]),
            "two-sample": TwoSample(self.partitions[0]),
            "likelihood ratio": LikelihoodRatio(normal, self.alternatives),
            "independence": Independence(flat, ROWS),
            "equal ids": match_test(flat, flat),
            "tail": TailTest(),
        }

    def look(self, name: str, test: EProcess, draws: int, rng: np.random.Generator) -> float:
        """Draw for one test and return its log e-value."""
        normal, real, flat = (functools.partial(draw, draws, rng) for draw in self.draws)
        if isinstance(test, TailTest):
            for gap in GAPS:
                test.observe(gap, rng.binomial(draws, hit_probability(EXACT, gap)), draws)
            return test.log_e
        given = {
            "known law, real row": lambda: (real(),),
            "two-sample": lambda: (normal(), normal()),
            "independence": lambda: (flat().reshape(-1, ROWS),),
            "equal ids": lambda: ((flat() == flat()).astype(np.int64),),
        }.get(name, lambda: (normal(),))
        return float(test.observe(*given()))


def replay_mismatches(number: int) -> int:
    """Mismatches of a correct float32 race on a small row."""
    logits = normal_logits(RACE_VOCAB)
    noise = np.random.default_rng([SEED, number, 1]).exponential(size=(RACE_DRAWS, RACE_VOCAB))
    noise = np.maximum(noise, np.finfo(np.float32).tiny).astype(np.float32)
    ids = (softmax(logits).astype(np.float32) / noise).argmax(axis=1)
    bounds = (np.abs(logits - logits.max()) + 12) * UNIT_ROUNDOFF
    return int(replay.exponential_race(logits, noise, ids, bounds).mismatches.size)


def complete_runs(report: Report, null: NullRun, runs: int, draws: int) -> None:
    """Complete runs that came out red, and the largest e-value of each test."""
    red, mismatches, largest = 0, 0, dict.fromkeys(null.tests(), -math.inf)
    for number in range(runs):
        ledger = null.run(number, draws)
        mismatches += replay_mismatches(number)
        red += bool(ledger.rejected)
        for name, entry in ledger.entries.items():
            largest[name] = max(largest[name], entry.log_e if entry.log_e is not None else 0.0)
    peak = {name: round(log_e / math.log(10), 2) for name, log_e in largest.items()}
    report.add(
        kind="complete runs",
        alpha=RUN_ALPHA,
        runs=runs,
        draws_a_test=draws,
        red=red,
        replay_draws=runs * RACE_DRAWS,
        replay_mismatches=mismatches,
        largest_log10_e=peak,
    )


def e_processes(report: Report, vocab: int, draws: int, looks: int, processes: int) -> None:
    """Null e-processes that ever reached 1 / alpha, and the mean of their last e-values."""
    law = softmax(normal_logits(vocab))
    partitions, draw = default_partitions(law), sampler(law)
    crossed, last = 0, []
    for number in range(processes):
        rng, test = np.random.default_rng([SEED, number, 2]), KnownLaw(law, partitions)
        log_es = [test.observe(draw(draws // looks, rng)) for _ in range(looks)]
        crossed += max(log_es) >= -math.log(E_ALPHA)
        last.append(log_es[-1])
    report.add(
        kind="e-processes",
        alpha=E_ALPHA,
        processes=processes,
        vocab=vocab,
        draws=draws,
        looks=looks,
        crossed=crossed,
        expected_at_most=E_ALPHA * processes,
        mean_e=float(np.mean(np.exp(last))),
        sd_of_mean=float(np.std(np.exp(last)) / math.sqrt(processes)),
    )


def p_values(report: Report, vocab: int, draws: int) -> None:
    """Kolmogorov-Smirnov test of null p-values, and how often they fall below 1e-3."""
    law = softmax(normal_logits(vocab))
    rng = np.random.default_rng([SEED, 3])
    tables = rng.multinomial(draws, law, size=2 * TABLES)
    found = {
        "chi-square": [chisquare.goodness_of_fit(t, law).p_value for t in tables[:TABLES]],
        "G": [chisquare.g_test(t, law).p_value for t in tables[:TABLES]],
        "two-sample chi-square": [
            chisquare.two_sample(a, b).p_value
            for a, b in zip(tables[:TABLES], tables[TABLES:], strict=True)
        ],
    }
    for test, values in found.items():
        report.add(
            kind="p-values",
            test=test,
            vocab=vocab,
            draws=draws,
            tables=TABLES,
            ks_p=float(stats.kstest(values, "uniform").pvalue),
            below_1e_3=int(np.sum(np.array(values) < 1e-3)),
        )


def main(options: argparse.Namespace) -> None:
    """Run all parts."""
    report = Report("null")
    for vocab, draws in ((64, 5_000), (4_096, 100_000)):
        p_values(report, vocab, draws)
    e_processes(report, 64, 2_000, 10, options.processes)
    real = corpus_logits(options.corpus)
    null = NullRun(options.vocab, real[len(real) // 2])
    complete_runs(report, null, options.runs, options.draws)


if __name__ == "__main__":
    main(arguments(runs=1_000, draws=40_000, vocab=128_256, processes=E_PROCESSES))
