"""Draws that replay needs to find a fault, and mismatches in a million draws of torch's own race.

The race under test is the customary float32 one: ``argmax(softmax(logits) / e)`` with exponential
noise ``e`` from torch, all in float32. The rounding bound of a log score in that arithmetic, with unit
roundoff ``u = 2**-24`` and first order in ``u``: the shifted logit ``z - max`` is rounded once
(``|z - max| u``), `exp` is off by at most `EXP_ULPS` units in the last place (``2 u`` each), and the
divisions by the sum and by the noise round once each. The sum itself is common to all tokens of a
row and cancels. A logit divided by the temperature would add ``|z| u``; here T = 1.
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
SAVED = 20_000
FAULTS = {
    "T x1.01": lambda logits: tempered(logits, 1.01),
    "0.1 % of the tail lost": lambda logits: without_tail(logits, 0.001),
    "2 % odd/even bias": lambda logits: odd_even(logits, 0.02),
}


def race_bound(logits: Floats) -> Floats:
    """Error bound of a token's log score in the float32 race, float64 [vocab]."""
    return (np.abs(logits - logits.max()) + 2 * EXP_ULPS + 2) * UNIT_ROUNDOFF


class Float32Race:
    """Draws of torch's float32 race from a law, float32 [vocab], in buffers that are reused."""

    def __init__(self, law: torch.Tensor, seed: int) -> None:
        self.law = law
        self.generator = torch.Generator().manual_seed(seed)
        self.noise = torch.empty(BATCH, len(law))
        self.scores = torch.empty(BATCH, len(law))

    def draw(self, draws: int) -> tuple[np.ndarray, np.ndarray]:
        """Noise [draws, vocab] and ids [draws]; at most `BATCH` draws, valid until the next call."""
        noise, scores = self.noise[:draws], self.scores[:draws]
        noise.exponential_(generator=self.generator)
        torch.div(self.law, noise, out=scores)
        return noise.numpy(), scores.argmax(dim=-1).numpy()


def outcomes_of(logits: Floats, law: torch.Tensor, draws: int, seed: int) -> np.ndarray:
    """Outcome of each replayed draw of a race from ``law``, judged against ``logits``."""
    race, bounds = Float32Race(law, seed), race_bound(logits)
    parts = []
    for start in range(0, draws, BATCH):
        noise, ids = race.draw(min(BATCH, draws - start))
        parts.append(replay.exponential_race(logits, noise, ids, bounds).outcome)
    return np.concatenate(parts)


def detection(report: Report, row: str, logits: Floats, draws: int) -> None:
    """Mismatch rate of each fault and the draws that find it with 99 % probability."""
    for name, fault in FAULTS.items():
        law = fault(logits)
        outcome = outcomes_of(logits, torch.tensor(law, dtype=torch.float32), draws, SEED)
        rate = float(np.mean(outcome == replay.MISMATCH))
        report.add(
            kind="detection",
            row=row,
            fault=name,
            tv=total_variation(softmax(logits), law),
            draws_tried=draws,
            mismatches=int((outcome == replay.MISMATCH).sum()),
            draws_99=math.ceil(math.log(1 - POWER) / math.log(1 - rate)) if rate else None,
        )


def null(report: Report, row: str, logits: Floats, draws: int) -> None:
    """Outcomes of a correct float32 race, saved after every `SAVED` draws."""
    law = torch.softmax(torch.tensor(logits, dtype=torch.float32), -1)
    counts, start = np.zeros(3, dtype=np.int64), time.monotonic()
    found: dict[str, object] = {"kind": "null", "row": row}
    report.results.append(found)
    for part, first in enumerate(range(0, draws, SAVED)):
        outcome = outcomes_of(logits, law, min(SAVED, draws - first), SEED + 1 + part)
        counts += np.bincount(outcome, minlength=3)
        names = ("agree", "rounding", "mismatches")
        found |= {"draws": int(counts.sum()), **dict(zip(names, counts.tolist(), strict=True))}
        found["seconds"] = round(time.monotonic() - start, 1)
        report.save()
    print(found, flush=True)


def million(options: argparse.Namespace) -> None:
    """Half of the draws on the large drawn row, half spread over the rows of the corpus."""
    report, half = Report("replay_null"), options.null_draws // 2
    real = corpus_logits(options.corpus)
    for index, logits in enumerate(real):
        draws = (index + 1) * half // len(real) - index * half // len(real)
        null(report, f"real row {index}, V = {logits.size:,}", logits, draws)
    null(report, "N(0,1), V = 128,256", normal_logits(), options.null_draws - half)


def main(options: argparse.Namespace) -> None:
    """Run all rows; the corpus contributes one peaked, one middling and one flat row."""
    torch.set_num_threads(1)
    if options.part == "null":
        million(options)
        return
    report = Report("replay")
    detection(report, "N(0,1), V = 128,256", normal_logits(), options.draws)
    real = corpus_logits(options.corpus)
    entropy = [-float(np.sum(p * np.log(p + (p == 0)))) for p in map(softmax, real)]
    order = np.argsort(entropy)
    for place in (len(order) // 4, len(order) // 2, len(order) - 1):
        index = int(order[place])
        name = f"real row {index} ({entropy[index]:.2f} nats)"
        detection(report, name, real[index], options.draws)


if __name__ == "__main__":
    main(arguments(part="detection", draws=20_000, null_draws=1_000_000))
