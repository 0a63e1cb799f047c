"""Partial selection: the largest values of a row without sorting the rest."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest entries of each row of `[n, m]`, descending, and their positions, int64.

    NaN counts as largest. On the CPU by NumPy's vectorised selection, which is several times quicker than topk.
    """
    if values.device.type != "cpu" or count >= values.shape[1]:
        found = values.topk(min(count, values.shape[1]), dim=1)
        return found.values, found.indices
    width = values.shape[1]
    chosen = np.argpartition(values.numpy(), width - count, axis=1)[:, width - count :]
    index = torch.from_numpy(np.ascontiguousarray(chosen))
    ordered, order = values.gather(1, index).sort(dim=1, descending=True)
    return ordered, index.gather(1, order)


def first_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest entry of each row of `[n, m]` and its first position, int64, `[n]` each; NaN counts as largest.

    On the CPU by NumPy, whose argmax is ten times quicker than torch's.
    """
    if values.device.type != "cpu":
        found = values.max(1)
        return found.values, found.indices
    array = values.numpy()
    position = array.argmax(1)
    largest = array[np.arange(len(array)), position]
    return torch.from_numpy(largest), torch.from_numpy(position)


def first_largest_in_blocks(values: Tensor, maxima: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """`first_largest` on the CPU from the maxima of consecutive blocks of `size`: one block a row is searched."""
    tops, width = maxima.numpy(), values.shape[1]
    rows, block, size = np.arange(len(tops)), tops.argmax(1), min(size, width)
    start = np.minimum(block * size, width - size)
    windows = values.unfold(1, size, 1).numpy()
    position = start + windows[rows, start].argmax(1)
    return torch.from_numpy(tops[rows, block]), torch.from_numpy(position)


def kth_largest(row: Tensor, k: int) -> float:
    """The k-th largest value of a row `[V]` on the CPU."""
    return float(np.partition(row.numpy(), len(row) - k)[len(row) - k])


_STRIDE = 32
_SLACK = 64
_BLOCK = 128


def nucleus_edge(
    row: Tensor, peak: float, temperature: float, top_p: float, total: float, *, inclusive: bool
) -> float:
    """The least logit of a CPU row `[V]` with less mass than `top_p * total` strictly above it.

    Masses are float64 sums of exp((logit - peak) / temperature). A guessed number of the largest logits is selected;
    if their mass does not reach the goal, four times as many. `inclusive` lets the mass above equal the goal.
    """
    values = row.numpy()
    count = _guess(values, peak, temperature, top_p)
    while True:
        part = np.partition(values, len(values) - count)[len(values) - count :]
        descending = np.sort(part)[::-1]
        weights = np.exp((descending.astype(np.float64) - peak) / temperature)
        if count == len(values) or weights.sum() > top_p * total:
            return float(descending[_crossing(weights, top_p * total, inclusive)])
        count = min(len(values), 4 * count)


def _guess(values: Floats, peak: float, temperature: float, top_p: float) -> int:
    """About how many tokens hold a share `top_p` of the mass, from every 32nd token."""
    sample = np.sort(values[::_STRIDE])[::-1]
    mass = np.cumsum(np.exp((sample.astype(np.float64) - peak) / temperature))
    reached = int(np.searchsorted(mass, top_p * mass[-1]))
    return min(len(values), reached * _STRIDE * 5 // 4 + _SLACK)


def _crossing(weights: Doubles, goal: float, inclusive: bool) -> int:
    """The last position with less than `goal` before it."""
    side: Literal["left", "right"] = "right" if inclusive else "left"
    blocks = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK)).cumsum()
    block = min(int(np.searchsorted(blocks, goal, side)), len(blocks) - 1)
    begin = block * _BLOCK
    before = np.cumsum(weights[begin : begin + _BLOCK]) + (blocks[block - 1] if block else 0.0)
    return min(begin + int(np.searchsorted(before, goal, side)), len(weights) - 1)
