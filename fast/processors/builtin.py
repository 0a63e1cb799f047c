"""The three processors that every sampler has, in the order in which they run (PLUG02)."""

from typing import Any

import torch
from torch import Tensor

from aliquot.contract.batch import BatchUpdate
from aliquot.fast import edits
from aliquot.fast.live import RowMap
from aliquot.fast.processors.interface import LogitsProcessor


class MinTokens(edits.MinTokens, LogitsProcessor):
    """Masks the stop ids of requests below their minimum length (MINTOK01-MINTOK04)."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(device)


class LogitBias(edits.LogitBias, LogitsProcessor):
    """Adds each request's sparse bias, clipped to [-100, 100] (BIAS01-BIAS04)."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(device)


class MinP(LogitsProcessor):
    """Masks tokens whose probability is below min_p times the largest (MINP01-MINP05)."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._device = device
        self._rows: RowMap[float] = RowMap(lambda added: added[1].effective().min_p or None)
        self._min_p = torch.empty(0, 1)

    def is_argmax_invariant(self) -> bool:
        """The best token always stays (MINP03)."""
        return True

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Copy the thresholds to the device when the batch changed."""
        if batch_update is None:
            return
        self._rows.update(batch_update)
        if len(self._rows):
            column = [[self._rows.get(row) or 0.0] for row in range(batch_update.batch_size)]
            self._min_p = torch.tensor(column).to(self._device, non_blocking=True)

    def apply(self, logits: Tensor) -> Tensor:
        """Set the tokens below each row's threshold to -inf."""
        if not len(self._rows):
            return logits
        probs = logits.softmax(dim=1)
        low = probs < probs.amax(dim=1, keepdim=True) * self._min_p
        return logits.masked_fill_(low, edits.MASKED)


BUILT_IN: tuple[type[LogitsProcessor], ...] = (MinTokens, LogitBias, MinP)
