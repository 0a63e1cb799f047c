"""Softmax and its logarithm in float64, to the last few units.

DRAW01: `P(t) = exp(l[t]) / sum(exp(l))`. LOGP02: `log P(t) = (l[t] - max) - log1p(sum of the
others' exp)`. The rounding of `l - max` is carried along, the sum is exact (Shewchuk's), and the
largest token stands outside the logarithm: its logprob keeps full relative precision however close
to 0 it is. The probabilities sum to 1 within 2^-52 relative and logprobs are right within 4 * 2^-53
relative of the logits as given.
"""

import math

import numpy as np

from aliquot.oracle.rows import Rows


def softmax(rows: Rows) -> Rows:
    """Probabilities float64 `[n, V]` of logits `[n, V]`; -inf has probability 0 (DRAW01)."""
    probs = np.zeros_like(rows)
    for row, out in zip(rows, probs, strict=True):
        alive = np.flatnonzero(row > -np.inf)
        weight = weights(row[alive])
        out[alive] = weight / math.fsum(weight)  # DRAW01
    return probs


def log_softmax(rows: Rows) -> Rows:
    """Logprobs float64 `[n, V]` of logits `[n, V]`; -inf stays -inf (LOGP02)."""
    logprobs = np.full_like(rows, -np.inf)
    for row, out in zip(rows, logprobs, strict=True):
        alive = np.flatnonzero(row > -np.inf)
        gaps, lost = _gaps(row[alive])
        weight = np.exp(gaps)
        weight[row[alive].argmax()] = 0.0
        others = math.fsum(np.concatenate([weight, weight * lost]))
        out[alive] = gaps - (math.log1p(others) - lost)  # LOGP02
    return logprobs


def weights(logits: Rows) -> Rows:
    """`exp(l - max)` of finite logits `[m]`: the largest weighs exactly 1."""
    gaps, lost = _gaps(logits)
    weight = np.exp(gaps)
    return weight + weight * lost


def prefix_sums(weights: Rows) -> Rows:
    """Running sums of weights `[m]` in [0, 2), each within 2^-52 relative whatever m is.

    The weights are split into two integer limbs, whose running sums are exact.
    """
    scale = 2.0 ** (61 - weights.size.bit_length())
    scaled = weights * scale
    coarse = np.floor(scaled)
    fine = (scaled - coarse) * scale
    sums = [np.cumsum(limb.astype(np.int64)) for limb in (coarse, fine)]
    total: Rows = sums[0] / scale + sums[1] / scale**2
    return total


def _gaps(logits: Rows) -> tuple[Rows, Rows]:
    """`l - max` rounded, and the exact error of that rounding (Knuth's TwoSum)."""
    largest = logits.max()
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = logits - largest
        back = gaps + largest
        lost = (logits - back) + ((back - gaps) - largest)
    return gaps, np.where(np.isfinite(lost), lost, 0.0)
