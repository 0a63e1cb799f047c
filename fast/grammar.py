"""Step 0: the packed grammar bitmask (GRAM01-GRAM06)."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aliquot.fast.upload import upload


def apply_bitmask(logits: Tensor, bitmask: "npt.NDArray[np.int32] | Tensor") -> None:
    """Set forbidden tokens of float32 logits `[n, V]` to -inf in place.

    Bit t % 32 of word t // 32 set = allowed. On the CPU the rows without a grammar are found and left alone.
    """
    words = upload(bitmask, logits.device)
    if words.device.type == "cpu":
        concerned = (words != -1).any(1).nonzero().squeeze(1)
        for row in concerned.tolist():
            logits[row].masked_fill_(_forbidden(words[row], logits.shape[1]), -torch.inf)
        return
    logits.masked_fill_(_forbidden(words, logits.shape[1]), -torch.inf)


def _forbidden(words: Tensor, width: int) -> Tensor:
    bits = words.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=words.device)
    return ((bits & 1) == 0).flatten(-2)[..., :width]
