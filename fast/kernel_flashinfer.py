"""FlashInfer's sampling kernels on CUDA."""

import flashinfer.sampling as kernels
import torch
from torch import Tensor

from aliquot.fast.dispatch import Noise


class FlashInfer:
    """Calls written against flashinfer-python 0.7.4.

    Top-k goes as a tensor and without `top_k_max`: with a number or a bound FlashInfer takes a shortcut that keeps
    exactly k of tied tokens. Seed and offset go as tensors, so that the calls can stand in a CUDA graph.
    """

    def sample(
        self, logits: Tensor, top_k: Tensor | None, top_p: Tensor | None, noise: Noise
    ) -> Tensor:
        """Token ids int32 `[g]` (see Kernel)."""
        ids: Tensor
        start = {"seed": noise.seed, "offset": noise.offset}
        options = {"deterministic": True, "check_nan": False, **start}
        k = None if top_k is None else top_k.to(torch.int32)
        if k is None:
            ids = kernels.top_p_sampling_from_probs(logits.softmax(1), top_p, **options)
        elif top_p is None:
            ids = kernels.top_k_sampling_from_probs(logits.softmax(1), k, **options)
        else:
            ids = kernels.top_k_top_p_sampling_from_logits(
                logits, k, top_p, filter_apply_order="top_k_first", **options
            )
        noise.advance(len(logits))
        return ids
