"""FlashInfer's sampling kernels on CUDA."""

import flashinfer.sampling
import torch
from torch import Tensor

from aliquot.fast.dispatch import Noise


class FlashInfer:
    """Calls written against flashinfer-python 0.7.4.

    Top-k goes as a tensor and without `top_k_max`: with a number or a bound FlashInfer takes a shortcut that keeps
    exactly k of tied tokens. Seed and offset go as tensors, so that the calls can stand in a CUDA graph.
    """

    def sample(
        self,
        logits: Tensor,
        top_k: Tensor | None,
        top_p: Tensor | None,
        noise: Noise,
    ) -> Tensor:
        """Token ids int64 `[g]` (see Kernel); FlashInfer's own are int32."""
        ids: Tensor
        seed, offset = noise.seed, noise.offset
        if top_k is not None and top_p is not None:
            ids = flashinfer.sampling.top_k_top_p_sampling_from_logits(
                logits,
                top_k.to(torch.int32),
                top_p,
                filter_apply_order="top_k_first",
                deterministic=True,
                check_nan=False,
                seed=seed,
                offset=offset,
            )
        elif top_k is not None:
            ids = flashinfer.sampling.top_k_sampling_from_probs(
                logits.softmax(1),
                top_k.to(torch.int32),
                deterministic=True,
                check_nan=False,
                seed=seed,
                offset=offset,
            )
        else:
            ids = flashinfer.sampling.top_p_sampling_from_probs(
                logits.softmax(1),
                top_p,
                deterministic=True,
                check_nan=False,
                seed=seed,
                offset=offset,
            )
        noise.advance(len(logits))
        return ids.view(-1).to(torch.int64)
