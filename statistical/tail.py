"""Directed tails: how fine a sampler's noise is, measured far below the best token, and named.

Signatures that other code may rely on::

    tail_logits(gap, tail_tokens=TAIL_TOKENS) -> float64 [1 + tail_tokens]
    hit_probability(source, gap, tail_tokens=TAIL_TOKENS) -> float
    TailTest().observe(gap, hits, draws) -> log_e;  .source() -> name of the noise source

One token has logit 0 and many have logit ``-gap``. A tail token wins the exponential race iff its
noise is below ``exp(-gap)`` times the best token's, so noise that cannot be small, because its
uniform number has 24 bits, loses tail tokens from a gap of 16 nats on and all of them from 20. Each
source has its own hit probability at each gap, in closed form; the hits are binomial.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import special

from aliquot.statistical.eprocess import PRIORS, EProcess, Mixture

GAPS = (16.0, 18.0, 20.0, 20.5, 21.0)
TAIL_TOKENS = 262_144
EXACT = "float64"
UNDECIDED = "undecided"
OTHER = "other"
LEAST_ODDS = 1_000.0


@dataclass(frozen=True)
class NoiseSource:
    """Exponential noise on a grid near 0.

    Attributes:
        bits: the smallest value is ``2**-bits``, the others are its multiples.
        offset: the probability of a value up to ``j`` grid steps is ``(j + offset) 2**-bits``.
        largest: largest value.
    """

    bits: int
    offset: float
    largest: float


SOURCES: dict[str, NoiseSource] = {
    "23-bit uniform": NoiseSource(23, 0.0, 23 * math.log(2)),
    "24-bit uniform": NoiseSource(24, 0.0, 24 * math.log(2)),
    "float32 exponential": NoiseSource(24, 0.5, 33 * math.log(2)),
    "32-bit uniform": NoiseSource(32, 0.0, 32 * math.log(2)),
}
"""Named sources: ``-log(1 - k 2**-bits)``, and CUDA's ``-log(u)`` of a 32-bit ``u`` that is rounded
to float32 and held off 1 by ``2**-24``."""


def tail_logits(gap: float, tail_tokens: int = TAIL_TOKENS) -> npt.NDArray[np.float64]:
    """Row to draw from: token 0 has logit 0, the others ``-gap``; float64 [1 + tail_tokens]."""
    logits = np.full(1 + tail_tokens, -float(gap))
    logits[0] = 0.0
    return logits


@functools.cache
def hit_probability(source: str, gap: float, tail_tokens: int = TAIL_TOKENS) -> float:
    """Probability that a draw is a tail token.

    Args:
        source: `EXACT` or a key of `SOURCES`.
        gap: nats between the best token and each tail token.
        tail_tokens: number of tail tokens.
    """
    if source == EXACT:
        mass = tail_tokens * math.exp(-gap)
        return mass / (1 + mass)
    noise = SOURCES[source]
    step = math.exp(gap) * 2.0**-noise.bits
    steps = np.arange(1, math.ceil(noise.largest / step) + 1)
    edges = np.minimum(np.append(steps, steps[-1] + 1) * step, noise.largest)
    reached = np.exp(-edges[:-1]) - np.exp(-edges[1:])
    below = np.minimum((steps + noise.offset) * 2.0**-noise.bits, 1.0)
    return float(reached @ -np.expm1(tail_tokens * np.log1p(-below)))


class TailTest(EProcess):
    """E-process that tail tokens are drawn as often as the law says, over several gaps.

    Args:
        tail_tokens: tail tokens of each row.

    Alternatives: each of `SOURCES`, and a mixture over all hit rates for what they do not cover.
    """

    def __init__(self, tail_tokens: int = TAIL_TOKENS) -> None:
        self.tail_tokens = tail_tokens
        self.counts: dict[float, npt.NDArray[np.int64]] = {}

    def observe(self, gap: float, hits: int, draws: int) -> float:
        """Add ``hits`` tail tokens in ``draws`` draws of `tail_logits`; return the log e-value.

        Raises:
            ValueError: hits outside ``0..draws``, or a gap that is not positive.
        """
        if not 0 <= hits <= draws or not gap > 0:
            raise ValueError(f"gap = {gap}, hits = {hits}, draws = {draws}: not a count of hits")
        seen = self.counts.setdefault(float(gap), np.zeros(2, dtype=np.int64))
        seen += (draws - hits, hits)
        self.draws += draws
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the likelihood ratio of each source, and of the mixture, to `EXACT`."""
        exact = self._log_likelihood(EXACT)
        ratios = {source: self._log_likelihood(source) - exact for source in SOURCES}
        return ratios | {OTHER: sum(map(self._log_mixture_e, self.counts))}

    def weights(self) -> Sequence[float]:
        """Equal weights."""
        return [1.0] * (len(SOURCES) + 1)

    def merge(self, other: Self) -> None:
        """Add the hits of another shard."""
        if self.tail_tokens != other.tail_tokens:
            raise ValueError(
                f"merge: the other shard has {other.tail_tokens} tail tokens, "
                f"this {self.tail_tokens}"
            )
        for gap, seen in other.counts.items():
            self.observe(gap, int(seen[1]), int(seen.sum()))

    def source(self, least_odds: float = LEAST_ODDS) -> str:
        """Name of the noise source: the likeliest of `SOURCES`, `EXACT` and `OTHER`.

        `UNDECIDED` unless it is ``least_odds`` times as likely as the next.
        """
        ratios = self.evidence() | {EXACT: 0.0}
        best, second = sorted(ratios, key=lambda name: ratios[name], reverse=True)[:2]
        return best if ratios[best] - ratios[second] >= math.log(least_odds) else UNDECIDED

    def _log_likelihood(self, source: str) -> float:
        total = 0.0
        for gap, (misses, hits) in self.counts.items():
            rate = hit_probability(source, gap, self.tail_tokens)
            total += float(special.xlogy(hits, rate) + special.xlog1py(misses, -rate))
        return total

    def _log_mixture_e(self, gap: float) -> float:
        rate = hit_probability(EXACT, gap, self.tail_tokens)
        return float(Mixture([1 - rate, rate], PRIORS).log_es(self.counts[gap])[0])
