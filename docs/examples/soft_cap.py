"""A false claim: the soft cap says that the argmax stays, but large logits become equal."""

import torch

from aliquot.fast.processors.per_request import PerRequestProcessor


class SoftCap(PerRequestProcessor):
    """Squeezes logits into (-cap, cap) by cap * tanh(logit / cap)."""

    @classmethod
    def validate_params(cls, params):
        """The cap is a number above 0."""
        cap = params.extra_args.get("cap", 1.0)
        if type(cap) not in (int, float) or not 0 < cap < torch.inf:
            raise ValueError(f"extra_args: cap is {cap!r}, allowed is a finite number > 0")

    def is_argmax_invariant(self):
        """True for real numbers. In float32 tanh is exactly 1 from about 9 on."""
        return True

    def request_callable(self, params):
        """The function of one request."""
        cap = params.extra_args.get("cap")
        if cap is None:
            return None
        return lambda output_ids, row: torch.where(row.isinf(), row, cap * torch.tanh(row / cap))
