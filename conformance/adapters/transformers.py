"""transformers' `generate` as a backend: the processors that it builds, then argmax or one multinomial draw."""

from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from torch import Tensor

from aliquot.conformance.backend import Capabilities
from aliquot.contract.batch import PLACEHOLDER, Batch, Request
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import Profile

PARAMETERS = frozenset(
    {
        "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "min_tokens",
        "eos_token_id", "stop_token_ids", "logit_bias", "allowed_token_ids", "bad_words", "logprobs",
    }
)  # fmt: skip


class Generation(transformers.GenerationMixin):  # type: ignore[misc]
    """What `generate` needs of a model to build its processors."""

    config: Any = SimpleNamespace(is_encoder_decoder=False)


class TransformersBackend:
    """Rows that share parameters and history go through one call, as a batch of `generate` does."""

    capabilities = Capabilities(
        name="transformers",
        version=version("transformers"),
        # `generate` converts any logits to float32 before its processors.
        dtypes=("float32", "bfloat16", "float16"),
        # No frequency or presence penalty, no seed or number of logprobs of a single request.
        parameters=PARAMETERS,
        # `output_logits` and `output_scores`.
        logprobs_modes=("raw_logits", "processed_logits"),
        # torch's softmax on the CPU adds in vector lanes.
        accuracy="float32-lanes",
        profile=Profile(
            # TopPLogitsWarper cuts by position in a torch.sort that promises no order of equals.
            topp_ties="any_ids",
            # MinPLogitsWarper comes after TopK and TopP in `generate`'s list.
            minp_order="after_filters",
            # torch.multinomial raises for probabilities that are not numbers.
            bad_row="error",
        ),
    )

    def reseed(self, seed: int) -> None:
        """`generate` draws from torch's default generator."""
        torch.manual_seed(seed)

    def sample(self, logits: Tensor, batch: Batch) -> SamplerOutput:
        """Sample one token per row."""
        torch.set_num_threads(1)
        scores = logits.to(copy=True, dtype=torch.float32)
        ids = torch.empty(len(batch), 1, dtype=torch.int64)
        for rows in _alike(batch):
            request = batch.requests[rows[0]]
            scores[rows] = _processed(scores[rows], request)
            ids[rows, 0] = _drawn(scores[rows], request.params)
        if not batch.wants_logprobs:
            return SamplerOutput(sampled_token_ids=ids)
        shown = logits.float() if batch.logprobs_mode == "raw_logits" else scores
        return SamplerOutput(sampled_token_ids=ids, logprobs=_reported(shown, ids, batch))


def _alike(batch: Batch) -> list[list[int]]:
    """The rows of each kind: the same parameters and the same history."""
    kinds: dict[object, list[int]] = {}
    for r, q in enumerate(batch.requests):
        key = id(q.params), tuple(q.prompt_token_ids or ()), tuple(q.output_token_ids)
        kinds.setdefault(key, []).append(r)
    return list(kinds.values())


def _processed(scores: Tensor, request: Request) -> Tensor:
    """Scores [rows, V] after the processors that `generate` builds for a request."""
    prompt = [t for t in request.prompt_token_ids or () if 0 <= t < scores.shape[1]]
    # Placeholders of an engine that runs ahead are no input of `generate`.
    history = [*prompt, *(t for t in request.output_token_ids if t != PLACEHOLDER)]
    config = _config(request.params, scores.shape[1])
    processors = Generation()._get_logits_processor(config, len(prompt), device="cpu")
    ids = torch.tensor(history, dtype=torch.int64).expand(len(scores), len(history))
    processed: Tensor = processors(ids, scores)
    return processed


def _config(p: SamplingParams, vocab: int) -> Any:
    """The parameters in `generate`'s words; what is off there has no value."""
    config = transformers.GenerationConfig(
        do_sample=not p.greedy,
        temperature=float(p.temperature) if not p.greedy else None,
        top_k=p.top_k if p.top_k > 0 else None,
        top_p=float(p.top_p),
        min_p=float(p.min_p) or None,
        repetition_penalty=float(p.repetition_penalty),
        min_new_tokens=p.min_tokens or None,
        sequence_bias=[[[t], float(b)] for t, b in p.logit_bias.items()] or None,
        bad_words_ids=[list(word) for word in p.bad_words] or None,
    )
    if p.allowed_token_ids is not None:
        config.suppress_tokens = sorted(set(range(vocab)) - set(p.allowed_token_ids)) or None
    config._eos_token_tensor = torch.tensor(p.stop_ids) if p.stop_ids else None
    return config


def _drawn(scores: Tensor, p: SamplingParams) -> Tensor:
    """One token per row [rows], as `generate` takes it."""
    if p.greedy:
        return scores.argmax(-1)
    return torch.multinomial(scores.softmax(-1), num_samples=1).squeeze(1)


def _reported(rows: Tensor, ids: Tensor, batch: Batch) -> Logprobs:
    """Columns and ranks out of the whole rows that `generate` returns."""
    sampled = rows.gather(1, ids)
    ranks = (rows >= sampled).sum(1)
    if batch.max_num_logprobs == -1:
        every = torch.arange(rows.shape[1]).expand(rows.shape)
        return Logprobs(token_ids=every, values=rows, ranks=ranks)
    top = rows.topk(batch.max_num_logprobs or 0, dim=1)
    return Logprobs(
        token_ids=torch.cat([ids, top.indices], 1),
        values=torch.cat([sampled, top.values], 1),
        ranks=ranks,
    )
