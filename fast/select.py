"""Partial selection from one row: only as many of the largest logits as an exact test proves enough."""

import numpy as np
import torch
from torch import Tensor

_STRIDE = 32
_SLACK = 64


def largest(row: Tensor, count: int) -> Tensor:
    """The `count` largest values of a row `[V]`, descending.

    On the CPU NumPy's vectorised selection and sort; they are many times quicker than torch's.
    """
    if row.device.type != "cpu":
        return row.topk(count).values
    values = row.numpy()
    if count < len(values):
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return torch.from_numpy(np.sort(values)).flip(0)


def guess_count(row: Tensor, peak: Tensor, temperature: Tensor, top_p: Tensor) -> int:
    """About how many tokens hold a share `top_p` of a row's mass, from every 32nd token."""
    sample = largest(row[::_STRIDE], -(-len(row) // _STRIDE))
    mass = ((sample.double() - peak.double()) / temperature.double()).exp().cumsum(0)
    reached = torch.searchsorted(mass, top_p.double() * mass[-1])
    return min(len(row), int(reached) * _STRIDE * 5 // 4 + _SLACK)
