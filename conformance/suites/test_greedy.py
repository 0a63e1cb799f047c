"""GREEDY and TEMP: rows that take the maximum, and division before the draw."""

from typing import Any

import numpy as np
import pytest

from aliquot.conformance.case import Case, named, row, stacked
from aliquot.conformance.corpus.crafted import SIZES, real_cases, tied
from aliquot.conformance.judge import Judge

GREEDY: dict[str, Any] = {"temperature": 0.0}


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 9.9e-6])
def test_GREEDY01_below_the_limit(judge: Judge, temperature: float) -> None:
    """Temperatures below 1e-5 take the argmax."""
    judge.greedy(row("close", [1.0, 1.25, 1.125], temperature=temperature))


@pytest.mark.parametrize("case", real_cases("prompts_f32", 12, **GREEDY), ids=str)
def test_GREEDY01_argmax_identity_on_real_rows(judge: Judge, case: Case) -> None:
    """The argmax of a language model's logits is taken."""
    judge.greedy(case)


@pytest.mark.parametrize("case", real_cases("decode_bf16", 24, **GREEDY), ids=str)
def test_GREEDY02_real_bfloat16_rows(judge: Judge, case: Case) -> None:
    """Rows in bfloat16, some with two equal maxima, give the lowest id."""
    judge.greedy(case)


@pytest.mark.parametrize("vocab", SIZES)
def test_GREEDY02_lowest_id_among_equals(judge: Judge, vocab: int) -> None:
    """Among many equal maxima the lowest id is taken."""
    judge.greedy(row(f"V = {vocab}", tied(vocab, 1), **GREEDY))


@pytest.mark.parametrize(
    "filters",
    [{"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"top_k": 2, "top_p": 0.5}],
    ids=named,
)
def test_GREEDY03_filters_of_greedy_requests_have_no_effect(
    judge: Judge, filters: dict[str, Any]
) -> None:
    """A greedy row ignores top_k, top_p and min_p, also beside a random row that uses them."""
    greedy = row("greedy", [0.0, 3.0, 3.0, 1.0], **GREEDY, **filters)
    judge.greedy(greedy)
    judge.greedy(stacked("mixed", greedy, row("random", [0.0, 3.0, 3.0, 1.0], **filters)))


MIXED = stacked(
    "greedy, random, greedy, random",
    row("greedy", [0.0, 1.0, 0.5, -1.0], **GREEDY),
    row("warm", [0.0, 1.0, 0.5, -1.0], temperature=1.5),
    row("masked greedy", [4.0, 1.0, 0.5, -1.0], allowed_token_ids=[2, 3], **GREEDY),
    row("cut", [0.0, 1.0, 0.5, -1.0], temperature=0.7, top_k=2),
)


def test_GREEDY04_mixed_batches(judge: Judge) -> None:
    """Greedy rows take their argmax and random rows stay inside their own support."""
    judge.greedy(MIXED)
    judge.filters(MIXED)


@pytest.mark.statistical
def test_GREEDY04_random_rows_of_a_mixed_batch_keep_their_law(judge: Judge) -> None:
    """Random rows beside greedy ones follow their own law."""
    judge.law(MIXED)


@pytest.mark.parametrize(
    "params",
    [
        {"allowed_token_ids": [3]},
        {"bad_words": [(0,)]},
        {"min_tokens": 1, "eos_token_id": 0},
        {"logit_bias": {2: 9.0}},
    ],
    ids=named,
)
def test_GREEDY05_masks_come_first(judge: Judge, params: dict[str, Any]) -> None:
    """Masks and bias act before the argmax."""
    judge.greedy(row("four", [4.0, 3.0, 2.0, 1.0], **GREEDY, **params))


@pytest.mark.statistical
@pytest.mark.parametrize("temperature", [0.25, 0.7, 2.0, 5.0])
def test_TEMP01_logits_are_divided_once(judge: Judge, temperature: float) -> None:
    """The law at temperature T is the softmax of logits / T."""
    case = row("five", [2.0, 0.0, -1.0, 1.0, 0.5], temperature=temperature)
    judge.filters(case)
    judge.law(case)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_TEMP01_before_the_filters(judge: Judge, temperature: float) -> None:
    """The nucleus is taken on the law at temperature T."""
    judge.filters(row("three", [3.0, 2.0, 1.0], top_p=0.8, temperature=temperature))


@pytest.mark.parametrize("case", real_cases("prompts_f32", 4, temperature=0.8), ids=str)
def test_TEMP01_real_rows(judge: Judge, case: Case) -> None:
    """Temperature on logits of a language model."""
    judge.filters(case)


def test_TEMP02_greedy_rows_divide_by_one(judge: Judge) -> None:
    """A masked greedy row beside a random one stays finite where it was, and masked where it was."""
    case = stacked(
        "masked greedy beside random",
        row("greedy", [1.0, -np.inf, 0.0], **GREEDY),
        row("random", [1.0, -np.inf, 0.0], temperature=0.5),
    )
    judge.greedy(case)
    judge.processed(case)


@pytest.mark.parametrize("temperature", [1e-5, 1e-3, 0.01])
def test_TEMP03_temperatures_near_the_limit(judge: Judge, temperature: float) -> None:
    """A temperature from 1e-5 up is used as given, without overflow."""
    judge.filters(row("close", [1.0, 1.0 + 2.0**-10, -50.0, 80.0], temperature=temperature))


def test_TEMP04_no_overflow_in_16_bits(judge: Judge) -> None:
    """A logit of 7000 in float16 survives a temperature of 0.1."""
    judge.filters(row("large", [7000.0, 6996.0, 0.0], dtype="float16", temperature=0.1))
