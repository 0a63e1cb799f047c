"""aliquot's own production sampler as a backend."""

from typing import Any

import torch

import aliquot
from aliquot.conformance.backend import Capabilities
from aliquot.contract.batch import LOGPROBS_MODES, Batch
from aliquot.contract.output import SamplerOutput
from aliquot.contract.profile import Profile
from aliquot.fast.sampler import Sampler


class FastBackend:
    """`aliquot.fast` on the CPU, a fresh persistent batch for every call."""

    capabilities = Capabilities(
        name="fast",
        version=aliquot.__version__,
        dtypes=("float32", "bfloat16", "float16"),
        logprobs_modes=LOGPROBS_MODES,
        validates=True,
        profile=Profile(bad_row="invalid_mark"),
    )

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.sampler = Sampler(profile=self.capabilities.profile, seed=0)

    def reseed(self, seed: int) -> None:
        """Restart the noise of requests without a seed."""
        self.sampler.reseed(seed)

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample one token per row."""
        return self.sampler.sample(logits, batch)
