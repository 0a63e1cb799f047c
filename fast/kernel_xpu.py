"""The fused top-k and top-p sampler of vLLM's XPU kernels. Written against its signature; never run on a device."""

import importlib

import torch
from torch import Tensor

from aliquot.fast.dispatch import Noise


class Xpu:
    """The operator writes int64 ids and takes seed and offset as a host tensor."""

    def __init__(self) -> None:
        importlib.import_module("vllm_xpu_kernels")

    def sample(
        self, logits: Tensor, top_k: Tensor | None, top_p: Tensor | None, noise: Noise
    ) -> Tensor:
        """Token ids int64 `[g]` (see Kernel)."""
        ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
        seeds = torch.cat([noise.seed, noise.offset]).cpu()
        torch.ops.vllm.xpu_topk_topp_sampler(ids, None, logits, top_k, top_p, "raw_logprobs", seeds)
        noise.offset.add_((logits.numel() + 3) // 4 * 4)
        return ids
