"""Repetition, frequency and presence penalties on the tokens of the histories only (PEN01-PEN14)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
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
        self._repetition = np.float32(params.repetition_penalty)
        self._frequency = np.float64(np.float32(params.frequency_penalty))
        self._presence = np.float64(np.float32(params.presence_penalty))
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

    def terms(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Repetition penalty and subtraction for tokens with these output counts, float64 `[2, c]`."""
        subtract = self._frequency * counts + self._presence * (counts > 0)
        return np.stack([np.full(len(counts), self._repetition, dtype=np.float64), subtract])


class Entries:
    """The penalised tokens of all histories, flat, in pinned host arrays and their device copies.

    Each entry holds row, token, its row's repetition penalty and what is subtracted for its count.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._size = 0
        self._place: dict[tuple[int, int], int] = {}
        self._reserve(1024)

    def _reserve(self, capacity: int) -> None:
        pin = self._device.type == "cuda"
        self._cells = torch.zeros((2, capacity), dtype=torch.int64, pin_memory=pin)
        self._terms = torch.zeros((2, capacity), dtype=torch.float64, pin_memory=pin)
        on_host = self._device.type == "cpu"
        self._device_cells = self._cells if on_host else self._cells.to(self._device)
        self._device_terms = self._terms if on_host else self._terms.to(self._device)

    def rebuild(self, histories: RowMap[History]) -> None:
        """Lay all histories out anew, with room to grow."""
        places = [(row, token) for row, h in histories for token in h.counts]
        self._place = {place: i for i, place in enumerate(places)}
        self._size = size = len(places)
        if size > self._cells.shape[1]:
            self._reserve(2 * size)
        self._cells.numpy()[:, :size] = np.asarray(places, dtype=np.int64).reshape(-1, 2).T
        terms = [h.terms(np.fromiter(h.counts.values(), np.int64)) for _, h in histories]
        if terms:
            np.concatenate(terms, axis=1, out=self._terms.numpy()[:, :size])

    def set(self, row: int, token: int, history: History) -> bool:
        """Store a token's new count; False if there is no room for a new entry."""
        place = self._place.setdefault((row, token), self._size)
        if place == self._cells.shape[1]:
            return False
        self._size = max(self._size, place + 1)
        self._cells.numpy()[:, place] = row, token
        self._terms.numpy()[:, place] = history.terms(np.asarray([history.counts[token]]))[:, 0]
        return True

    def upload(self) -> None:
        """Copy the used part to the device."""
        if self._device_cells is not self._cells:
            for host, device in (
                (self._cells, self._device_cells),
                (self._terms, self._device_terms),
            ):
                device[:, : self._size].copy_(host[:, : self._size], non_blocking=True)

    def get(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows and tokens int64, repetition penalties and subtractions float64, all `[size]`."""
        row, token = self._device_cells[:, : self._size]
        repetition, subtract = self._device_terms[:, : self._size]
        return row, token, repetition, subtract


class Penalties:
    """Applies the three penalties in float64 to the entries and rounds once to float32."""

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._rows: RowMap[History] = RowMap(self._make)
        self._entries = Entries(device)
        self._stale = False

    def _make(self, added: Added) -> History | None:
        _, params, prompt, output = added
        penalties = (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
        if penalties == (1.0, 0.0, 0.0):
            return None
        return History(params, prompt or (), output, self._vocab_size)

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Follow the penalised rows; counts of rows that stay are kept."""
        if update is not None and self._rows.update(update):
            self._stale = True

    def _advance(self) -> None:
        changed = False
        for row, history in self._rows:
            restart, tokens = history.advance()
            self._stale |= restart
            if not self._stale:
                self._stale = not all(self._entries.set(row, t, history) for t in tokens)
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
        row, token, repetition, subtract = self._entries.get()
        stride = logits.stride(0)
        flat = logits.as_strided(((len(logits) - 1) * stride + logits.shape[1],), (1,))
        index = row * stride + token
        value = flat.index_select(0, index).double()
        value = torch.where(value > 0, value / repetition, value * repetition).sub_(subtract)
        flat.index_copy_(0, index, value.float())
        return logits

    def is_argmax_invariant(self) -> bool:
        """Another token may become the best."""
        return False
