"""F8: seeds, generators and their state."""

from collections.abc import Callable
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Fault, Faulty, Generator, each, with_params
from aliquot.contract.batch import Batch, BatchUpdate, MoveDirectionality, Request
from aliquot.contract.output import SamplerOutput
from aliquot.oracle import sampler
from aliquot.oracle.pipeline import Rows

SEED_BITS = 32


def right(batch: Batch, rng: Generator) -> Rows:
    """The noise of a right sampler."""
    return sampler.uniforms(batch.requests, rng)


def seeded_rows(batch: Batch) -> Any:
    """Which rows have a seed, bool [n]."""
    return np.array([r.params.seed is not None for r in batch.requests], dtype=bool)


def _frozen(batch: Batch, rng: Generator) -> Rows:
    """Unseeded rows take the same numbers in every call."""
    return right(batch, np.random.default_rng(0))


def _first_for_all(batch: Batch, rng: Generator) -> Rows:
    noise = right(batch, rng)
    return np.full(noise.shape, noise[0]) if noise.size else noise


def _unseeded(batch: Batch, rng: Generator) -> Rows:
    return rng.random(len(batch))


def _unseeded_beside_unseeded(batch: Batch, rng: Generator) -> Rows:
    return right(batch, rng) if seeded_rows(batch).all() else rng.random(len(batch))


def _at_step_zero(batch: Batch, rng: Generator) -> Rows:
    noise = right(batch, rng)
    for r, request in enumerate(batch.requests):
        if request.params.seed is not None:
            noise[r] = _own(request.params.seed, 0)
    return noise


def _own(seed: int, step: int) -> float:
    """The uniform of a seeded request at one step."""
    request = with_params(Request(id="", output_token_ids=[0] * step), seed=seed)
    return float(sampler.uniforms([request], np.random.default_rng(0))[0])


def _by_step_alone(batch: Batch, rng: Generator) -> Rows:
    """Requests without a seed share one stream, whose place is the number of their output tokens."""
    noise = right(batch, rng)
    for r, request in enumerate(batch.requests):
        if request.params.seed is None:
            noise[r] = _own(0, len(request.output_token_ids))
    return noise


def _reseeded(change: Callable[[int, int, Batch], int]) -> Callable[[Batch], Batch]:
    """A change of the seeds from a function of the seed, the row and the batch."""

    def changed(request: Request, r: int, batch: Batch) -> Request:
        seed = request.params.seed
        return request if seed is None else with_params(request, seed=change(seed, r, batch))

    return each(changed)


def _last_seed(seed: int, r: int, batch: Batch) -> int:
    seeds = (q.params.seed for q in reversed(batch.requests) if q.params.seed is not None)
    return next(seeds) + r - len(batch)


class StreamsOfSlots(Faulty):
    """Keeps the streams of seeded requests in slots: `follow` says what becomes of them with an update."""

    def start(self, vocab_size: int, mode: Any) -> None:
        """Begin with streams at their start."""
        super().start(vocab_size, mode)
        self.drawn: dict[int, int] = {}
        self.seeds: dict[int, int | None] = {}

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Let the streams follow, sample, then let each advance by one."""
        self.follow(update)
        output = super().step(logits, update)
        for r in self.rows:
            self.drawn[r] = self.drawn.get(r, 0) + 1
        return output

    def follow(self, update: BatchUpdate | None) -> None:
        """A new request starts its stream anew, also one that comes back; moves are followed."""
        if update is None:
            return
        for r, params, _, _ in update.added:
            self.drawn[r], self.seeds[r] = 0, params.seed
        for a, b, how in update.moved:
            for kept in (self.drawn, self.seeds):
                self._move(kept, a, b, how)

    def _move(self, kept: dict[int, Any], a: int, b: int, how: MoveDirectionality) -> None:
        from_a, from_b = kept.pop(a, 0), kept.pop(b, 0)
        kept[b] = from_a
        if how is MoveDirectionality.SWAP:
            kept[a] = from_b

    def uniforms(self, batch: Batch) -> Rows:
        """In a running batch the noise of the slots' streams."""
        noise = super().uniforms(batch)
        if self.stepping:
            for r, request in enumerate(batch.requests):
                if request.params.seed is not None:
                    noise[r] = self.of_slot(r, request.params.seed)
        return noise

    def of_slot(self, r: int, seed: int) -> float:
        """The next number of the slot's stream."""
        return _own(seed, self.drawn.get(r, 0))


