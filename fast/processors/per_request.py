"""Turns callables that know one request only into a processor of the whole batch."""

import inspect
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aliquot.contract.batch import Added, BatchUpdate
from aliquot.fast.live import RowMap
from aliquot.fast.processors.interface import LogitsProcessor

RequestCallable = Callable[..., Tensor]
"""`f(output_ids, row)` or `f(prompt_ids, output_ids, row)`, `row` float32 `[V]`; returns the row."""


class PerRequestProcessor(LogitsProcessor):
    """Calls one function a request on that request's row.

    Derive from it, say whether it is argmax-invariant and give each request its function.
    """

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._rows: RowMap[partial[Tensor]] = RowMap(self._bound)

    @abstractmethod
    def request_callable(self, params: Any) -> RequestCallable | None:
        """The function of a request with these parameters, None where the request is left alone."""

    def _bound(self, added: Added) -> partial[Tensor] | None:
        _, params, prompt, output = added
        function = self.request_callable(params)
        if function is None:
            return None
        number = len(inspect.signature(function).parameters)
        if number == 2:
            return partial(function, output)
        if number != 3:
            raise ValueError(
                f"{type(self).__name__}: its function takes {number} arguments, allowed are 2 "
                "(output ids, row) and 3 (prompt ids, output ids, row)"
            )
        if prompt is None:
            raise ValueError(
                f"{type(self).__name__}: its function takes prompt ids, the request has embeddings"
            )
        return partial(function, prompt, output)

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the requests that have a function."""
        if batch_update is not None:
            self._rows.update(batch_update)

    def apply(self, logits: Tensor) -> Tensor:
        """Call each function on its row; a row that it returns anew is copied back."""
        for row, function in self._rows:
            before = logits[row]
            after = function(before)
            if after is not before:
                before.copy_(after)
        return logits
