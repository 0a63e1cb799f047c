"""F15: backends and ranks that disagree, and runs that do not repeat."""

from dataclasses import replace

import numpy as np

from aliquot.conformance.faults.fault import Fault, Faulty, Generator, Ids, by_size
from aliquot.conformance.faults.seeds import right, seeded_rows
from aliquot.contract.batch import Batch
from aliquot.contract.output import SamplerOutput
from aliquot.oracle import law
from aliquot.oracle.pipeline import Outcome, Rows

BLOCK = 1024
LEVELS = 64
JITTER = 0.01


class NoiseByRank(Faulty):
    """Inverts the distribution in descending order as soon as one row of the batch filters."""

    ranked = False

    def sample(self, logits: object, batch: Batch) -> SamplerOutput:
        """Remember whether a row filters."""
        self.ranked = any(r.params.top_k > 0 or r.params.top_p < 1 for r in batch.requests)
        return super().sample(logits, batch)

    def draw(self, probs: Rows, noise: Rows) -> Ids:
        """Draw in the order in force."""
        if not self.ranked:
            return super().draw(probs, noise)
        with np.errstate(divide="ignore"):
            order, sorted_probs = by_size(np.log(probs))
        return np.asarray(order[law.draw_row(sorted_probs, noise)])


def _coarse(batch: Batch, rng: Generator) -> Rows:
    noise = right(batch, rng)
    return np.where(seeded_rows(batch), noise, (np.floor(noise * LEVELS) + 0.5) / LEVELS)


def _coarse_law(probs: Rows) -> Rows:
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    return np.bincount(law.draw_row(probs, levels), minlength=probs.size) / LEVELS


def _unsteady(batch: Batch, rng: Generator) -> Rows:
    """Seeded noise is a little different in every process and call."""
    noise = right(batch, rng)
    jitter = JITTER * (0.5 + rng.random(len(batch)))
    return np.where(seeded_rows(batch), (noise + jitter) % 1.0, noise)


def _inside_block(outcome: Outcome, batch: Batch) -> Outcome:
    """The argmax of a row is returned as its place inside its block."""
    certain = outcome.law.copy()
    for row, token, request in zip(certain, outcome.greedy_ids, batch.requests, strict=True):
        if request.params.greedy:
            row[:] = 0.0
            row[token % BLOCK] = 1.0
    return replace(outcome, law=certain, greedy_ids=outcome.greedy_ids % BLOCK)


FAULTS = (
    Fault(
        name="noise-by-rank",
        about="noise belongs to ranks instead of ids as soon as one row of the batch filters",
        report="sgl-project/sglang PR 35697",
        group="F15",
        clauses=("SEED02", "INV03", "INV08", "DRAW09"),
        backend=NoiseByRank,
    ),
    Fault(
        name="noise-coarse",
        about="the noise of requests without a seed has 64 values",
        report="vllm-project/vllm PR 26859",
        group="F15",
        clauses=("DRAW01", "DRAW03", "DRAW04", "SEED05"),
        noise=_coarse,
        law=_coarse_law,
    ),
    Fault(
        name="seeded-not-repeated",
        about="equal calls with equal seeds differ",
        report="sgl-project/mini-sglang PR 85",
        group="F15",
        clauses=("SEED01", "SEED02", "SEED04"),
        noise=_unsteady,
    ),
    Fault(
        name="argmax-inside-block",
        about="the argmax is returned as its place inside a block of 1024",
        report="vllm-project/vllm-ascend PR 15118",
        group="F15",
        clauses=("GREEDY01", "GREEDY02", "IO03"),
        outcome=_inside_block,
    ),
)
