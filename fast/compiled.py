"""Compiled parts: one compilation serves every batch size."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

TensorFunction = Callable[[Tensor, Tensor], Tensor]


def for_any_batch(function: TensorFunction, backend: str | Callable[..., object]) -> TensorFunction:
    """`function` compiled with the batch dimension of both arguments unbacked.

    Without the mark torch compiles a batch of 1 apart from the others, and again at the change from 1 to 2.
    """
    compiled = torch.compile(function, backend=backend, fullgraph=True)

    def call(first: Tensor, second: Tensor) -> Tensor:
        for argument in (first, second):
            torch._dynamo.decorators.mark_unbacked(argument, 0)
        return compiled(first, second)

    return call


def count_at_least(logits: Tensor, bounds: Tensor) -> Tensor:
    """How many of `[n, V]` logits are at least their row's bound `[n, 1]`, int64 `[n]`."""
    return (logits >= bounds).sum(1)


@cache
def fused_count_at_least() -> TensorFunction:
    """`count_at_least` in one pass over the logits, for devices with a compiler backend."""
    return for_any_batch(count_at_least, "inductor")
