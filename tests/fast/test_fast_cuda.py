"""The backend on a CUDA device, as far as a machine without one can tell."""

from dataclasses import replace

import pytest
import torch

from aliquot.conformance.adapters.fast import FastCudaBackend
from aliquot.conformance.backend import BackendLoadError, load

NAME = "aliquot.conformance.adapters.fast:FastCudaBackend"


def test_no_device_is_one_clear_line(monkeypatch):
    """Without a CUDA device the backend is refused and the line says why."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendLoadError, match="needs a CUDA device, torch sees none"):
        load(NAME)


def test_batch_is_on_the_declared_device(monkeypatch):
    """With a device the persistent batch is made on it; `meta` stands in for CUDA."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    declared = replace(FastCudaBackend.capabilities, device="meta")
    monkeypatch.setattr(FastCudaBackend, "capabilities", declared)
    backend = load(NAME)
    backend.start(8, "raw_logprobs")
    assert backend.state.device == torch.device("meta")


def test_declares_cuda_and_opaque_noise():
    """Logits are handed over on the device, and nobody asks for the noise of FlashInfer's kernels."""
    declared = FastCudaBackend.capabilities
    assert (declared.name, declared.device, declared.noise) == ("fast-cuda", "cuda", "opaque")
