"""Sparse edits of the logits before sampling: steps 3 to 5 of the contract.

Each edit has `update_state(update)`, `apply(logits)` (in place, touching only the rows and tokens concerned) and
`is_argmax_invariant()`. Edits with no row do no work.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from aliquot.contract.batch import Added, BatchUpdate
from aliquot.contract.params import BIAS_LIMIT
from aliquot.fast.live import RowMap
from aliquot.fast.upload import upload

MASKED = float("-inf")


class Edit(Protocol):
    """A stateful change of the logits; its length is the number of rows it may touch.

    `follows_output` says whether it reads the requests' outputs on the host at each step.
    """

    follows_output: bool

    def __len__(self) -> int: ...

    def update_state(self, update: BatchUpdate | None) -> None:
        """Follow a change of the batch; None for no change."""

    def apply(self, logits: Tensor) -> Tensor:
        """Edit float32 logits `[n, V]` in place."""

    def is_argmax_invariant(self) -> bool:
        """Whether the argmax never changes: then greedy rows need not see the edit."""


class Cells:
    """Positions (row, token) of the logits as two int64 index tensors on the device."""

    def __init__(
        self, tokens_of: Iterable[tuple[int, Sequence[int]]], device: torch.device
    ) -> None:
        rows, parts = [], [np.empty(0, dtype=np.int64)]
        for row, tokens in tokens_of:
            rows += [row] * len(tokens)
            parts.append(np.asarray(tokens, dtype=np.int64))
        flat = np.stack([np.asarray(rows, dtype=np.int64), np.concatenate(parts)])
        row, token = upload(flat, device)
        self.index = (row, token)

    def __len__(self) -> int:
        return len(self.index[0])

    def fill(self, logits: Tensor, value: float) -> None:
        """Set every position to `value`."""
        if len(self):
            logits.index_put_(self.index, logits.new_full((), value))


class AllowedIds:
    """Masks every token outside a request's `allowed_token_ids` (ALLOW01-ALLOW04)."""

    follows_output = False

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rows: RowMap[Sequence[int]] = RowMap(
            lambda added: added[1].allowed_token_ids,
            lambda params: params.allowed_token_ids is not None,
        )
        self._masked_rows = torch.empty(0, dtype=torch.int64)
        self._kept = Cells((), device)

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Rebuild the index when a row with a list came, went or moved."""
        if update is None or not self._rows.update(update):
            return
        rows = np.asarray([row for row, _ in self._rows], dtype=np.int64)
        self._masked_rows = upload(rows, self._device)
        self._kept = Cells(self._rows, self._device)

    def apply(self, logits: Tensor) -> Tensor:
        """Set the other tokens of the rows concerned to -inf."""
        if len(self._rows):
            kept = logits[self._kept.index]
            logits.index_fill_(0, self._masked_rows, MASKED)
            logits.index_put_(self._kept.index, kept)
        return logits

    def is_argmax_invariant(self) -> bool:
        """It may mask the best token."""
        return False


class _BadWords:
    def __init__(self, words: Sequence[Sequence[int]], output: list[int]) -> None:
        self.always = [word[0] for word in words if len(word) == 1]
        self.longer = [(list(word[:-1]), word[-1]) for word in words if len(word) > 1]
        self._output = output

    def completed(self) -> list[int]:
        """Tokens that would complete a word of two or more tokens now."""
        output = self._output
        return [last for head, last in self.longer if output[-len(head) :] == head]


class BadWords:
    """Masks the last token of a word whose other tokens end the output (BADW01-BADW05)."""

    follows_output = True

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rows: RowMap[_BadWords] = RowMap(self._make, lambda params: bool(params.bad_words))
        self._always = Cells((), device)

    @staticmethod
    def _make(added: Added) -> _BadWords | None:
        words = added[1].bad_words
        return _BadWords(words, added[3]) if words else None

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Rebuild the index of the one-token words when a row with words changed."""
        if update is not None and self._rows.update(update):
            always = ((row, words.always) for row, words in self._rows)
            self._always = Cells(always, self._device)

    def apply(self, logits: Tensor) -> Tensor:
        """Set one-token words and completed words to -inf."""
        if len(self._rows):
            self._always.fill(logits, MASKED)
            completed = [(row, words.completed()) for row, words in self._rows if words.longer]
            if any(tokens for _, tokens in completed):
                Cells(completed, self._device).fill(logits, MASKED)
        return logits

    def is_argmax_invariant(self) -> bool:
        """It may mask the best token."""
        return False


class MinTokens:
    """Masks the stop ids of requests below their minimum length (MINTOK01-MINTOK04)."""

    follows_output = True

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rows: RowMap[tuple[int, tuple[int, ...], list[int]]] = RowMap(
            self._make, lambda params: params.min_tokens > 0
        )
        self._active: list[int] = []
        self._cells = Cells((), device)

    @staticmethod
    def _make(added: Added) -> tuple[int, tuple[int, ...], list[int]] | None:
        _, params, _, output = added
        if params.min_tokens == 0 or not params.stop_ids:
            return None
        return params.min_tokens, params.stop_ids, output

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Follow the rows with a minimum length."""
        if update is not None and self._rows.update(update):
            self._active = []

    def apply(self, logits: Tensor) -> Tensor:
        """Set the stop ids of the rows below their minimum to -inf."""
        if not len(self._rows):
            return logits
        active = [row for row, (least, _, output) in self._rows if len(output) < least]
        if active != self._active:
            below = set(active)
            stops = ((row, stops) for row, (_, stops, _) in self._rows if row in below)
            self._active, self._cells = active, Cells(stops, self._device)
        if active:
            self._cells.fill(logits, MASKED)
        return logits

    def is_argmax_invariant(self) -> bool:
        """It may mask the best token."""
        return False


class LogitBias:
    """Adds each request's sparse bias, clipped to [-100, 100] (BIAS01-BIAS04)."""

    follows_output = False

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rows: RowMap[dict[int, float]] = RowMap(
            self._make, lambda params: bool(params.logit_bias)
        )
        self._cells = Cells((), device)
        self._bias = torch.empty(0)

    @staticmethod
    def _make(added: Added) -> dict[int, float] | None:
        clipped = {
            token: min(max(float(bias), -BIAS_LIMIT), BIAS_LIMIT)
            for token, bias in added[1].logit_bias.items()
        }
        return clipped or None

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Rebuild the index when a row with a bias changed."""
        if update is None or not self._rows.update(update):
            return
        self._cells = Cells(((row, list(bias)) for row, bias in self._rows), self._device)
        flat = [value for _, bias in self._rows for value in bias.values()]
        self._bias = upload(np.asarray(flat, dtype=np.float32), self._device)

    def apply(self, logits: Tensor) -> Tensor:
        """Add the bias to its tokens."""
        if len(self._rows):
            logits.index_put_(self._cells.index, logits[self._cells.index] + self._bias)
        return logits

    def is_argmax_invariant(self) -> bool:
        """It may raise another token to the top."""
        return False
