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
        self, logits: Tensor, top_k: Tensor | None, top_p: Tensor | None, noise: Noise
    ) -> Tensor:
        """Token ids int32 `[g, 1]`, int64 `[g]` for top-k alone (see Kernel)."""
        ids: Tensor
        kernels, probs = torch.ops.aiter, logits.softmax(1)
        k = None if top_k is None else top_k.to(torch.int32)
        if k is None:
            ids = kernels.top_p_sampling_from_probs(probs, None, top_p, 0, deterministic=True)
        elif top_p is None:
            uniform = torch.rand(len(probs), dtype=torch.float64, device=probs.device)
            ids = inverse_cdf(kernels.top_k_renorm_probs(probs, k, 0), uniform)
        else:
            ids = kernels.top_k_top_p_sampling_from_probs(
                probs, None, k, 0, top_p, 0, deterministic=True
            )
        return ids
