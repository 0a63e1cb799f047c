"""The parts of vLLM's plug-in interface that its processors use, under its module names, and one processor."""

from dataclasses import dataclass
from enum import Enum, auto
from types import ModuleType
from typing import Any

INTERFACE = ModuleType("vllm.v1.sample.logits_processor.interface")
VLLM = ModuleType("vllm")


class MoveDirectionality(Enum):
    """vLLM's own enum, whose members are not equal to ours."""

    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass(frozen=True)
class BatchUpdate:
    """vLLM's own update."""

    batch_size: int
    removed: Any
    added: Any
    moved: Any


class SamplingParams:
    """vLLM's parameters: whatever they were made with."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields


class LogitsProcessor:
    """vLLM's base class."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Accept."""


for part in (MoveDirectionality, BatchUpdate, LogitsProcessor):
    part.__module__ = INTERFACE.__name__
    setattr(INTERFACE, part.__name__, part)
VLLM.SamplingParams = SamplingParams


class Recorder(LogitsProcessor):
    """Keeps the updates that it gets."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        self.updates: list[Any] = []

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """No token below 0."""
        token = sampling_params.extra_args.get("token", 0)
        if token < 0:
            raise ValueError(f"token is {token} in a {type(sampling_params).__name__}")

    def apply(self, logits: Any) -> Any:
        """Nothing."""
        return logits

    def is_argmax_invariant(self) -> bool:
        """It changes nothing, and says that it might."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Keep the update."""
        self.updates.append(batch_update)
