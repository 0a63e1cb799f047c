"""Two-level views of rows: whole blocks of the vocabulary first, then the tokens inside the few that matter."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from aliquot.fast.select import first_largest, first_largest_in_blocks, largest

BLOCK = 64
COARSE = 256
_LEAST = -1e39  # below every float32, so that none of them ties with -inf


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
        parts.append(reduction(rows.unfold(1, size, size), dim=-1))
    if whole < width:
        parts.append(reduction(rows[:, whole:], dim=-1, keepdim=True))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def take_blocks(rows: Tensor, blocks: Tensor, size: int, fill: float) -> tuple[Tensor, Tensor]:
    """Values and token ids of the given blocks, `[n, b * size]`; past the row's end `fill`."""
    inside = torch.arange(size, device=rows.device)
    ids = (blocks.unsqueeze(-1) * size + inside).flatten(1)
    if rows.shape[1] % size == 0:
        return rows.gather(1, ids), ids
    values = rows.gather(1, ids.clamp(max=rows.shape[1] - 1))
    return torch.where(ids < rows.shape[1], values, fill), ids


@dataclass(frozen=True)
class Peak:
    """The largest logit of each row, float32 `[n]`, and its lowest token id, int64 `[n]`.

    The value is NaN, +inf or -inf for a bad row and for no other (ERR16).
    """

    value: Tensor
    token: Tensor

    def marked(self, tokens: Tensor, mark: Tensor | int) -> Tensor:
        """The tokens `[n]` with `mark` where the row is bad; on the CPU the same tensor if none is."""
        if self.value.device.type == "cpu" and np.isfinite(self.value.numpy()).all():
            return tokens
        return torch.where(self.value.isfinite(), tokens, mark)


@dataclass(frozen=True)
class Candidates:
    """The largest tokens of each row: values descending and their ids, `[n, c]`.

    No token outside is larger than the last value; tokens equal to it may be missing.
    """

    values: Tensor
    ids: Tensor


class Logits:
    """Float32 logits `[n, V]` with what several stages derive from them, each computed once when first needed.

    `found` holds the largest tokens found so far, None before the first search.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.found: Candidates | None = None

    @cached_property
    def maxima(self) -> Tensor:
        """Block maxima `[n, ceil(V/64)]`."""
        return block_max(self.logits)

    @cached_property
    def peak(self) -> Peak:
        """Argmax of each row, the lowest id among equals (GREEDY02)."""
        logits, on_host = self.logits, self.logits.device.type == "cpu"
        if on_host and "maxima" in self.__dict__:
            return Peak(*first_largest_in_blocks(logits, self.maxima, BLOCK))
        if on_host and torch.get_num_threads() > 1:
            return Peak(*first_largest_in_blocks(logits, block_max(logits, COARSE), COARSE))
        return Peak(*first_largest(logits))

    @cached_property
    def weights(self) -> Tensor:
        """Softmax `[n, V]` in float32; a row's scale may be off by the rounding of its sum."""
        return self.logits.softmax(1)

    @cached_property
    def mass(self) -> Tensor:
        """Sum of exp(logit - peak) of each row, float64 `[n]`: float32 terms, blocks summed in float64."""
        return mass_of(self.weights, self.peak)

    def top(self, count: int) -> Candidates:
        """The `count` largest tokens of each row.

        They lie in the blocks with the largest maxima: a block left out has `count` block maxima at least as
        large as all that it holds.
        """
        width = self.logits.shape[1]
        count = min(count, width)
        if self.found is None or self.found.values.shape[1] < count:
            direct = 2 * count * BLOCK > width
            self.found = self._whole(count) if direct else self._by_blocks(count)
        return Candidates(self.found.values[:, :count], self.found.ids[:, :count])

    def _whole(self, count: int) -> Candidates:
        return Candidates(*largest(self.logits, count))

    def _by_blocks(self, count: int) -> Candidates:
        _, best = largest(self.maxima, count)
        values, ids = take_blocks(self.logits, best, BLOCK, float("-inf"))
        width = self.logits.shape[1]
        if width % BLOCK == 0:
            values, inside = largest(values, count)
            return Candidates(values, ids.gather(1, inside))
        _, inside = largest(_above_padding(values, ids, width), count)
        return Candidates(values.gather(1, inside), ids.gather(1, inside))

    def pick(self, rows: Tensor | None) -> "Logits":
        """The given rows, int64 `[g]`, with the peaks and maxima already known; None for all."""
        if rows is None:
            return self
        part = Logits(self.logits.index_select(0, rows))
        if "maxima" in self.__dict__:
            part.__dict__["maxima"] = self.maxima.index_select(0, rows)
        peak = self.peak
        part.__dict__["peak"] = Peak(peak.value[rows], peak.token[rows])
        return part


def _above_padding(values: Tensor, ids: Tensor, width: int) -> Tensor:
    """Float64 values in which -inf of a token of the row is larger than what lies past the row's end."""
    return values.double().clamp(min=_LEAST).masked_fill_(ids >= width, -torch.inf)


def mass_of(weights: Tensor, peak: Peak) -> Tensor:
    """Sum of the weights `[n, V]` in units of the peak's weight, float64 `[n]`."""
    unit = weights.gather(1, peak.token.unsqueeze(1)).squeeze(1)
    return block_sum(weights).double().sum(1) / unit.double()
