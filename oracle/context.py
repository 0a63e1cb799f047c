"""What a step may know besides the rows: the batch, the declared freedoms and the dtype of the parameters.

INV10: a parameter acts as rounded to the dtype in which the sampler holds it. GREEDY03: a greedy
request filters nothing. SPEC09: in a speculative step a row's history is its output followed by its
drafts.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aliquot.contract.batch import Batch
from aliquot.contract.params import BIAS_LIMIT, SamplingParams
from aliquot.contract.profile import CANONICAL, Profile

HELD = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
)


@dataclass(frozen=True)
class Context:
    """The batch of one step, the profile in force and the dtype that holds the parameters."""

    batch: Batch
    profile: Profile = CANONICAL
    parameter_dtype: type[Any] = np.float32

    @cached_property
    def params(self) -> tuple[SamplingParams, ...]:
        """Each row's parameters as the sampler acts on them: rounded, greedy rows without filters."""
        return tuple(self._held(request.params.effective()) for request in self.batch.requests)

    @cached_property
    def histories(self) -> tuple[tuple[int, ...], ...]:
        """Each row's output token ids with its draft token ids after them (SPEC09)."""
        return tuple((*r.output_token_ids, *r.draft_token_ids) for r in self.batch.requests)

    def _held(self, params: SamplingParams) -> SamplingParams:
        numbers: dict[str, Any] = {}
        for name in HELD:
            value = getattr(params, name)
            held = rounded(value, self.parameter_dtype)
            if held != value:
                numbers[name] = held
        if params.logit_bias:
            numbers["logit_bias"] = {t: self._bias(b) for t, b in params.logit_bias.items()}
        return replace(params, **numbers) if numbers else params

    def _bias(self, bias: float) -> float:
        clipped = min(max(bias, -BIAS_LIMIT), BIAS_LIMIT)  # BIAS02
        return rounded(clipped, self.parameter_dtype)


def rounded(value: float, dtype: type[Any]) -> float:
    """The nearest value of `dtype` (INV10), where a finite value stays finite and a positive one positive.

    Saturation instead of overflow keeps what the contract allows legal: a temperature of 1e39 does
    not become infinite in float32, nor a top_p of 1e-50 zero.
    """
    limits = np.finfo(dtype)
    with np.errstate(over="ignore", under="ignore"):
        held = float(dtype(value))  # INV10
    if value > 0:
        return min(max(held, float(limits.smallest_subnormal)), float(limits.max))
    return max(held, float(limits.min))
