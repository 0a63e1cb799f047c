"""Processors written for vLLM 0.25.1 as its users write them: they know nothing of this project."""

from typing import Any

import torch
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates
from vllm.v1.sample.logits_processor.interface import BatchUpdate, LogitsProcessor


class OneToken(LogitsProcessor):
    """Leaves a request only the token of `extra_args["token"]`."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.tokens: dict[int, int] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """The token is a whole number from 0 on."""
        token = (sampling_params.extra_args or {}).get("token")
        if token is not None and (type(token) is not int or token < 0):
            raise ValueError(f"token is {token!r}, allowed is a token id")

    def is_argmax_invariant(self) -> bool:
        """Another token becomes the best."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch with vLLM's own helper."""
        process_dict_updates(
            self.tokens, batch_update, lambda params, *_: (params.extra_args or {}).get("token")
        )

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Mask all tokens but one."""
        for row, token in self.tokens.items():
            kept = logits[row, token].clone()
            logits[row] = -torch.inf
            logits[row, token] = kept
        return logits


class NoEcho(AdapterLogitsProcessor):
    """Forbids the last output token, by vLLM's wrapper for one request."""

    def is_argmax_invariant(self) -> bool:
        """The best token may be forbidden."""
        return False

    def new_req_logits_processor(self, params: Any) -> Any:
        """Only for requests that ask for it."""
        return forbid_last if (params.extra_args or {}).get("no_echo") else None


def forbid_last(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Mask the last output token."""
    if output_ids and output_ids[-1] >= 0:
        logits[output_ids[-1]] = -torch.inf
    return logits