class StreamsStay(StreamsOfSlots):
    """The streams stay in their slots when requests move; a request that comes back goes on."""

    def follow(self, update: BatchUpdate | None) -> None:
        """Only new requests change a slot."""
        if update is not None:
            for r, params, _, output in update.added:
                self.drawn[r], self.seeds[r] = len(output), params.seed

    def of_slot(self, r: int, seed: int) -> float:
        """The next number of the stream that the slot holds."""
        held = self.seeds.get(r)
        return _own(seed if held is None else held, self.drawn.get(r, 0))


FAULTS = (
    Fault(
        name="offset-frozen",
        about="requests without a seed get the same noise at every step",
        report="NVIDIA/TensorRT-Edge-LLM issue 211",
        group="F8",
        clauses=("DRAW04", "SEED05"),
        noise=_frozen,
    ),
    Fault(
        name="one-seed-all-rows",
        about="all rows of a batch get the same noise",
        report="tenstorrent/tt-metal issue 44661",
        group="F8",
        clauses=("DRAW03", "SEED05", "SEED06", "SEED02", "DRAW01"),
        noise=_first_for_all,
    ),
    Fault(
        name="seed-ignored",
        about="seeds have no effect",
        report="ml-explore/mlx-lm PR 1620",
        group="F8",
        clauses=("SEED01", "SEED02", "SEED04"),
        noise=_unseeded,
    ),
    Fault(
        name="seed-lost-beside-none",
        about="seeds have no effect beside a request without one",
        report="vllm-project/vllm issue 51226",
        group="F8",
        clauses=("SEED02", "SEED04"),
        noise=_unseeded_beside_unseeded,
    ),
    Fault(
        name="seed-step-frozen",
        about="a seeded request gets the same noise at every step",
        report="NVIDIA/Megatron-LM PR 5697",
        group="F8",
        clauses=("SEED03",),
        noise=_at_step_zero,
    ),
    Fault(
        name="unseeded-shared-stream",
        about="requests without a seed share one stream",
        report="NVIDIA/TensorRT-LLM issue 19487",
        group="F8",
        clauses=("SEED05", "DRAW03", "DRAW04", "DRAW01"),
        noise=_by_step_alone,
    ),
    Fault(
        name="seed-32-bit",
        about="only the lower 32 bits of a seed count",
        report="numpy/numpy PR 4676",
        group="F8",
        clauses=("SEED07", "SEED06"),
        requests=_reseeded(lambda seed, r, batch: seed % 2**SEED_BITS),
    ),
    Fault(
        name="seed-of-last-row",
        about="the seed of the last row decides all seeded rows",
        report="lablup/mlxcel PR 356",
        group="F8",
        clauses=("SEED02", "SEED04"),
        requests=_reseeded(_last_seed),
    ),
    Fault(
        name="seed-salted-by-row",
        about="the row is mixed into the seed",
        report="tenstorrent/tt-metal issue 53802",
        group="F8",
        clauses=("SEED04", "SEED02"),
        requests=_reseeded(lambda seed, r, batch: seed + r),
    ),
    Fault(
        name="seed-first-row-apart",
        about="the first row of a batch draws from another stream than the rest",
        report="InternLM/lmdeploy issue 2459",
        group="F8",
        clauses=("SEED04", "SEED02"),
        requests=_reseeded(lambda seed, r, batch: seed + (r == 0 and len(batch) > 1)),
    ),
    Fault(
        name="seed-restarts",
        about="a seeded request that comes back after preemption starts its noise anew",
        report="vllm-project/vllm PR 19940",
        group="F8",
        clauses=("SEED02", "STATE06"),
        backend=StreamsOfSlots,
    ),
    Fault(
        name="seed-stays-in-slot",
        about="the noise of seeded requests stays in its row when requests move",
        report="tenstorrent/tt-metal issue 46350",
        group="F8",
        clauses=("SEED02", "STATE06"),
        backend=StreamsStay,
    ),
)
