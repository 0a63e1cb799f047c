"""Repetition, frequency and presence penalties on the tokens of the histories only (PEN01-PEN14)."""

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aliquot.contract.batch import Added, BatchUpdate
from aliquot.contract.params import SamplingParams
from aliquot.fast.live import LiveTokens, RowMap
from aliquot.fast.upload import upload

Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


class History:
    """Distinct tokens of one request's prompt and output in the order first seen, and their counts in the output.

    `places` are the tokens' positions among the entries of all rows, as far as they have one.
    """

    def __init__(
        self, params: SamplingParams, prompt: Sequence[int], output: list[int], vocab_size: int
    ) -> None:
        self.penalties = np.array(
            [params.repetition_penalty, params.frequency_penalty, params.presence_penalty],
            dtype=np.float32,
        )
        self._prompt, self._vocab_size = prompt, vocab_size
        self._live = LiveTokens(output)
        self._restart()

    def _restart(self) -> None:
        prompt = np.unique(np.asarray(self._prompt, dtype=np.int64))
        known = prompt[(prompt >= 0) & (prompt < self._vocab_size)].tolist()
        self.tokens, self.counts = array("q", known), array("q", [0] * len(known))
        self.places = array("q")
        self._index = {token: i for i, token in enumerate(known)}

    def advance(self) -> tuple[bool, list[int]]:
        """Count the output tokens not seen before; whether all was counted anew, and the indices of these tokens."""
        restart, new = self._live.fresh()
        if restart:
            self._restart()
        return restart, [self._count(token) for token in new if token < self._vocab_size]

    def _count(self, token: int) -> int:
        index = self._index.setdefault(token, len(self.tokens))
        if index == len(self.tokens):
            self.tokens.append(token)
            self.counts.append(0)
        self.counts[index] += 1
        return index


class Entries:
    """The penalised tokens of all histories, flat on the device: laid out when rows change, else changed in place.

    Each entry holds row, token, its row's repetition penalty and what is subtracted for its count.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._size = device, 0

    def lay_out(self, histories: RowMap[History]) -> None:
        """Place all histories one after the other, with room to grow."""
        rows = [(row, h, h.tokens, h.counts) for row, h in histories]
        self._size = 0
        for _, history in histories:
            start, self._size = self._size, self._size + len(history.tokens)
            history.places = array("q", range(start, self._size))
        cells, terms = _columns(rows)
        room = ((0, 0), (0, self._size + 1024))
        self._cells = upload(np.pad(cells, room), self._device)
        self._terms = upload(np.pad(terms, room), self._device)

    def change(self, changed: Sequence[tuple[int, History, list[int]]]) -> bool:
        """Store the new counts of the tokens at the given indices; False if there is no room for new tokens."""
        for _, history, _ in changed:
            missing = len(history.tokens) - len(history.places)
            history.places.extend(range(self._size, self._size + missing))
            self._size += missing
        if self._size > self._cells.shape[1]:
            return False
        places = [history.places[i] for _, history, indices in changed for i in indices]
        cells, terms = _columns(
            [
                (row, h, [h.tokens[i] for i in at], [h.counts[i] for i in at])
                for row, h, at in changed
            ]
        )
        index = upload(np.asarray(places), self._device)
        self._cells.index_copy_(1, index, upload(cells, self._device))
        self._terms.index_copy_(1, index, upload(terms, self._device))
        return True

    def get(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows and tokens int64, repetition penalties and subtractions float64, all `[size]`."""
        row, token = self._cells[:, : self._size]
        repetition, subtract = self._terms[:, : self._size]
        return row, token, repetition, subtract


def _columns(
    rows: Sequence[tuple[int, History, Sequence[int], Sequence[int]]],
) -> tuple[Integers, Doubles]:
    """Cells int64 and terms float64, `[2, c]` each, of tokens and their counts by row."""
    lengths = [len(tokens) for _, _, tokens, _ in rows]
    tokens = np.concatenate([np.asarray(part, dtype=np.int64) for _, _, part, _ in rows])
    counts = np.concatenate([np.asarray(part, dtype=np.int64) for _, _, _, part in rows])
    penalties = np.repeat([h.penalties for _, h, _, _ in rows], lengths, axis=0).T.astype(
        np.float64
    )
    repetition, frequency, presence = penalties
    subtract = frequency * counts + presence * (counts > 0)
    row = np.repeat([row for row, *_ in rows], lengths)
    return np.stack([row, tokens]), np.stack([repetition, subtract])


class Penalties:
    """Applies the three penalties in float64 to the entries and rounds once to float32."""

    follows_output = True

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._vocab_size = vocab_size
        self._rows: RowMap[History] = RowMap(self._make, _penalised)
        self._entries = Entries(device)
        self._stale = False

    def _make(self, added: Added) -> History | None:
        _, params, prompt, output = added
        if not _penalised(params):
            return None
        return History(params, prompt or (), output, self._vocab_size)

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Follow the penalised rows; counts of rows that stay are kept."""
        if update is not None and self._rows.update(update):
            self._stale = True

    def _advance(self) -> None:
        changed = []
        for row, history in self._rows:
            restart, indices = history.advance()
            self._stale |= restart
            if indices:
                changed.append((row, history, indices))
        if not self._stale and changed:
            self._stale = not self._entries.change(changed)
        if self._stale:
            self._entries.lay_out(self._rows)
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


def _penalised(params: SamplingParams) -> bool:
    penalties = (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
    return penalties != (1.0, 0.0, 0.0)
