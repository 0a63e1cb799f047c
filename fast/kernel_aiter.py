"""AMD's aiter sampling operators on ROCm. Written against their call signatures; never run on a device."""

import importlib

import torch
from torch import Tensor

from aliquot.fast.dispatch import Noise
from aliquot.fast.draw import inverse_cdf


class Aiter:
    """aiter draws from the device's default generator and takes no seed."""

    def __init__(self) -> None:
        importlib.import_module("aiter.ops.sampling")

    def sample(
        self,
        logits: Tensor,
        top_k: Tensor | None,
        top_p: Tensor | None,
        noise: Noise,
    ) -> Tensor:
        """Token ids int64 `[g]` (see Kernel)."""
        ids: Tensor
        probs = logits.softmax(1)
        ops = torch.ops.aiter
        if top_p is None and top_k is not None:
            kept = ops.top_k_renorm_probs(probs, top_k.to(torch.int32), 0)
            uniform = torch.rand(len(probs), dtype=torch.float64, device=probs.device)
            return inverse_cdf(kept, uniform)
        if top_k is None:
            ids = ops.top_p_sampling_from_probs(probs, None, top_p, 0, deterministic=True)
        else:
            ids = ops.top_k_top_p_sampling_from_probs(
                probs, None, top_k.to(torch.int32), 0, top_p, 0, deterministic=True
            )
        return ids.view(-1).to(torch.int64)
