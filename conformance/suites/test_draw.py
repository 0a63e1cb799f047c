"""DRAW and SEED: the law of the draws and the noise behind them."""

from typing import Any

import numpy as np
import pytest

from aliquot.conformance.case import Case, from_probs, named, row, stacked
from aliquot.conformance.corpus.crafted import normal, real_cases, tied
from aliquot.conformance.judge import Judge

SKEWED = from_probs([0.6, 0.3, 0.1])
FLAT = np.zeros(4096, dtype=np.float32)


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
    *real_cases("prompts_f32", 2, temperature=0.8),
    *real_cases("decode_bf16", 2, top_p=0.9),
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
def test_DRAW03_rows_do_not_share_noise(judge: Judge) -> None:
    """Equal flat rows in one batch draw different tokens."""
    case = row("flat", FLAT)
    ids = judge.support(stacked("32 flat rows", *[case] * 32), 1)[0]
    _few_repeats(judge, case, ids)


@pytest.mark.statistical
def test_DRAW04_steps_do_not_share_noise(judge: Judge) -> None:
    """A flat row draws different tokens at different steps."""
    case = row("flat", FLAT)
    judge.supports(case)
    judge.answer(case)
    ids = [judge.again(case).ids[0] for _ in range(32)]
    _few_repeats(judge, case, np.array(ids))


def _few_repeats(judge: Judge, case: Case, ids: np.ndarray) -> None:
    """Among m draws of a flat law of V tokens, 12 or more repeats have a chance below 1e-17."""
    repeats = len(ids) - len(np.unique(ids))
    if repeats >= 12:
        judge.fail(case, 0, f"about {len(ids)} different ids in {len(ids)} draws",
                   f"{len(ids) - repeats} different ids", tokens=ids[:4].tolist())  # fmt: skip
    judge.passed("independence", f"{repeats} repeats in {len(ids)} draws of {case.vocab_size}")


def test_DRAW07_logprobs_do_not_disturb(judge: Judge) -> None:
    """Asking for logprobs changes neither the support nor a seeded token."""
    case = row("narrow", normal(64, 9), min_p=1.0)
    judge.filters(case.asking("raw_logprobs", logprobs=10))
    seeded = row("seeded", normal(64, 9), seed=7)
    judge.supports(seeded)
    plain = judge.answer(seeded).ids[0]
    asked = judge.answer(seeded.asking("raw_logprobs", logprobs=10)).ids[0]
    judge.equal(seeded, 0, "with logprobs the same id", plain, asked)


SEEDED = row("seeded", normal(1000, 21), seed=20_240_229)


def test_SEED01_same_seed_same_tokens(judge: Judge) -> None:
    """The same seeded request twice gives the same token, whatever was drawn in between."""
    judge.supports(SEEDED)
    first = judge.answer(SEEDED).ids[0]
    judge.answer(row("other", normal(1000, 22)))
    judge.equal(SEEDED, 0, "the same id", first, judge.answer(SEEDED).ids[0])


@pytest.mark.parametrize("place", [0, 1, 5])
def test_SEED02_whatever_the_batch(judge: Judge, place: int) -> None:
    """A seeded request draws the same token alone and in any row beside others."""
    judge.supports(SEEDED)
    alone = judge.answer(SEEDED).ids[0]
    others = [row(f"other {i}", normal(1000, 30 + i), top_k=i % 3 or 50) for i in range(5)]
    others.insert(place, SEEDED)
    together = judge.answer(stacked("six rows", *others)).ids[place]
    judge.equal(SEEDED, 0, "alone and in a batch the same id", alone, together)


@pytest.mark.statistical
def test_SEED03_steps_differ(judge: Judge) -> None:
    """A seeded request on a flat row draws different tokens as its output grows."""
    flat = row("flat", FLAT, seed=5)
    judge.supports(flat)
    ids = [judge.answer(row("flat", FLAT, seed=5, output=[0] * step)).ids[0] for step in range(32)]
    _few_repeats(judge, flat, np.array(ids))


def test_SEED04_equal_seeds_agree(judge: Judge) -> None:
    """Two requests with equal seeds, parameters and logits in one batch draw equal tokens."""
    case = stacked("twice", SEEDED, row("between", normal(1000, 23)), SEEDED)
    judge.supports(case)
    ids = judge.answer(case).ids
    judge.equal(case, 0, "equal ids", ids[0], ids[2])


@pytest.mark.statistical
def test_SEED05_requests_without_a_seed(judge: Judge) -> None:
    """A request without a seed neither follows a seeded neighbour nor repeats because of one."""
    seeded = [row("seeded", FLAT, seed=s * 7919) for s in range(1, 12)]
    case = stacked("seeded and not", row("free", FLAT), *seeded, *[row("free", FLAT)] * 20)
    judge.supports(case)
    ids = [judge.answer(case).ids, *(judge.again(case).ids for _ in range(15))]
    _few_repeats(judge, case, ids[0])
    _few_repeats(judge, case, np.array([step[12] for step in ids]))
    _few_repeats(judge, case, np.array([step[0] for step in ids]))


@pytest.mark.statistical
@pytest.mark.parametrize("bit", [0, 31, 32, 62, 63])
def test_SEED06_SEED07_every_bit_of_the_seed(judge: Judge, bit: int) -> None:
    """Seeds that differ in one bit give different tokens on flat rows."""
    flat = row("flat", FLAT, seed=0)
    judge.supports(flat)
    pairs = [
        (judge.answer(row("flat", FLAT, seed=s)).ids[0],
         judge.answer(row("flat", FLAT, seed=_flipped(s, bit))).ids[0])
        for s in range(1000, 1012)
    ]  # fmt: skip
    same = sum(a == b for a, b in pairs)
    if same > 6:
        judge.fail(flat, 0, "different ids", f"{same} of {len(pairs)} pairs equal")
    judge.passed("independence", f"{same} of {len(pairs)} pairs equal")


def _flipped(seed: int, bit: int) -> int:
    """The signed 64-bit seed with one bit changed."""
    flipped = (seed % 2**64) ^ (1 << bit)
    return flipped - 2**64 if flipped >= 2**63 else flipped
