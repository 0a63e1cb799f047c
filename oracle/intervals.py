"""What a sampler of a declared accuracy class may hold in the place of each logit.

Every operation adds its own rounding, of the unit roundoff u of the class, to what it received:

* a masked, forced or untouched logit is exact; * bias, frequency and presence: one rounding for the
product, one for the sum; * repetition penalty and temperature: 2 u, enough for a division and for a
product with a rounded reciprocal; a power of two rounds nothing; * exp and log: `exp_ulps * u`, and
exp's argument its own rounding, `u * |l - max|`; * a sum of m terms: `sum_error(m)`.

Rounding is monotone: if a logit a is at least b, so is a / T after b / T, whatever T. A row
therefore keeps two intervals for a logit: `order`, before the temperature, which decides what can
never be inverted, and `value`, after it. The unit includes 2^-53 for the oracle's own arithmetic.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.accuracy import AccuracyClass
from aliquot.oracle import penalties, temperature
from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

Mask = npt.NDArray[np.bool_]
OWN_UNIT = 2.0**-53


@dataclass(frozen=True)
class Interval:
    """Closed intervals, one for each token: float64 or int64 arrays `lo` and `hi` of one shape."""

    lo: npt.NDArray[Any]
    hi: npt.NDArray[Any]


@dataclass(frozen=True)
class Held:
    """One row as the sampler may hold it: float64 `[V]` ends, and which tokens surely or possibly stay.

    `order_lo` and `order_hi` bound the logits before the temperature, `lo` and `hi` as they stand.
    """

    order_lo: Rows
    order_hi: Rows
    lo: Rows
    hi: Rows
    must: Mask
    may: Mask

    @classmethod
    def around(cls, row: Rows, error: Rows) -> "Held":
        """A row within an absolute error; -inf is exact and does not stay."""
        alive = row > -np.inf
        lo, hi = row - error, row + error
        return cls(lo, hi, lo, hi, alive, alive)

    @property
    def reference(self) -> float:
        """The largest value that the row may hold."""
        return float(self.hi[self.may].max())

    def kept(self, must: Mask, may: Mask) -> "Held":
        """The row after one more filter."""
        return replace(self, must=self.must & must, may=self.may & may)


@dataclass(frozen=True)
class Arithmetic:
    """The roundings of an accuracy class."""

    accuracy: AccuracyClass

    @property
    def unit(self) -> float:
        """The relative error of one operation, the oracle's own included."""
        return self.accuracy.unit + OWN_UNIT

    @property
    def exp_error(self) -> float:
        """The relative error of one exp or log, without that of its argument."""
        return (self.accuracy.exp_ulps + 1) * self.unit - self.accuracy.unit

    def sum_error(self, size: int) -> float:
        """The relative error of a sum of non-negative terms."""
        return self.accuracy.sum_error(size) + 2 * OWN_UNIT

    def scaling(self, factor: float) -> float:
        """The relative error of dividing or multiplying by a parameter."""
        return 0.0 if math.frexp(factor)[0] == 0.5 else 2 * self.unit

    def weights(self, held: Held) -> tuple[Rows, Rows]:
        """The least and the largest `exp(l - max)` of each token `[V]`, up to a factor common to the row.

        What is below the smallest normal number may be flushed to zero.
        """
        reference = held.reference
        argument = self.unit * (reference - np.where(held.may, held.lo, reference))
        with np.errstate(under="ignore"):
            lo = np.exp(held.lo - reference - argument - self.exp_error)
            hi = np.exp(np.minimum(held.hi - reference + argument, 0.0) + self.exp_error)
        tiny = self.accuracy.smallest_normal
        return np.where(held.may & (lo >= tiny), lo, 0.0), np.where(held.may, hi + tiny, 0.0)


def penalised(trace: dict[str, Rows], row: int, context: Context, arithmetic: Arithmetic) -> Held:
    """Row `row` after the thinking budget, from the oracle's traced rows after each step."""
    params = context.params[row]
    error = np.zeros(trace["logit_bias"].shape[1])
    unit = arithmetic.unit
    biased = [token for token, bias in params.logit_bias.items() if bias != 0]
    error[biased] = unit * np.abs(_finite(trace["logit_bias"][row, biased]))
    if penalties.penalises(params):
        error = _penalty_error(trace["logit_bias"][row], error, row, context, arithmetic)
    after = trace["thinking_budget"][row]
    exact = (after != trace["penalties"][row]) | (after == -np.inf)
    return Held.around(after, np.where(exact, 0.0, error))


def _penalty_error(
    row: Rows, error: Rows, index: int, context: Context, arithmetic: Arithmetic
) -> Rows:
    """The absolute error `[V]` after the penalties for a row that had `error` before."""
    params, unit = context.params[index], arithmetic.unit
    prompt = penalties.counts(context.batch.requests[index].prompt_token_ids or (), row.size)
    output = penalties.counts(context.histories[index], row.size)
    seen = (prompt > 0) | (output > 0)
    row, r = np.where(np.isfinite(row), row, 0.0), params.repetition_penalty
    error = np.where(seen, np.where(row > 0, error / r, error * r), error)
    row = np.where(seen, np.where(row > 0, row / r, row * r), row)
    error = error + np.where(seen, arithmetic.scaling(r) * (np.abs(row) + error), 0.0)
    for penalty, times in (
        (params.frequency_penalty, output),
        (params.presence_penalty, (output > 0).astype(np.int64)),
    ):
        lost = penalty * times
        row = row - lost
        rounded = unit * (np.abs(lost) + np.abs(row) + error)
        error = error + np.where(lost != 0, rounded, 0.0)
    return error


def heated(held: Held, row: int, context: Context, arithmetic: Arithmetic) -> Held:
    """The row divided by its temperature: new values, the order as before."""
    divisor = float(temperature.divisors(context)[row])
    relative = arithmetic.scaling(divisor)
    if divisor == 1:
        return held
    lo, hi = held.lo / divisor, held.hi / divisor
    wide = relative * np.maximum(np.abs(_finite(lo)), np.abs(_finite(hi)))
    wide += arithmetic.accuracy.smallest_normal
    return replace(held, lo=lo - wide, hi=hi + wide)


def _finite(values: Rows) -> Rows:
    return np.where(np.isfinite(values), values, 0.0)
