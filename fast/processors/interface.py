"""What a logits processor offers. The method names and the constructor are those of vLLM 0.25.1."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from aliquot.contract.batch import BatchUpdate
from aliquot.contract.params import SamplingParams


@dataclass(frozen=True, kw_only=True)
class RequestParams(SamplingParams):
    """The parameters of a request with `extra_args` for custom processors, which the sampler itself never reads."""

    extra_args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_stop_token_ids(self) -> set[int]:
        """EOS and the stop token ids, under the name that processors know."""
        return set(self.stop_ids)


class LogitsProcessor(ABC):
    """A stateful change of the logits of some requests (PLUG09).

    It is built with `(config, device, is_pin_memory)`; `config.scheduler_config.max_num_seqs` is the most rows that a
    batch can have and `config.model_config.get_vocab_size()` is V.
    """

    @classmethod  # noqa: B027
    def validate_params(cls, params: Any) -> None:
        """Raise ValueError for parameters that `apply` cannot bear; called when a request is made (PLUG07)."""

    @abstractmethod
    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None: ...

    @abstractmethod
    def apply(self, logits: Tensor) -> Tensor:
        """Change float32 logits `[n, V]`, in place or not, and return them; row r belongs to row r of the batch."""

    @abstractmethod
    def is_argmax_invariant(self) -> bool:
        """Whether no row's argmax ever changes; asked once, it decides the processor's place (PLUG01)."""

    @abstractmethod
    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow a change of the batch before each step; None for no change (STATE01-STATE08)."""


@dataclass(frozen=True)
class SchedulerConfig:
    """The part of an engine's configuration that bounds the batch."""

    max_num_seqs: int


@dataclass(frozen=True)
class ModelConfig:
    """The part of an engine's configuration that describes the model."""

    vocab_size: int

    def get_vocab_size(self) -> int:
        """The size of the vocabulary."""
        return self.vocab_size


@dataclass(frozen=True)
class EngineConfig:
    """The least configuration that a processor can be built with; a serving engine's own has more.

    A `speculative_config` other than None means speculative decoding (PLUG06).
    """

    scheduler_config: SchedulerConfig
    model_config: ModelConfig
    speculative_config: Any = None

    @classmethod
    def of(cls, *, max_num_seqs: int, vocab_size: int) -> "EngineConfig":
        """A configuration from its numbers."""
        return cls(SchedulerConfig(max_num_seqs), ModelConfig(vocab_size))
