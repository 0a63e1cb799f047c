"""The backend that the suites call: it passes each call to a desk as a question."""

from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays
from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import Case
from aliquot.conformance.vectors.desk import Desk
from aliquot.conformance.vectors.question import (
    IDS,
    LOGPROBS,
    REPLAYS,
    Question,
    of_call,
    without_whole_rows,
)
from aliquot.contract.batch import Batch, BatchUpdate, LogprobsMode, Request
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.oracle import batch_state

UNKNOWN_NOISE = 1 / 3
"""Stands for noise that a program keeps to itself. It has all the bits of float64, as injected noise may have."""


class VectorBackend:
    """A sampler whose answers come from a desk, for one check.

    `wants` is the kind that a call asks for, None to tell it from the batch. Once `closed` it answers nothing.
    """

    def __init__(self, desk: Desk, check: str, capabilities: Capabilities) -> None:
        self.desk, self.check, self.capabilities = desk, check, capabilities
        self.wants: str | None = None
        self.closed = False
        self.noise: npt.NDArray[np.float64] | None = None
        self.used: npt.NDArray[np.float64] | None = None

    def reseed(self, seed: int) -> None:
        """Restart the noise, where it can be."""
        self.desk.reseed(seed)

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """The answer to a batch of torch logits [n, V]; raises RuntimeError when closed."""
        if self.closed:
            raise RuntimeError("a failed check asks no more")
        noise, self.noise = self.noise, None
        self.used = np.full(len(batch), UNKNOWN_NOISE) if noise is None else noise
        if noise is not None:
            question = of_call(logits, batch, noise=noise[None])
            ids = self.desk.draws(self.check, question, REPLAYS[0], 1)[0]
            return SamplerOutput(sampled_token_ids=self._typed(ids[:, None]))
        kind = self.wants or (LOGPROBS if batch.wants_logprobs else IDS)
        question = of_call(logits, batch)
        if kind == batch.logprobs_mode:
            question = without_whole_rows(question)
        return self.desk.sample(self.check, question, kind)

    def draws(
        self, case: Case, kind: str, count: int, noise: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[np.int64]:
        """`count` draws of each of the case's rows, int64 [count, n]."""
        return self.desk.draws(self.check, self._of(case, noise=noise), kind, count)

    def kept(self, case: Case) -> npt.NDArray[np.bool_]:
        """The tokens [n, V] that each row of a case with whole rows keeps."""
        return self.desk.kept(self.check, without_whole_rows(self._of(case)))

    def logprobs_of(self, logits: Any, token_ids: Any) -> Logprobs:
        """Raw logprobs and ranks of one given token per row."""
        requests = [Request(id=str(r)) for r in range(len(logits))]
        batch = Batch(requests=requests, vocab_size=logits.shape[1])
        question = of_call(logits, batch, tokens=arrays.to_numpy(token_ids).astype(np.int64))
        return self.desk.given(self.check, question)

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin with an empty batch."""
        self.rows: dict[int, Request] = {}
        self.vocab_size, self.mode, self.steps = vocab_size, mode, 0

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Follow the update, then answer for the batch as it is now."""
        self.rows = batch_state.apply_update(self.rows, update)
        batch = batch_state.batch_of(self.rows, self.vocab_size, logprobs_mode=self.mode)
        question = of_call(logits, batch, step=self.steps, update=update)
        self.steps += 1
        if not self.rows:
            return SamplerOutput(sampled_token_ids=self._typed(np.zeros((0, 1), dtype=np.int64)))
        return self.desk.sample(self.check, without_whole_rows(question), self.mode)

    def last_noise(self) -> tuple[str, npt.NDArray[np.float64] | None]:
        """The injected uniforms of the last call; where none were, some in their place."""
        return REPLAYS[0], self.used

    def inject(self, values: npt.NDArray[np.float64]) -> None:
        """Ask the next call with these uniforms."""
        self.noise = values

    def _of(self, case: Case, **more: Any) -> Question:
        return of_call(arrays.logits_for(case, self.capabilities), case.batch(), **more)

    def _typed(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        return ids.astype(self.capabilities.profile.id_dtype)
