"""Thinking budget: the end marker is forced once a section has used its tokens up (THINK01-THINK12)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from aliquot.contract.batch import Added, BatchUpdate, ThinkingMarkers
from aliquot.fast.edits import Cells
from aliquot.fast.live import LiveTokens, RowMap

FORCED_LOGIT = 1e9


class Section:
    """Follows one request's tokens through thinking sections."""

    def __init__(
        self, budget: int, markers: ThinkingMarkers, prompt: Sequence[int], output: list[int]
    ) -> None:
        self._full, self._markers, self._prompt = budget, markers, list(prompt)
        self._live = LiveTokens(output)
        self._reset()

    def _reset(self) -> None:
        self._left = self._full
        self._history: list[int] = []
        self._begin: int | None = None
        for token in self._prompt:
            self._read(token, forceable=False)

    def _read(self, token: int, *, forceable: bool) -> None:
        history = self._history
        history.append(token)
        if self._begin is None:
            if _ends_with(history, self._markers.start, 0):
                self._begin = len(history)
        elif _ends_with(history, self._markers.end, self._begin):
            forced = forceable and len(history) - self._begin > self._left
            self._begin, self._left = None, 0 if forced else self._full

    def forced(self) -> int | None:
        """The token that must come next, or None."""
        restart, new = self._live.fresh()
        if restart:
            self._reset()
        for token in new:
            self._read(token, forceable=True)
        if self._begin is None or len(self._history) - self._begin < self._left:
            return None
        end = self._markers.end
        inside = self._history[max(self._begin, len(self._history) - len(end) + 1) :]
        longest = max(i for i in range(len(end)) if inside[len(inside) - i :] == list(end[:i]))
        return end[longest]


def _ends_with(history: list[int], marker: Sequence[int], begin: int) -> bool:
    size = len(marker)
    return 0 < size <= len(history) - begin and history[-size:] == list(marker)


class ThinkingBudget:
    """Raises the forced token's logit to 1e9 in rows whose budget is used up."""

    follows_output = True

    def __init__(self, markers: ThinkingMarkers | None, device: torch.device) -> None:
        self._markers, self._device = markers, device
        self._rows: RowMap[Section] = RowMap(
            self._make, lambda params: params.thinking_token_budget is not None
        )

    def _make(self, added: Added) -> Section | None:
        _, params, prompt, output = added
        budget, markers = params.thinking_token_budget, self._markers
        if budget is None or markers is None or not markers.start or not markers.end:
            return None
        return Section(budget, markers, prompt or (), output)

    def __len__(self) -> int:
        return len(self._rows)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Follow the rows with a budget."""
        if update is not None:
            self._rows.update(update)

    def apply(self, logits: Tensor) -> Tensor:
        """Force the next token of the end marker where it is due."""
        if len(self._rows):
            due = [(row, section.forced()) for row, section in self._rows]
            cells = [(row, [token]) for row, token in due if token is not None]
            if cells:
                Cells(cells, self._device).fill(logits, FORCED_LOGIT)
        return logits

    def is_argmax_invariant(self) -> bool:
        """It changes the best token by design."""
        return False
