"""What a sampler returns."""

from dataclasses import dataclass
from typing import Any

INVALID_TOKEN = -1


@dataclass(frozen=True, kw_only=True)
class Logprobs:
    """Logprobs of one step (LOGP01-LOGP12).

    `token_ids` int64 and `values` float32 are `[n, 1 + k]`, column 0 the sampled token, or `[n, V]`
    in id order when the whole row was asked for; `ranks` int64 `[n]` are the sampled tokens' ranks,
    1 the best.
    """

    token_ids: Any
    values: Any
    ranks: Any


@dataclass(frozen=True, kw_only=True)
class SamplerOutput:
    """The sampled ids, int64 `[n, 1]`, and the logprobs if any were asked for.

    Arrays are NumPy's or torch's, whichever the backend declared. A row that the sampler marks as
    invalid has the id -1.
    """

    sampled_token_ids: Any
    logprobs: Logprobs | None = None
