"""transformers' logits processors, softmax and multinomial as a backend, as `generate` chains them."""

from importlib.metadata import version
from typing import Any

import torch
import transformers
from torch import Tensor

from aliquot.conformance.backend import Capabilities
from aliquot.contract.batch import Batch, Request
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import Profile


class TransformersBackend:
    """Each row on its own: processors, then argmax or one draw from the softmax."""

    capabilities = Capabilities(
        name="transformers",
        version=version("transformers"),
        dtypes=("float32",),
        parameters=frozenset(
            {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "logprobs"}
        ),
        logprobs_modes=("processed_logits",),
        accuracy="float32-lanes",
        profile=Profile(
            topp_ties="any_ids", minp_order="after_filters", logprobs="raw",
            bad_row="error", topp_exact="stop",
        ),
    )  # fmt: skip

    def reseed(self, seed: int) -> None:
        """`generate` draws from torch's default generator."""
        torch.manual_seed(seed)

    def sample(self, logits: Tensor, batch: Batch) -> SamplerOutput:
        """Sample one token per row."""
        rows = [self._row(row, q) for row, q in zip(logits.float(), batch.requests, strict=True)]
        ids = torch.tensor([token for token, _ in rows], dtype=torch.int64).reshape(-1, 1)
        if not batch.wants_logprobs:
            return SamplerOutput(sampled_token_ids=ids)
        return SamplerOutput(
            sampled_token_ids=ids,
            logprobs=_reported(torch.stack([row for _, row in rows]), ids, batch),
        )

    def _row(self, row: Tensor, request: Request) -> tuple[int, Tensor]:
        ids = torch.tensor([[*(request.prompt_token_ids or ()), *request.output_token_ids]])
        scores = row.unsqueeze(0)
        for processor in processors(request.params.effective()):
            scores = processor(ids.long(), scores)
        if request.params.greedy:
            return int(scores.argmax()), scores[0]
        return int(torch.multinomial(scores.softmax(-1), 1)), scores[0]


def processors(p: SamplingParams) -> list[Any]:
    """The processors that `generate` would build for these parameters, in its order."""
    wanted = (
        (p.repetition_penalty != 1, "RepetitionPenaltyLogitsProcessor", p.repetition_penalty),
        (not p.greedy and p.temperature != 1, "TemperatureLogitsWarper", p.temperature),
        (p.top_k > 0, "TopKLogitsWarper", p.top_k),
        (p.top_p < 1, "TopPLogitsWarper", p.top_p),
        (p.min_p > 0, "MinPLogitsWarper", p.min_p),
    )
    return [getattr(transformers, name)(value) for on, name, value in wanted if on]


def _reported(rows: Tensor, ids: Tensor, batch: Batch) -> Logprobs:
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
