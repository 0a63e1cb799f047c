"""Inputs and requests of the sampler benchmark."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from aliquot.contract.batch import Batch, Request
from aliquot.contract.params import SamplingParams

PROMPT, OUTPUT = 512, 256
P = SamplingParams


@dataclass(frozen=True)
class Case:
    """What every row asks for; `mixed` lets row r take entry r of `params` in turn."""

    name: str
    params: tuple[SamplingParams, ...]
    histories: bool = False


@dataclass(frozen=True)
class Input:
    """Named logits, float32 `[n, V]`."""

    name: str
    logits: Tensor = field(repr=False)


PENALTIES = {"repetition_penalty": 1.2, "frequency_penalty": 0.1, "presence_penalty": 0.1}
MIXED = (
    P(temperature=0.0, logit_bias={7: 2.0}),
    P(temperature=0.8, top_k=50, top_p=0.9, logprobs=5),
    P(top_p=0.9, seed=1),
    P(min_p=0.05, temperature=1.3),
    P(top_k=50, **PENALTIES),
    P(top_p=0.95, **PENALTIES),
    P(),
    P(temperature=0.7, seed=1),
    P(min_tokens=OUTPUT + 1, stop_token_ids=[2]),
    P(top_k=50, bad_words=[[3], [4, 5]]),
    P(top_p=0.9, allowed_token_ids=range(1000)),
    P(top_k=1000, top_p=0.99),
)
CASES = (
    Case("greedy", (P(temperature=0.0),)),
    Case("unfiltered", (P(),)),
    Case("temperature 0.8", (P(temperature=0.8),)),
    Case("top-k 50", (P(top_k=50),)),
    Case("top-p 0.9", (P(top_p=0.9),)),
    Case("top-p 0.999", (P(top_p=0.999),)),
    Case("top-k 50, top-p 0.9", (P(top_k=50, top_p=0.9),)),
    Case("min-p 0.05", (P(min_p=0.05),)),
    Case("penalties", (P(**PENALTIES),), histories=True),
    Case("20 logprobs, top-k 50, top-p 0.9", (P(top_k=50, top_p=0.9, logprobs=20),)),
    Case("seeds", (P(seed=1),)),
    Case("mixed", MIXED, histories=True),
)


def normal_input(rows: int = 32, vocab_size: int = 128_256, scale: float = 3.0) -> Input:
    """Independent N(0, scale) logits."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, vocab_size, generator=generator) * scale
    return Input(f"N(0,{scale:g}) [{rows}, {vocab_size}]", logits)


def real_input(folder: Path, rows: int = 64) -> Input:
    """Rows of a language model's decode steps from the `.npz` files of `folder`, repeated to `rows`.

    Raises FileNotFoundError if the folder holds none.
    """
    found = [part for path in sorted(folder.glob("*.npz")) for part in _rows_of(path)]
    if not found:
        raise FileNotFoundError(f"corpus {folder}: no .npz file with logits")
    every = torch.cat(found)
    logits = every[torch.arange(rows) % len(every)].contiguous()
    return Input(f"real [{rows}, {logits.shape[1]}]", logits)


def _rows_of(path: Path) -> list[Tensor]:
    with np.load(path) as data:
        arrays = [data[name] for name in data.files]
    return [_float32(a) for a in arrays if a.ndim >= 2 and a.shape[-1] > 1000]


def _float32(array: "np.ndarray") -> Tensor:  # type: ignore[type-arg]
    flat = torch.from_numpy(array.reshape(-1, array.shape[-1]))
    return flat.view(torch.bfloat16).float() if array.dtype == np.uint16 else flat.float()


def batch_for(case: Case, rows: int, vocab_size: int) -> Batch:
    """The requests of a case; histories are fixed pseudo-random tokens."""
    rng = np.random.default_rng(0)
    requests = []
    for row in range(rows):
        params = case.params[row % len(case.params)]
        if params.seed is not None:
            params = P(**{**vars(params), "seed": 1000 + row})
        prompt = rng.integers(0, vocab_size, PROMPT).tolist() if case.histories else []
        output = rng.integers(0, vocab_size, OUTPUT).tolist() if case.histories else []
        requests.append(
            Request(id=str(row), params=params, prompt_token_ids=prompt, output_token_ids=output)
        )
    return Batch(requests=requests, vocab_size=vocab_size)
