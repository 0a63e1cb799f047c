"""Logits into the arrays that a backend takes, and its answer back into NumPy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import Case
from aliquot.contract.output import INVALID_TOKEN, Logprobs, SamplerOutput

PADDING = 99.0


class FormError(Exception):
    """An answer of the wrong shape, dtype or range; `clause` is the rule it breaks."""

    def __init__(self, clause: str, wanted: str, got: str) -> None:
        super().__init__(f"wanted {wanted}, got {got}")
        self.clause, self.wanted, self.got = clause, wanted, got


@dataclass(frozen=True)
class Answer:
    """A backend's answer in NumPy: ids int64 [n], and logprobs as returned."""

    ids: npt.NDArray[np.int64]
    logprob_ids: npt.NDArray[np.int64] | None = None
    logprobs: npt.NDArray[np.float32] | None = None
    ranks: npt.NDArray[np.int64] | None = None


def logits_for(case: Case, capabilities: Capabilities) -> Any:
    """The case's logits as the backend's arrays, in the case's dtype and layout.

    NumPy has no bfloat16: a NumPy backend takes such rows as float32 of the same values.
    """
    n, vocab = case.logits.shape
    buffer = np.empty((n, vocab + case.padding), dtype=np.float32)
    buffer[:, :vocab], buffer[:, vocab:] = case.logits, PADDING
    if capabilities.arrays == "numpy":
        dtype = "float32" if case.dtype == "bfloat16" else case.dtype
        return buffer.astype(dtype)[:, :vocab]
    import torch

    tensor = torch.from_numpy(buffer).to(getattr(torch, case.dtype))
    return tensor.to(capabilities.device)[:, :vocab]


def ids_for(ids: npt.NDArray[np.int64], capabilities: Capabilities) -> Any:
    """Token ids int64 as the backend's arrays."""
    if capabilities.arrays == "numpy":
        return ids
    import torch

    return torch.from_numpy(ids).to(capabilities.device)


def bits(array: Any) -> bytes:
    """The exact bytes of an array, to see whether it was overwritten."""
    if hasattr(array, "detach"):
        import torch

        whole = array.detach().cpu().contiguous().view(torch.uint8)
        return bytes(whole.numpy().tobytes())
    return np.ascontiguousarray(array).tobytes()


def to_numpy(array: Any) -> npt.NDArray[Any]:
    """A NumPy view or copy of a NumPy or torch array."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)


def read(
    output: Any, case: Case, capabilities: Capabilities, bad: frozenset[int] = frozenset()
) -> Answer:
    """Check the form of a backend's answer and return it in NumPy; only `bad` rows may be marked -1.

    Raises FormError.
    """
    if not isinstance(output, SamplerOutput):
        raise FormError("IO06", "a SamplerOutput", f"a {type(output).__name__}")
    n, vocab = case.logits.shape
    dtype = capabilities.profile.id_dtype
    ids = _ids("sampled ids", output.sampled_token_ids, (n, 1), dtype)[:, 0]
    for r, token in enumerate(ids.tolist()):
        if not (0 <= token < vocab or (r in bad and token == INVALID_TOKEN)):
            raise FormError("IO08", f"sampled ids in [0, {vocab})", f"id {token}")
    found = output.logprobs
    if found is None:
        return Answer(ids)
    if not isinstance(found, Logprobs):
        raise FormError("IO09", "logprobs as a Logprobs", f"a {type(found).__name__}")
    values = _array("logprobs", found.values)
    width = values.shape[1] if values.ndim == 2 else -1
    _form("logprobs", values, (n, width), "float32")
    return Answer(
        ids,
        _ids("logprob ids", found.token_ids, (n, width), dtype),
        values,
        _form("ranks", _array("ranks", found.ranks), (n,), "int64").astype(np.int64),
    )


def _array(what: str, array: Any) -> npt.NDArray[Any]:
    """A NumPy array from what should be one of the backend's arrays."""
    try:
        if not hasattr(array, "shape"):
            raise TypeError(f"a {type(array).__name__}")
        return to_numpy(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FormError("IO09", f"{what} as an array", str(error).splitlines()[0]) from error


def _ids(what: str, array: Any, shape: tuple[int, ...], dtype: str) -> npt.NDArray[np.int64]:
    found = _array(what, array)
    if found.shape != shape:
        raise FormError("IO06", f"{what} of shape {list(shape)}", f"shape {list(found.shape)}")
    if found.dtype != np.dtype(dtype):
        raise FormError("IO07", f"{what} of dtype {dtype}", f"dtype {found.dtype}")
    return found.astype(np.int64)


def _form(
    what: str, array: npt.NDArray[Any], shape: tuple[int, ...], dtype: str
) -> npt.NDArray[Any]:
    if array.shape != shape or array.dtype != np.dtype(dtype):
        wanted = f"{what} of shape {list(shape)} and dtype {dtype}"
        raise FormError("IO09", wanted, f"shape {list(array.shape)}, dtype {array.dtype}")
    return array
