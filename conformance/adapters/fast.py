"""aliquot's own production sampler as a backend."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import aliquot
from aliquot.conformance.backend import Capabilities
from aliquot.contract.batch import LOGPROBS_MODES, Batch, BatchUpdate, LogprobsMode
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.profile import Profile
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState


class FastBackend:
    """`aliquot.fast` on the CPU; `sample` makes a fresh persistent batch for every call."""

    capabilities = Capabilities(
        name="fast",
        version=aliquot.__version__,
        dtypes=("float32", "bfloat16", "float16"),
        logprobs_modes=LOGPROBS_MODES,
        noise="replayable",
        validates=True,
        stateful=True,
        given_logprobs=True,
        profile=Profile(bad_row="invalid_mark"),
    )

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.given: Tensor | None = None
        self.noise: tuple[str, Any] = ("inverse_cdf", np.zeros(0))
        self.sampler = Sampler(profile=self.capabilities.profile, seed=0, noise_hook=self._hook)

    def _hook(self, kind: str, values: Tensor) -> Tensor | None:
        given, self.given = self.given, None
        self.noise = kind, (values if given is None else given).cpu().numpy()
        return given

    def last_noise(self) -> tuple[str, Any]:
        """The noise of the last call."""
        return self.noise

    def inject(self, values: Any) -> None:
        """Use these values as the next call's noise."""
        self.given = torch.from_numpy(values)

    def reseed(self, seed: int) -> None:
        """Restart the noise of requests without a seed."""
        self.sampler.reseed(seed)

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin with an empty persistent batch."""
        profile = self.capabilities.profile
        device = self.capabilities.device
        self.state = BatchState(vocab_size, device=device, logprobs_mode=mode, profile=profile)

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Follow the update, then sample one token per row."""
        self.state.update(update)
        output: SamplerOutput = self.sampler(logits, self.state)
        return output

    def logprobs_of(self, logits: Any, token_ids: Any) -> Logprobs:
        """Raw logprobs and ranks of one given token per row."""
        return self.sampler.logprobs_of(logits, token_ids)

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample one token per row."""
        return self.sampler.sample(logits, batch)


class FastCudaBackend(FastBackend):
    """`aliquot.fast` on a CUDA device; its noise is opaque, as that of FlashInfer's kernels is.

    Raises RuntimeError where torch sees no CUDA device.
    """

    capabilities = replace(
        FastBackend.capabilities, name="fast-cuda", device="cuda", noise="opaque"
    )

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise RuntimeError("needs a CUDA device, torch sees none")
        super().__init__()
