"""Compares two results of a processor, and writes their numbers down."""

import torch
from torch import Tensor

from aliquot.contract.accuracy import CLASSES

ARITHMETIC = CLASSES["float32-sequential"]


def different(a: Tensor, b: Tensor) -> Tensor:
    """Where two tensors of one shape differ, NaN equal to NaN."""
    return (a != b) & ~(a.isnan() & b.isnan())


def first_difference(a: Tensor, b: Tensor) -> tuple[int, int] | None:
    """The first row and token in which two results differ; shapes are another check's business."""
    if a.shape != b.shape or a.dim() != 2:
        return None
    places = different(a, b).nonzero()
    return None if not len(places) else (int(places[0, 0]), int(places[0, 1]))


def band(before: Tensor, after: Tensor) -> float:
    """How far two results of the same float32 arithmetic may lie apart, for a row of V values.

    A sum over V terms, an exponential and a logarithm, relative to the largest finite value.
    """
    finite = torch.cat([before[before.isfinite()], after[after.isfinite()]])
    size = max(1.0, float(finite.abs().max())) if len(finite) else 1.0
    unit = ARITHMETIC.sum_error(before.numel()) + 2 * ARITHMETIC.exp_ulps * ARITHMETIC.unit
    return size * unit


def form(tensor: Tensor) -> str:
    """Dtype, shape and device in words."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype} {list(tensor.shape)} on {tensor.device.type}"


def plain(value: float) -> float | str:
    """A number that JSON can hold; infinities and NaN as words."""
    return value if abs(value) < torch.inf else str(value)


def number(value: Tensor) -> str:
    """One logit in nine digits."""
    return f"{float(value):.9g}"
