"""Rows and batches for the tests of the sampler."""

import math

import torch

from aliquot.contract.batch import Batch, Request
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import CANONICAL
from aliquot.fast.sampler import Sampler

NEG = -math.inf
WIDE = 20_000
P = SamplingParams


def logits_of(probs):
    """Float32 logs of probabilities, one row; 0 becomes -inf."""
    return torch.tensor(probs, dtype=torch.float64).log().float()


def spread(row):
    """The row's tokens at the same ids in a vocabulary of 20,000, the rest masked."""
    wide = torch.full((WIDE,), NEG)
    wide[: len(row)] = torch.as_tensor(row)
    return wide


def batch_of(params, vocab_size, outputs=None, prompts=None, **options):
    """A batch with one request for each of `params`."""
    count = len(params)
    outputs = outputs or [[] for _ in range(count)]
    prompts = prompts or [()] * count
    requests = [
        Request(
            id=f"r{i}", params=params[i], output_token_ids=outputs[i], prompt_token_ids=prompts[i]
        )
        for i in range(count)
    ]
    return Batch(requests=requests, vocab_size=vocab_size, **options)


def run(rows, *params, u=None, profile=CANONICAL, sampler=None, **options):
    """Sample once; `u` replaces every noise value."""
    rows = rows if isinstance(rows, torch.Tensor) else torch.tensor(rows)
    hook = None if u is None else lambda kind, values: torch.full_like(values, u)
    sampler = sampler or Sampler(profile=profile, seed=1, noise_hook=hook)
    return sampler.sample(rows, batch_of(params, rows.shape[1], **options))


def tokens(rows, *params, **options):
    """The sampled ids as a list."""
    return run(rows, *params, **options).sampled_token_ids.flatten().tolist()


def after_filters(rows, *params, **options):
    """The processed logits, `[n, V]`."""
    first = SamplingParams(**{**vars(params[0]), "logprobs": -1})
    output = run(rows, first, *params[1:], logprobs_mode="processed_logits", **options)
    return output.logprobs.values


def support(row, params, **options):
    """Ids that the filters leave of one row."""
    kept = after_filters(torch.as_tensor(row).unsqueeze(0).clone(), params, **options)[0] > NEG
    return kept.nonzero().flatten().tolist()
