"""DRAW: the law of the draws, replayed and injected noise."""

from typing import Any

import numpy as np
import pytest

from aliquot.conformance.case import Case, from_probs, named, row
from aliquot.conformance.corpus.crafted import normal, real_cases, tied
from aliquot.conformance.judge import Judge

SKEWED = from_probs([0.6, 0.3, 0.1])


@pytest.mark.statistical
@pytest.mark.parametrize(
    "case",
    [
        row("three tokens", SKEWED),
        row("64 tokens", normal(64, 1)),
        row("64 tokens, steep", normal(64, 2, 4.0)),
        row("levels", tied(257, 3)),
        row("1000 tokens", normal(1000, 4, 2.0)),
        row("bias", np.zeros(8), logit_bias={1: 2.0, 2: 2.0, 5: -1.5}),
        row("penalties", np.full(8, 2.0), prompt=[6], output=[1, 1, 1, 2], presence_penalty=1.0,
            frequency_penalty=0.5, repetition_penalty=2.0),
    ],
    ids=str,
)  # fmt: skip
def test_DRAW01_the_law(judge: Judge, case: Case) -> None:
    """Draws follow the softmax of the row."""
    judge.law(case)


REAL = [*real_cases("prompts_f32", 3), *real_cases("decode_bf16", 2, temperature=0.8, top_p=0.95)]


@pytest.mark.statistical
@pytest.mark.parametrize("case", REAL, ids=str)
def test_DRAW01_the_law_of_real_rows(judge: Judge, case: Case) -> None:
    """Draws from logits of a language model follow their law."""
    judge.law(case)


REPLAYED = [
    row("1000 tokens", normal(1000, 14, 3.0)),
    row("V = 128,256", normal(128_256, 15)),
    row("V = 128,256, filtered", normal(128_256, 16, 2.0), top_k=200, top_p=0.95, temperature=0.9),
    *real_cases("prompts_f32", 1, temperature=0.8),
]


@pytest.mark.parametrize("case", REPLAYED, ids=str)
def test_DRAW01_DRAW09_replay(judge: Judge, case: Case) -> None:
    """With the sampler's own noise the oracle draws the same tokens, but for rounding."""
    judge.replays(case)


FORBIDDEN = {
    "masked ends": row("masked ends", [0.0] * 6, allowed_token_ids=[2, 3]),
    "top-k": row("top-k", [0.0, 5.0, 4.0, 0.0], top_k=2),
    "far below": row("far below", [-600.0, 0.0, -600.0], top_p=0.9),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_DRAW05_extreme_noise(judge: Judge, name: str) -> None:
    """Noise of exactly 0, of 1 and next to them yields no masked token."""
    judge.extremes(FORBIDDEN[name])


@pytest.mark.parametrize(
    "params", [{"allowed_token_ids": [2, 3]}, {"top_k": 2}, {"min_p": 0.9}], ids=named
)
def test_DRAW02_only_kept_tokens(judge: Judge, params: dict[str, Any]) -> None:
    """A removed token is never drawn."""
    judge.support(row("five", [3.0, 2.9, 2.0, 2.8, 1.0], **params), 2000)


@pytest.mark.statistical
def test_DRAW07_logprobs_do_not_disturb(judge: Judge) -> None:
    """Asking for logprobs changes neither the support nor a seeded token."""
    case = row("narrow", normal(64, 9), min_p=1.0)
    judge.filters(case.asking("raw_logprobs", logprobs=10))
    seeded = row("seeded", normal(64, 9), seed=7)
    judge.supports(seeded)
    plain = judge.answer(seeded).ids[0]
    asked = judge.answer(seeded.asking("raw_logprobs", logprobs=10)).ids[0]
    judge.equal(seeded, 0, "with logprobs the same id", plain, asked)


@pytest.mark.statistical
def test_DRAW06_the_far_tail_is_reached(judge: Judge) -> None:
    """Tokens far below the best are drawn at their rate."""
    judge.tail()


def test_DRAW08_float64_noise(judge: Judge) -> None:
    """Noise in float64 draws a token 25 nats below the best when it says so."""
    judge.fine_noise()
