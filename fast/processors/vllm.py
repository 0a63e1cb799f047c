"""Runs processors written for vLLM: hands them vLLM's own update and parameter objects.

vLLM is imported only when such a class is used, and then it is installed: the class derives from vLLM's.
"""

import importlib
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from aliquot.contract.batch import BatchUpdate
from aliquot.contract.params import SamplingParams
from aliquot.fast.processors.interface import LogitsProcessor

INTERFACE = "vllm.v1.sample.logits_processor.interface"
_SAME_NAME = frozenset({
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
    "min_tokens", "seed", "logprobs", "thinking_token_budget", "extra_args",
})  # fmt: skip


def written_for_vllm(target: type) -> bool:
    """Whether a class derives from vLLM's LogitsProcessor."""
    return any(
        base.__module__ == INTERFACE and base.__name__ == "LogitsProcessor"
        for base in target.__mro__
    )


class VllmProcessor(LogitsProcessor):
    """A processor of vLLM's interface behind this one's."""

    def __init__(
        self, target: type[Any], config: Any, device: torch.device, is_pin_memory: bool
    ) -> None:
        self.target = target(config, device, is_pin_memory)

    def apply(self, logits: Tensor) -> Tensor:
        """Apply the processor."""
        result: Tensor = self.target.apply(logits)
        return result

    def is_argmax_invariant(self) -> bool:
        """The processor's own claim."""
        claim: bool = self.target.is_argmax_invariant()
        return claim

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Hand over the update in vLLM's types."""
        self.target.update_state(None if batch_update is None else vllm_update(batch_update))

    def validate_params(self, params: SamplingParams) -> None:  # type: ignore[override]
        """Ask the processor's own hook."""
        self.target.validate_params(vllm_params(params))


def vllm_update(update: BatchUpdate) -> Any:
    """A BatchUpdate as vLLM's: its enum, its parameters, the same live output lists."""
    interface = importlib.import_module(INTERFACE)
    return interface.BatchUpdate(
        batch_size=update.batch_size,
        removed=list(update.removed),
        added=[
            (row, vllm_params(params), None if prompt is None else list(prompt), output)
            for row, params, prompt, output in update.added
        ],
        moved=[(a, b, interface.MoveDirectionality[how.name]) for a, b, how in update.moved],
    )


def vllm_params(params: SamplingParams) -> Any:
    """Parameters as vLLM's SamplingParams, with the stop ids that its engine would have set."""
    vllm = importlib.import_module("vllm")
    given = {f.name: getattr(params, f.name) for f in fields(params) if f.name in _SAME_NAME}
    made = vllm.SamplingParams(
        **given,
        max_tokens=None,
        stop_token_ids=list(params.stop_token_ids),
        logit_bias=dict(params.logit_bias) or None,
        allowed_token_ids=None
        if params.allowed_token_ids is None
        else list(params.allowed_token_ids),
    )
    made._all_stop_token_ids = set(params.stop_ids)
    return made
