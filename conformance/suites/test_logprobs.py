"""LOGP and RANK: what is reported beside the tokens."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import normal, real_cases, tied
from aliquot.conformance.judge import Judge
from aliquot.contract.batch import LOGPROBS_MODES, LogprobsMode

CHANGED: dict[str, dict[str, Any]] = {
    "penalties": {"presence_penalty": 2.0, "repetition_penalty": 1.5, "frequency_penalty": 1.0},
    "bias": {"logit_bias": {0: -5.0, 2: 3.0}},
    "temperature": {"temperature": 0.5},
    "masks": {"allowed_token_ids": [1, 2], "bad_words": [(1,)]},
    "min tokens": {"min_tokens": 5, "eos_token_id": 0},
    "filters": {"top_k": 1, "top_p": 0.5, "min_p": 0.5},
}


def test_LOGP01_none_asked_none_returned(judge: Judge) -> None:
    """Without a request for logprobs none are returned."""
    case = row("four", [3.0, 2.0, 1.0, 0.0])
    judge.equal(case, 0, "no logprobs:", True, judge.answer(case).logprobs is None)


@pytest.mark.parametrize("case", real_cases("prompts_f32", 4), ids=str)
def test_LOGP02_LOGP04_raw_values_of_real_rows(judge: Judge, case: Case) -> None:
    """Raw logits are the input and raw logprobs its log-softmax."""
    judge.raw(case)


@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "random"])
@pytest.mark.parametrize("change", CHANGED)
def test_LOGP03_raw_values_never_change(judge: Judge, change: str, temperature: float) -> None:
    """Penalties, bias, masks, temperature and filters leave raw values as they were."""
    params = {"temperature": temperature, **CHANGED[change]}
    case = row(change, [3.0, 2.0, 1.0, 0.0], prompt=[1], output=[0, 0, 2], **params)
    judge.raw(case)
    judge.reported(case.asking("raw_logprobs", logprobs=2))
    judge.reported(case.asking("raw_logprobs", logprob_token_ids=[0, 2]))


@pytest.mark.parametrize("temperature", [0.0, 0.7], ids=["greedy", "random"])
@pytest.mark.parametrize("mode", ["processed_logits", "processed_logprobs"])
def test_LOGP05_processed_values(judge: Judge, mode: LogprobsMode, temperature: float) -> None:
    """Processed values show the row after the filters, greedy ones after the penalties."""
    case = row("eight", normal(8, 1), output=[1, 1], presence_penalty=1.0, top_k=4,
               temperature=temperature)  # fmt: skip
    judge.processed(case)
    judge.reported(case.asking(mode, logprobs=3))


@pytest.mark.parametrize("mode", LOGPROBS_MODES)
@pytest.mark.parametrize("number", [1, 3, 20])
def test_LOGP06_LOGP07_sampled_first_then_the_largest(
    judge: Judge, number: int, mode: LogprobsMode
) -> None:
    """Column 0 is the sampled token, then the largest values in descending order."""
    case = stacked("two rows", row("normal", normal(64, 2)), row("levels", tied(64, 5)))
    judge.reported(case.asking(mode, logprobs=number))


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs"])
@pytest.mark.parametrize("vocab", [257, 10_111])
def test_LOGP07_IO08_more_than_the_tokens_that_stay(
    judge: Judge, vocab: int, mode: LogprobsMode
) -> None:
    """Beside the one token above -inf, the columns hold others of the row, each once."""
    one = np.full(vocab, -np.inf, dtype=np.float32)
    one[100] = 1.0
    case = stacked("two rows", row("masked", one), row("cut", normal(vocab, 12), top_k=1))
    for number in (2, 3, 20):
        judge.reported(case.asking(mode, logprobs=number))


def test_LOGP08_zero_is_the_sampled_token(judge: Judge) -> None:
    """logprobs = 0 returns one column."""
    judge.reported(row("normal", normal(64, 3)).asking("raw_logprobs", logprobs=0))


def test_LOGP09_the_whole_row(judge: Judge) -> None:
    """logprobs = -1 returns all V values in id order."""
    judge.reported(row("normal", normal(64, 4)).asking("raw_logprobs", logprobs=-1))


@pytest.mark.parametrize("mode", LOGPROBS_MODES)
def test_LOGP10_LOGP11_explicit_ids(judge: Judge, mode: LogprobsMode) -> None:
    """The sampled token first, then the ids asked for, shorter lists padded with -inf."""
    case = stacked(
        "three lists",
        row("three ids", normal(16, 5), logprob_token_ids=[9, 2, 4]),
        row("one id", normal(16, 6), logprob_token_ids=[0]),
        row("no list", normal(16, 7)),
    )
    judge.reported(replace(case, mode=mode))


def test_LOGP12_explicit_ids_win(judge: Judge) -> None:
    """A list of ids takes precedence over a number of logprobs."""
    judge.reported(row("both", normal(16, 8), logprob_token_ids=[3, 1], logprobs=5))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_LOGP13_given_tokens(judge: Judge, dtype: str) -> None:
    """Logprobs and ranks of given tokens, ties included, follow the rules of sampled ones."""
    rows = [row(f"row {i}", tied(64, i), dtype=dtype) for i in range(5)]
    judge.given(stacked("prompt", *rows), [0, 63, 7, 31, 32])


@pytest.mark.parametrize("mode", LOGPROBS_MODES)
def test_RANK01_RANK02_RANK03_ties_share_the_worse_rank(judge: Judge, mode: LogprobsMode) -> None:
    """The rank counts the tokens whose value is at least the sampled one's, in the mode's values."""
    case = stacked(
        "ties",
        row("pairs", [2.0, 2.0, 1.0, 1.0, 0.0], temperature=2.0),
        row("flat", np.zeros(5), logit_bias={1: 0.5}),
        row("greedy", [1.0, 1.0, 1.0, 0.0, 0.0], temperature=0.0),
    )
    judge.reported(case.asking(mode, logprobs=1))


@pytest.mark.parametrize("corpus", ["prompts_f32", "decode_bf16"])
def test_LOGP06_LOGP07_RANK01_real_rows(judge: Judge, corpus: str) -> None:
    """Twenty logprobs and the rank on logits of a language model."""
    for case in real_cases(corpus, judge.session.tier.real_rows, temperature=0.9):
        judge.reported(case.asking("raw_logprobs", logprobs=20))
