"""The oracle as a backend: the suite's own null, and the ground that faults are built on."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import aliquot
from aliquot.conformance.backend import Capabilities
from aliquot.conformance.memory import Memory, digest
from aliquot.contract.batch import LOGPROBS_MODES, Batch, BatchUpdate, LogprobsMode, Request
from aliquot.contract.output import INVALID_TOKEN, Logprobs, SamplerOutput
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import batch_state, law, logprobs, pipeline, sampler
from aliquot.oracle.rows import require_shape
from aliquot.oracle.sampler import subset

Rows = npt.NDArray[np.float64]

DECLARED = Capabilities(
    name="oracle",
    version=aliquot.__version__,
    arrays="numpy",
    dtypes=("float32", "float16", "bfloat16"),
    logprobs_modes=LOGPROBS_MODES,
    noise="replayable",
    validates=True,
    stateful=True,
    given_logprobs=True,
    accuracy="float64",
    profile=replace(CANONICAL, bad_row="invalid_mark"),
)


@dataclass
class OracleBackend:
    """The oracle's own sampler, or with other `steps` a sampler that departs from the contract."""

    steps: pipeline.Steps | None = None
    capabilities: Capabilities = DECLARED

    def __post_init__(self) -> None:
        self.reseed(0)
        self.laws = Memory()
        self.given: Rows | None = None
        self.noise: Rows = np.zeros(0)

    def reseed(self, seed: int) -> None:
        """Restart the noise of requests without a seed."""
        self.rng = np.random.default_rng(seed)

    @property
    def profile(self) -> Profile:
        """The freedoms in force."""
        return self.capabilities.profile

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample from NumPy logits [n, V]; copies of one row share the work of its law."""
        batch.validate()
        logits = require_shape(logits, batch)
        if batch.wants_logprobs:
            return self.sample_rows(logits, batch)
        first, copies = unique_rows(logits, batch)
        laws = [self.law_of(logits, batch, r) for r in first]
        if self.profile.bad_row == "error" and any(law is None for law in laws):
            return self.sample_rows(logits, batch)
        noise = self.uniforms(batch)
        mark = INVALID_TOKEN if self.profile.bad_row == "invalid_mark" else 0
        ids = np.full((len(batch), 1), mark, dtype=self.profile.id_dtype)
        for kind, probs in enumerate(laws):
            if probs is not None:
                ids[copies == kind, 0] = self.draw(probs, noise[copies == kind])
        return SamplerOutput(sampled_token_ids=ids)

    def law_of(self, logits: Any, batch: Batch, r: int) -> Rows | None:
        """The law [V] of row `r`; None when it has none. A law depends on its row alone (INV03), so it is kept."""
        row, alone = logits[[r]], subset(batch, [r])

        def made() -> tuple[Rows, ...]:
            outcome = self.outcome(row, alone)
            return () if outcome is None else (np.asarray(outcome.law[0]),)

        found = self.laws.get(content(row, alone, self.profile), made)
        return found[0] if found else None

    def sample_rows(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample row by row, with logprobs."""
        return sampler.sample(logits, batch, self.rng, profile=self.profile, steps=self.steps)

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin with an empty batch."""
        self.rows: dict[int, Request] = {}
        self.vocab_size, self.mode = vocab_size, mode

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Recompute the batch from its rows, then sample."""
        self.rows = batch_state.apply_update(self.rows, update)
        batch = batch_state.batch_of(self.rows, self.vocab_size, logprobs_mode=self.mode)
        return self.sample(logits, batch)

    def logprobs_of(self, logits: Any, token_ids: Any) -> Logprobs:
        """Raw logprobs and ranks of one given token per row."""
        return logprobs.of_given_tokens(logits, token_ids)

    def last_noise(self) -> tuple[str, Rows]:
        """The uniforms of the last call."""
        return "inverse_cdf", self.noise

    def inject(self, values: Rows) -> None:
        """Use these uniforms in the next call."""
        self.given = values

    def uniforms(self, batch: Batch) -> Rows:
        """The noise of this call, kept for `last_noise`."""
        self.noise = (
            sampler.uniforms(batch.requests, self.rng) if self.given is None else self.given
        )
        self.given = None
        return self.noise

    def outcome(self, logits: Any, batch: Batch) -> pipeline.Outcome | None:
        """What the steps leave; None when a row has no law."""
        try:
            return pipeline.run(logits, batch, profile=self.profile, steps=self.steps)
        except pipeline.RowError:
            return None

    def draw(self, probs: Rows, noise: Rows) -> npt.NDArray[np.int64]:
        """Draw one token per uniform from a law [V]."""
        return law.draw_row(probs, noise)


def unique_rows(logits: Any, batch: Batch) -> tuple[list[int], npt.NDArray[np.int64]]:
    """The first row of each kind, and for every row which kind it is."""
    kinds: dict[object, list[int]] = {}
    first: list[int] = []
    copies = np.empty(len(batch), dtype=np.int64)
    bits = np.ascontiguousarray(logits).view(f"u{logits.itemsize}")
    for r, request in enumerate(batch.requests):
        mask = None if batch.grammar_bitmask is None else batch.grammar_bitmask[r].tobytes()
        key = (id(request.params), *_tokens(request), mask)
        alike = kinds.setdefault(key, [])
        equal = (k for k in alike if np.array_equal(bits[first[k]], bits[r]))
        kind = next(equal, len(first))
        if kind == len(first):
            alike.append(kind)
            first.append(r)
        copies[r] = kind
    return first, copies


def content(row: Any, alone: Batch, profile: Profile) -> bytes:
    """A digest of all that the law of one row [1, V] depends on."""
    request, mask = alone.requests[0], alone.grammar_bitmask
    told = (
        row.dtype.str,
        request.params,
        _tokens(request),
        None if mask is None else mask.tobytes(),
        alone.thinking,
        profile,
    )
    return digest(told, row)


def _tokens(request: Request) -> tuple[tuple[int, ...] | None, ...]:
    prompt = request.prompt_token_ids
    parts = (prompt, request.output_token_ids, request.draft_token_ids)
    return tuple(None if part is None else tuple(part) for part in parts)
