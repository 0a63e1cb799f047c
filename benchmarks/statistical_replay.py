"""Draws that replay needs to find a fault, and mismatches in a million draws of torch's own race.

The race under test is the customary float32 one: ``argmax(softmax(logits) / e)`` with exponential
noise ``e`` from torch, all in float32. The rounding bound of a log score in that arithmetic, with unit
roundoff ``u = 2**-24`` and first order in ``u``: the shifted logit ``z - max`` is rounded once
(``|z - max| u``), `exp` is off by at most `EXP_ULPS` units in the last place (``2 u`` each), and the
divisions by the sum and by the noise round once each. The sum itself is common to all tokens of a
row and cancels. A logit divided by the temperature would add ``|z| u``; here T = 1.

Faults race on NumPy's float64 exponential noise rounded to float32 (its float32 generator returns
exact zeros too often for a vocabulary of this size), all faults of a row on the same noise.
"""

import argparse
import math
import time

import numpy as np
import torch
from statistical_common import (
    SEED,
    Floats,
    Report,
    arguments,
    corpus_logits,
    decode_logits,
    normal_logits,
    odd_even,
    softmax,
    tempered,
    total_variation,
    without_tail,
)

from aliquot.statistical import replay

UNIT_ROUNDOFF = 2.0**-24
EXP_ULPS = 4
POWER = 0.99
BATCH = 16
SAVED = 25_000
DRAWN_ROW = "N(0,1), V = 128,256"
LARGE_SHARE = 10
REAL_DIVISOR = 4
FAULTS = {
    "T x1.01": lambda logits: tempered(logits, 1.01),
    "0.1 % of the tail lost": lambda logits: without_tail(logits, 0.001),
    "2 % odd/even bias": lambda logits: odd_even(logits, 0.02),
}


def race_bound(logits: Floats) -> Floats:
    """Error bound of a token's log score in the float32 race, float64 [vocab]."""
    return (np.abs(logits - logits.max()) + 2 * EXP_ULPS + 2) * UNIT_ROUNDOFF


def faulty_outcomes(logits: Floats, laws: list[Floats], draws: int, seed: int) -> np.ndarray:
    """Outcomes [faults, draws] of float32 races from faulty laws on one noise."""
    rng, bounds = np.random.default_rng(seed), race_bound(logits)
    fine = np.empty((BATCH, len(logits)))
    noise, scores = (np.empty(fine.shape, dtype=np.float32) for _ in range(2))
    weights = [law.astype(np.float32) for law in laws]
    parts = []
    for _ in range(draws // BATCH):
        np.copyto(noise, rng.standard_exponential(out=fine), casting="same_kind")
        ids = [np.divide(weight, noise, out=scores).argmax(axis=1) for weight in weights]
        parts.append([replay.exponential_race(logits, noise, x, bounds).outcome for x in ids])
    return np.concatenate(parts, axis=1)


def detection(report: Report, row: str, logits: Floats, draws: int) -> None:
    """Mismatch rate of each fault and the draws that find it with 99 % probability."""
    laws = [fault(logits) for fault in FAULTS.values()]
    outcomes = faulty_outcomes(logits, laws, draws, SEED)
    for name, law, outcome in zip(FAULTS, laws, outcomes, strict=True):
        mismatches = int((outcome == replay.MISMATCH).sum())
        rate = mismatches / outcome.size
        report.add(
            kind="detection",
            row=row,
            fault=name,
            tv=total_variation(softmax(logits), law),
            draws_tried=outcome.size,
            mismatches=mismatches,
            draws_99=math.ceil(math.log(1 - POWER) / math.log(1 - rate)) if rate else None,
        )


class TorchRace:
    """Draws of torch's float32 race from a row, in buffers that are reused."""

    def __init__(self, logits: Floats, seed: int) -> None:
        self.law = torch.softmax(torch.tensor(logits, dtype=torch.float32), -1)
        self.generator = torch.Generator().manual_seed(seed)
        self.noise = torch.empty(BATCH, logits.size)
        self.scores = torch.empty(BATCH, logits.size)

    def draw(self, draws: int) -> tuple[np.ndarray, np.ndarray]:
        """Noise [draws, vocab] and ids [draws]; at most `BATCH`, valid until the next call."""
        noise, scores = self.noise[:draws], self.scores[:draws]
        noise.exponential_(generator=self.generator)
        torch.div(self.law, noise, out=scores)
        return noise.numpy(), scores.argmax(dim=-1).numpy()


def null(report: Report, row: str, logits: Floats, draws: int, seed: int) -> None:
    """Outcomes of a correct float32 race, saved after every `SAVED` draws."""
    race, bounds = TorchRace(logits, seed), race_bound(logits)
    counts, start = np.zeros(3, dtype=np.int64), time.monotonic()
    found: dict[str, object] = {"kind": "null", "row": row}
    report.results.append(found)
    for first in range(0, draws, BATCH):
        noise, ids = race.draw(min(BATCH, draws - first))
        outcome = replay.exponential_race(logits, noise, ids, bounds).outcome
        counts += np.bincount(outcome, minlength=3)
        done = int(counts.sum())
        if done == draws or done % SAVED < BATCH:
            names = ("draws", "agree", "rounding", "mismatches")
            found |= dict(zip(names, [done, *counts.tolist()], strict=True))
            found["seconds"] = round(time.monotonic() - start, 1)
            report.save()
    print(found, flush=True)


def million(options: argparse.Namespace) -> None:
    """A tenth of the draws on the large drawn row, the others over all rows of the corpus."""
    report, large = Report("replay_null"), options.null_draws // LARGE_SHARE
    real = np.concatenate([corpus_logits(options.corpus), decode_logits(options.corpus)])
    rest = options.null_draws - large
    null(report, DRAWN_ROW, normal_logits(), large, SEED + len(real))
    for index, logits in enumerate(real):
        draws = (index + 1) * rest // len(real) - index * rest // len(real)
        null(report, f"real row {index}, V = {logits.size:,}", logits, draws, SEED + index)


def main(options: argparse.Namespace) -> None:
    """Run all rows; the corpus contributes one peaked, one middling and one flat row."""
    torch.set_num_threads(1)
    if options.part == "null":
        million(options)
        return
    report = Report("replay")
    detection(report, DRAWN_ROW, normal_logits(), options.draws)
    real = corpus_logits(options.corpus)
    entropy = [-float(np.sum(p * np.log(p + (p == 0)))) for p in map(softmax, real)]
    order = np.argsort(entropy)
    for place in (len(order) // 4, len(order) // 2, len(order) - 1):
        index = int(order[place])
        name = f"real row {index} ({entropy[index]:.2f} nats)"
        detection(report, name, real[index], options.draws // REAL_DIVISOR)


if __name__ == "__main__":
    main(arguments(part="detection", draws=160_000, null_draws=1_000_000))
