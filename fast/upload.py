"""What passes between host and device: copies of arrays, and whether a CUDA graph is being captured."""

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor


def upload(array: npt.NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """The array on the device, without waiting for it; where it is there already the same memory.

    To CUDA through pinned memory of torch's allocator, which is not used again before the copy is done: an
    array that is kept and overwritten could change under a copy still to come.
    """
    source = torch.as_tensor(array)
    if device.type == "cuda" and source.device.type == "cpu":
        source = source.pin_memory()
    return source.to(device, non_blocking=True)


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph records the operations on the device: what the host does now is not replayed."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
