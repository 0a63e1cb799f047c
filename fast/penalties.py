"""Repetition, frequency and presence penalties on the tokens of the histories only (PEN01-PEN14)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from aliquot.contract.batch import Added, BatchUpdate
from aliquot.contract.params import SamplingParams
from aliquot.fast.live import LiveTokens, RowMap


class History:
    """Distinct tokens of one request's prompt and output, and how often each stands in the output."""

    def __init__(
        self, params: SamplingParams, prompt: Sequence[int], output: list[int], vocab_size: int
    ) -> None:
        self.params = params
        self._prompt, self._vocab_size = prompt, vocab_size
        self._live = LiveTokens(output)
        self._restart()

    def _restart(self) -> None:
        prompt = np.unique(np.asarray(self._prompt, dtype=np.int64))
        known = prompt[(prompt >= 0) & (prompt < self._vocab_size)].tolist()
        self.counts: dict[int, int] = dict.fromkeys(known, 0)

    def advance(self) -> tuple[bool, list[int]]:
        """Count the output tokens not seen before; whether all was counted anew, and those tokens."""
        restart, new = self._live.fresh()
        if restart:
            self._restart()
        known = [token for token in new if token < self._vocab_size]
        for token in known:
            self.counts[token] = self.counts.get(token, 0) + 1
        return restart, known


class Entries:
    """(row, token, count) of all histories, flat in one pinned host array and its device copy."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._size = 0
        self._place: dict[tuple[int, int], int] = {}
        self._reserve(1024)

    def _reserve(self, capacity: int) -> None:
        pin = self._device.type == "cuda"
        self._host = torch.zeros((3, capacity), dtype=torch.int64, pin_memory=pin)
        self._numpy = self._host.numpy()
        self._cells = self._host if self._device.type == "cpu" else self._host.to(self._device)

    def rebuild(self, histories: RowMap[History]) -> None:
        """Lay all histories out anew, with room to grow."""
        flat = [(row, t, count) for row, h in histories for t, count in h.counts.items()]
        self._size = len(flat)
        if self._size > self._host.shape[1]:
            self._reserve(2 * self._size)
        if flat:
            self._numpy[:, : self._size] = np.asarray(flat, dtype=np.int64).T
        self._place = {(row, token): i for i, (row, token, _) in enumerate(flat)}

    def set(self, row: int, token: int, count: int) -> bool:
        """Store one count; False if there is no room for a new entry."""
        place = self._place.setdefault((row, token), self._size)
        if place == self._size:
            if place == self._host.shape[1]:
                return False
            self._size += 1
        self._numpy[:, place] = row, token, count
        return True

    def upload(self) -> None:
        """Copy the used part to the device."""
        if self._cells is not self._host:
            used = self._host[:, : self._size]
            self._cells[:, : self._size].copy_(used, non_blocking=True)

    def get(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, tokens and counts on the device, int64 `[size]`."""
        row, token, count = self._cells[:, : self._size]
        return row, token, count


class Penalties:
    """Applies the three penalties in float64 to the entries and rounds once to float32."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size, self._device = vocab_size, device
        self._rows: RowMap[History] = RowMap(self._make)
        self._entries = Entries(device)
        self._stale = False
        self._strengths = torch.empty((3, 0))

    def _make(self, added: Added) -> History | None:
        _, params, prompt, output = added
        neutral = (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
        if neutral == (1.0, 0.0, 0.0):
            return None
        return History(params, prompt or (), output, self._vocab_size)

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Follow the penalised rows; counts of rows that stay are kept."""
        if update is None or not self._rows.update(update):
            return
        self._stale = True
        strengths = np.zeros((3, update.batch_size), dtype=np.float32)
        for row, history in self._rows:
            p = history.params
            strengths[:, row] = p.repetition_penalty, p.frequency_penalty, p.presence_penalty
        self._strengths = torch.from_numpy(strengths).to(self._device)

    def _advance(self) -> None:
        changed = False
        for row, history in self._rows:
            restart, tokens = history.advance()
            self._stale |= restart
            if not self._stale:
                stored = [self._entries.set(row, t, history.counts[t]) for t in tokens]
                self._stale = not all(stored)
            changed = changed or bool(tokens)
        if self._stale:
            self._entries.rebuild(self._rows)
        if changed or self._stale:
            self._entries.upload()
        self._stale = False

    def apply(self, logits: Tensor) -> Tensor:
        """Penalise in place."""
        if not len(self._rows):
            return logits
        self._advance()
        row, token, count = self._entries.get()
        repetition, frequency, presence = self._strengths.index_select(1, row).double()
        value = logits[row, token].double()
        value = torch.where(value > 0, value / repetition, value * repetition)
        value -= frequency * count + presence * (count > 0)
        logits.index_put_((row, token), value.float())
        return logits

    def is_argmax_invariant(self) -> bool:
        """Another token may become the best."""
        return False
