"""Two-level views of rows: whole blocks of the vocabulary first, then the tokens inside the few that matter."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 64
COARSE = 256


def block_max(rows: Tensor, size: int = BLOCK) -> Tensor:
    """Maxima of consecutive blocks of `size` tokens, `[n, ceil(V/size)]`; NaN stays NaN."""
    return _reduce(rows, size, torch.amax)


def block_sum(rows: Tensor, size: int = COARSE) -> Tensor:
    """Sums of consecutive blocks of `size` tokens in the dtype of `rows`, `[n, ceil(V/size)]`."""
    return _reduce(rows, size, torch.sum)


def _reduce(rows: Tensor, size: int, reduction: Callable[..., Tensor]) -> Tensor:
    width = rows.shape[1]
    whole = width // size * size
    parts = []
    if whole:
        body = torch.unflatten(rows[:, :whole], 1, (-1, size))
        parts.append(reduction(body, dim=-1))
    if whole < width:
        parts.append(reduction(rows[:, whole:], dim=-1, keepdim=True))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def take_blocks(rows: Tensor, blocks: Tensor, size: int, fill: float) -> tuple[Tensor, Tensor]:
    """Values and token ids of the given blocks, `[n, b * size]`; past the row's end `fill`."""
    inside = torch.arange(size, device=rows.device)
    ids = (blocks.unsqueeze(-1) * size + inside).flatten(1)
    values = rows.gather(1, ids.clamp(max=rows.shape[1] - 1))
    if rows.shape[1] % size:
        values = torch.where(ids < rows.shape[1], values, fill)
    return values, ids


@dataclass(frozen=True)
class Peak:
    """The largest logit of each row, float32 `[n]`, and its lowest token id, int64 `[n]`."""

    value: Tensor
    token: Tensor

    @property
    def bad(self) -> Tensor:
        """Rows with NaN, +inf or nothing but -inf, bool `[n]` (ERR16)."""
        return ~self.value.isfinite()


def find_peak(rows: Tensor) -> Peak:
    """Argmax of each row, the lowest id among equals (GREEDY02)."""
    best = block_max(rows, COARSE).argmax(dim=1, keepdim=True)
    values, ids = take_blocks(rows, best, COARSE, float("-inf"))
    value, inside = values.max(dim=1, keepdim=True)
    return Peak(value.squeeze(1), ids.gather(1, inside).squeeze(1))


@dataclass(frozen=True)
class Candidates:
    """The largest tokens of each row: values descending and their ids, `[n, c]`.

    No token outside is larger than the last value; tokens equal to it may be missing.
    """

    values: Tensor
    ids: Tensor


def top_candidates(rows: Tensor, count: int) -> Candidates:
    """The `count` largest tokens of each row.

    The largest tokens lie in the blocks with the largest maxima: a block left out has `count` block maxima at
    least as large as all that it holds.
    """
    count = min(count, rows.shape[1])
    if 2 * count * BLOCK > rows.shape[1]:
        values, ids = rows.topk(count, dim=1)
        return Candidates(values, ids)
    best = block_max(rows).topk(count, dim=1).indices
    values, ids = take_blocks(rows, best, BLOCK, float("-inf"))
    values, inside = values.topk(count, dim=1)
    return Candidates(values, ids.gather(1, inside))
