"""Requests, the batch of one step, and the changes between two steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import numpy as np
import numpy.typing as npt

from aliquot.contract.params import SamplingParams, validate

LogprobsMode = Literal["raw_logprobs", "raw_logits", "processed_logits", "processed_logprobs"]
LOGPROBS_MODES: tuple[LogprobsMode, ...] = (
    "raw_logprobs",
    "raw_logits",
    "processed_logits",
    "processed_logprobs",
)
PLACEHOLDER = -1


class BatchError(ValueError):
    """A batch whose parts contradict each other."""


@dataclass(kw_only=True)
class Request:
    """One request in the batch.

    `output_token_ids` is the running list of what was generated: a live reference that grows
    between steps. It may end in the placeholder -1 for a token that is not known yet.
    `prompt_token_ids` is None for a prompt given as embeddings. `draft_token_ids` are the proposals
    of a speculative step.
    """

    id: str
    params: SamplingParams = field(default_factory=SamplingParams)
    prompt_token_ids: Sequence[int] | None = ()
    output_token_ids: list[int] = field(default_factory=list)
    draft_token_ids: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class ThinkingMarkers:
    """The token sequences that open and close a thinking section; an empty `end` means no effect."""

    start: tuple[int, ...]
    end: tuple[int, ...] = ()


@dataclass(kw_only=True)
class Batch:
    """The requests of one step, row r of the logits belonging to `requests[r]`.

    `grammar_bitmask` is int32 `[n, ceil(V/32)]` (GRAM01) or None. `all_greedy` and `all_random` are
    computed when not given. Raises BatchError when both are true, when they contradict the requests
    or when shapes disagree.
    """

    requests: Sequence[Request]
    vocab_size: int
    logprobs_mode: LogprobsMode = "raw_logprobs"
    grammar_bitmask: npt.NDArray[np.int32] | None = None
    thinking: ThinkingMarkers | None = None
    all_greedy: bool | None = None
    all_random: bool | None = None

    def __post_init__(self) -> None:
        if self.all_greedy and self.all_random:  # GREEDY06
            raise BatchError(
                "batch: all_greedy and all_random are both true, allowed is at most one"
            )
        greedy = [request.params.greedy for request in self.requests]
        self._set_flag("all_greedy", all(greedy))
        self._set_flag("all_random", bool(greedy) and not any(greedy))
        if self.logprobs_mode not in LOGPROBS_MODES:
            raise BatchError(
                f"batch: logprobs_mode is {self.logprobs_mode!r}, allowed are {', '.join(LOGPROBS_MODES)}"
            )
        self._check_bitmask()

    def _set_flag(self, name: str, actual: bool) -> None:
        given = getattr(self, name)
        if given and not actual:
            raise BatchError(f"batch: {name} is True, the requests' temperatures say otherwise")
        setattr(self, name, actual if given is None else given)

    def _check_bitmask(self) -> None:
        mask = self.grammar_bitmask
        wanted = (len(self.requests), -(-self.vocab_size // 32))
        if mask is not None and (mask.shape != wanted or mask.dtype != np.int32):  # ERR14
            raise BatchError(
                f"batch: grammar_bitmask is {mask.dtype} {mask.shape}, allowed is int32 {wanted}"
            )

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def max_num_logprobs(self) -> int | None:
        """The most logprobs that a request asks for: None for none at all, -1 if one asks for the row.

        Requests with explicit ids do not count, their number is void (LOGP12).
        """
        numbered = [r.params for r in self.requests if r.params.logprob_token_ids is None]
        asked = [params.logprobs for params in numbered if params.logprobs is not None]
        if not asked:
            return None
        return -1 if -1 in asked else min(max(asked), self.vocab_size)

    @property
    def wants_logprobs(self) -> bool:
        """Whether step 8 has anything to return."""
        explicit = any(r.params.logprob_token_ids is not None for r in self.requests)
        return explicit or self.max_num_logprobs is not None

    def validate(self) -> None:
        """Validate every request's parameters against the vocabulary; raises ParameterError.

        Requests that share one params object cost one check: it is frozen.
        """
        valid: set[int] = set()
        for request in self.requests:
            if id(request.params) not in valid:
                validate(request.params, self.vocab_size, request.id)
                valid.add(id(request.params))


class MoveDirectionality(Enum):
    """Whether a move empties its source (UNIDIRECTIONAL) or exchanges two rows (SWAP)."""

    UNIDIRECTIONAL = "unidirectional"
    SWAP = "swap"


Added = tuple[int, SamplingParams, Sequence[int] | None, list[int]]
Moved = tuple[int, int, MoveDirectionality]


@dataclass(frozen=True, kw_only=True)
class BatchUpdate:
    """What changed in a persistent batch since the last step, applied as removed, added, moved (STATE01).

    `added` holds (index, params, prompt ids or None, output ids); the output ids are a live
    reference.
    """

    batch_size: int
    removed: Sequence[int] = ()
    added: Sequence[Added] = ()
    moved: Sequence[Moved] = ()
