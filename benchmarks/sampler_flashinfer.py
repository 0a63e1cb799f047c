"""Holds the FlashInfer path without a GPU: the real package's Python code runs, only its kernels are stand-ins.

Each call of ours goes through FlashInfer's own argument handling; what reaches the kernels is checked. Needs
flashinfer-python; exits 1 at the first difference.
"""

import importlib.metadata
import inspect
import sys
from typing import Any

import flashinfer.sampling
import torch

from aliquot.fast.dispatch import Noise
from aliquot.fast.kernel_flashinfer import FlashInfer

ROWS, WIDTH = 3, 40
SEED, OFFSET = 2**62 + 5, 64
EXPECTED = {
    "top_k_top_p_sampling_from_logits": {"filter_apply_order", "deterministic", "check_nan", "seed", "offset"},
    "top_k_sampling_from_probs": {"deterministic", "check_nan", "seed", "offset"},
    "top_p_sampling_from_probs": {"deterministic", "check_nan", "seed", "offset"},
}  # fmt: skip


class StandIn:
    """Takes the place of the compiled module: records every call and writes the last id."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def build_and_load(self) -> "StandIn":
        """What FlashInfer calls to compile; there is nothing to compile."""
        return self

    def __getattr__(self, name: str) -> Any:
        def kernel(*arguments: Any) -> None:
            self.calls.append((name, arguments))
            if name == "top_k_mask_logits":
                arguments[1].copy_(arguments[0])
            elif arguments[1].dtype == torch.int32:
                arguments[1].fill_(WIDTH - 1)

        return kernel


def require(ok: bool, what: str) -> None:
    """Print a check; leave with status 1 if it failed."""
    print(f"{'ok  ' if ok else 'FAIL'} {what}")
    if not ok:
        sys.exit(1)


def check_signatures() -> None:
    """Every keyword that we pass exists."""
    for name, keywords in EXPECTED.items():
        known = set(inspect.signature(getattr(flashinfer.sampling, name)).parameters)
        require(keywords <= known, f"{name} takes {', '.join(sorted(keywords))}")


def check_call(stand_in: StandIn, top_k: torch.Tensor | None, top_p: torch.Tensor | None) -> None:
    """One call of ours: ids, noise and what reaches the kernels."""
    stand_in.calls.clear()
    noise = Noise(torch.tensor([SEED]), torch.tensor([OFFSET]))
    ids = FlashInfer().sample(torch.randn(ROWS, WIDTH), top_k, top_p, noise)
    names = [name for name, _ in stand_in.calls]
    require(ids.dtype == torch.int64 and ids.tolist() == [WIDTH - 1] * ROWS, f"{names}: int64 ids")
    _, arguments = stand_in.calls[-1]
    probs = arguments[0]
    require(probs.dtype == torch.float32 and probs.is_contiguous(), f"{names[-1]}: float32 probs")
    tensors = [a for a in arguments[3:] if isinstance(a, torch.Tensor)]
    words = [t.tolist() for t in tensors if t.dtype == torch.int64 and t.ndim == 1]
    require([SEED] in words, f"{names[-1]}: seed tensor of 64 bits")
    require(noise.offset.item() > OFFSET, f"{names[-1]}: the offset moves on")
    limits = [a for _, call in stand_in.calls for a in call if isinstance(a, torch.Tensor)]
    if top_k is not None:
        require(any(a.dtype == torch.int32 and a.shape == (ROWS,) and a.tolist() == top_k.tolist()
                    for a in limits), f"{names}: int32 top_k")  # fmt: skip
    if top_p is not None:
        require(any(a is top_p for a in limits), f"{names}: float32 top_p")


def main() -> None:
    """Check signatures and calls."""
    print("flashinfer-python", importlib.metadata.version("flashinfer-python"))
    stand_in = StandIn()
    flashinfer.sampling.gen_sampling_module = lambda: stand_in
    flashinfer.sampling._get_row_states_buffer = lambda *_, **__: torch.zeros(1)
    check_signatures()
    top_k, top_p = torch.tensor([5, 40, 1]), torch.tensor([0.5, 1.0, 0.9])
    check_call(stand_in, top_k, top_p)
    check_call(stand_in, top_k, None)
    check_call(stand_in, None, top_p)


if __name__ == "__main__":
    main()
