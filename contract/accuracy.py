"""Accuracy classes: the arithmetic that a backend declares, from which every tolerance is derived."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

LANES = 8
_F16, _F32, _F64 = 2.0**-11, 2.0**-24, 2.0**-53


@dataclass(frozen=True, kw_only=True)
class AccuracyClass:
    """The arithmetic of a sampler.

    `unit` is the unit roundoff u (2^-24 for float32). `summation` says how sums over the vocabulary
    grow: `sequential` accumulates V roundings, `blocked` ceil(log2 V), `exact` none (a wider
    accumulator), `lanes` V/8 + 3: a vector register of 8 or more running sums, as in torch's
    softmax and log_softmax on the CPU. `exp_ulps` bounds the error of exp and log in units of u.
    `parameter_unit` is the unit roundoff of the dtype that holds temperature, top_p, min_p and the
    penalties: float32 in all classes below, as production samplers hold them.
    """

    name: str
    unit: float
    summation: Literal["sequential", "lanes", "blocked", "exact"]
    exp_ulps: float
    parameter_unit: float

    @property
    def parameter_dtype(self) -> type[Any]:
        """The NumPy dtype whose unit roundoff is `parameter_unit` (INV10). Raises KeyError for others."""
        return {_F16: np.float16, _F32: np.float32, _F64: np.float64}[self.parameter_unit]

    @property
    def smallest_normal(self) -> float:
        """Results below this may be flushed to zero: float64's for its unit, else float32's."""
        return float(np.finfo(np.float64 if self.unit <= _F64 else np.float32).smallest_normal)

    @property
    def largest(self) -> float:
        """Results above this overflow: float64's for its unit, else float32's."""
        return float(np.finfo(np.float64 if self.unit <= _F64 else np.float32).max)

    def sum_error(self, size: int) -> float:
        """Relative error of a sum of `size` non-negative terms."""
        if self.summation == "exact" or size <= 1:
            return self.unit
        terms = {
            "sequential": size - 1,
            "lanes": min(size - 1, math.ceil(size / LANES) + 3),
            "blocked": math.ceil(math.log2(size)),
        }
        return terms[self.summation] * self.unit


CLASSES = {
    cls.name: cls
    for cls in (
        AccuracyClass(name="float32", unit=_F32, summation="blocked", exp_ulps=2,
                      parameter_unit=_F32),
        AccuracyClass(name="float32-lanes", unit=_F32, summation="lanes", exp_ulps=2,
                      parameter_unit=_F32),
        AccuracyClass(name="float32-sequential", unit=_F32, summation="sequential", exp_ulps=2,
                      parameter_unit=_F32),
        AccuracyClass(name="float32-wide-sum", unit=_F32, summation="exact", exp_ulps=2,
                      parameter_unit=_F32),
        AccuracyClass(name="float64", unit=_F64, summation="blocked", exp_ulps=2,
                      parameter_unit=_F32),
    )
}  # fmt: skip
