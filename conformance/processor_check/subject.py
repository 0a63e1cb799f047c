"""The processor under check: how it is made and what it is asked with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aliquot.conformance.backend import one_line
from aliquot.conformance.processor_check.params import STANDARD, numbers
from aliquot.contract.batch import BatchUpdate, Request
from aliquot.fast.processors.interface import EngineConfig, LogitsProcessor, RequestParams
from aliquot.fast.processors.loading import build
from aliquot.fast.processors.vllm import vllm_params, written_for_vllm

MAX_ROWS = 32
SMALLEST_VOCAB = 17
LARGEST_POOL = 12
CPU = torch.device("cpu")


class ProcessorRaised(Exception):
    """The processor raised where it should not; the message is one line."""


@dataclass(frozen=True)
class Subject:
    """A processor class under its name, the requests to check it with and the seed of the search.

    `acting` are the kinds of request that make it act, once they are known; `memory` holds what one check
    found out and another needs.
    """

    name: str
    cls: type[Any]
    given: tuple[RequestParams, ...] = ()
    seed: int = 0
    acting: tuple[int, ...] = ()
    memory: dict[str, set[str]] = field(default_factory=dict, repr=False)

    @cached_property
    def kinds(self) -> tuple[RequestParams, ...]:
        """The kinds of request in a batch; the first asks for nothing."""
        return (RequestParams(), *(self.given or STANDARD))

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """Token ids that may matter: the first four, and the whole numbers in the parameters."""
        asked = {n for kind in self.kinds for n in numbers(kind)}
        return tuple(sorted({0, 1, 2, 3} | set(sorted(asked)[:LARGEST_POOL])))

    @cached_property
    def vocab_size(self) -> int:
        """A vocabulary that holds every token of the parameters."""
        return max(SMALLEST_VOCAB, *(max(numbers(kind), default=0) + 2 for kind in self.kinds))

    def make(self, device: torch.device = CPU, vocab_size: int | None = None) -> LogitsProcessor:
        """A new instance; raises RuntimeError when it cannot be built."""
        size = vocab_size or self.vocab_size
        config = EngineConfig.of(max_num_seqs=MAX_ROWS, vocab_size=size)
        return build(self.cls, config, device, False)

    def validate(self, params: RequestParams) -> None:
        """Call the processor's hook; raises what it raises (PLUG07)."""
        self.cls.validate_params(vllm_params(params) if written_for_vllm(self.cls) else params)

    def fresh(self, requests: Sequence[Request], device: torch.device = CPU) -> LogitsProcessor:
        """A new instance that got the requests in one update, in the order of their rows."""
        processor = self.make(device)
        update(processor, additions(requests))
        return processor

    def request(self, kind: int) -> Request:
        """A request of a kind with some prompt and output."""
        return Request(
            id="",
            params=self.kinds[kind],
            prompt_token_ids=self.tokens[:2],
            output_token_ids=list(self.tokens[:1]),
        )

    @cached_property
    def claims_invariance(self) -> bool:
        """What the processor says of itself."""
        return bool(self.make().is_argmax_invariant())

    @cached_property
    def reference(self) -> Tensor:
        """Logits `[MAX_ROWS, V]` on a grid of quarters, so that equals occur, the tokens that matter spread."""
        rng = np.random.default_rng(0)
        values = np.round(rng.normal(0.0, 3.0, (MAX_ROWS, self.vocab_size)) * 4) / 4
        return torch.tensor(values, dtype=torch.float32)


def additions(requests: Iterable[Request]) -> BatchUpdate:
    """An update that adds requests at rows 0, 1, ..."""
    added = [
        (row, r.params, r.prompt_token_ids, r.output_token_ids) for row, r in enumerate(requests)
    ]
    return BatchUpdate(batch_size=len(added), added=added)


def update(processor: LogitsProcessor, change: BatchUpdate | None) -> None:
    """Call update_state; raises ProcessorRaised."""
    try:
        processor.update_state(change)
    except Exception as error:
        raise ProcessorRaised(f"update_state raised {one_line(error)}") from error


def apply(processor: LogitsProcessor, logits: Tensor, *, copy: bool = True) -> Tensor:
    """Call apply, on a copy unless the logits may change; raises ProcessorRaised."""
    try:
        result: Any = processor.apply(logits.clone() if copy else logits)
    except Exception as error:
        raise ProcessorRaised(f"apply raised {one_line(error)}") from error
    if not isinstance(result, Tensor):
        raise ProcessorRaised(f"apply returned {type(result).__name__}, allowed is the logits")
    return result
