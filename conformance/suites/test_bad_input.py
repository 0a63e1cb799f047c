"""ERR: refusals of parameters and containment of bad rows."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aliquot.conformance import arrays
from aliquot.conformance.case import named, row, stacked
from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.judge import Judge

REFUSED: list[tuple[str, str, list[Any]]] = [
    ("ERR01", "temperature", [-0.1, math.nan, math.inf]),
    ("ERR02", "top_p", [0.0, -0.5, 1.0001, math.nan]),
    ("ERR03", "top_k", [-2, 1.5]),
    ("ERR04", "min_p", [-0.01, 1.01, math.nan]),
    ("ERR05", "repetition_penalty", [0.0, -1.0, math.inf, math.nan]),
    ("ERR06", "frequency_penalty", [-2.01, 2.01, math.nan]),
    ("ERR06", "presence_penalty", [-2.01, 2.01, math.nan]),
    ("ERR07", "min_tokens", [-1]),
    ("ERR08", "logprobs", [-2]),
    ("ERR09", "stop_token_ids", [(4,), (-1,)]),
    ("ERR09", "allowed_token_ids", [(0, 4), (-1,)]),
    ("ERR09", "logit_bias", [{4: 1.0}, {-1: 1.0}]),
    ("ERR09", "bad_words", [((0, 4),), ((-1,),)]),
    ("ERR09", "logprob_token_ids", [(4,), (-1,)]),
    ("ERR10", "allowed_token_ids", [()]),
    ("ERR10", "bad_words", [((),)]),
    ("ERR11", "thinking_token_budget", [-1]),
    ("ERR12", "seed", [2**63, -(2**63) - 1, 0.5]),
    ("ERR13", "logit_bias", [{0: math.nan}, {0: math.inf}]),
]
EACH_REFUSED: list[tuple[str, str, list[Any]]] = [
    (clause, name, value) for clause, name, values in REFUSED for value in values
]


@pytest.mark.parametrize(
    ("clause", "name", "value"), EACH_REFUSED, ids=[f"{c}-{n}={v}" for c, n, v in EACH_REFUSED]
)
def test_ERR15_parameters_are_refused(judge: Judge, clause: str, name: str, value: Any) -> None:
    """A parameter outside its range is refused, naming request and field."""
    judge.clause_ids = (clause, "ERR15")
    judge.refuses(row("r7", [3.0, 2.0, 1.0, 0.0], **{name: value}), name)


@pytest.mark.parametrize(("rows", "vocab"), [(1, 4), (3, 4), (2, 3), (2, 5)])
def test_ERR14_shapes_that_disagree(judge: Judge, rows: int, vocab: int) -> None:
    """Logits with more or fewer rows or columns than the batch are refused."""
    case = stacked("two rows", row("a", [3.0, 2.0, 1.0, 0.0]), row("b", [0.0, 1.0, 2.0, 3.0]))
    other = replace(case, logits=np.zeros((rows, vocab), np.float32))
    judge.refuses_shape(case, arrays.logits_for(other, judge.session.capabilities))


BAD_ROWS = {
    "NaN": [0.0, math.nan, 3.0, 1.0],
    "all NaN": [math.nan] * 4,
    "+inf": [0.0, math.inf, 1.0, 2.0],
    "nothing": [-math.inf] * 4,
}


@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize(
    "params", [{}, {"top_k": 2, "top_p": 0.8}, {"temperature": 0.0}], ids=named
)
def test_ERR16_ERR17_ERR18_bad_rows_harm_no_other(
    judge: Judge, bad: str, params: dict[str, Any]
) -> None:
    """A bad row is an error that names it, or an id in range, and its neighbours keep their support."""
    good = row(
        "good", [0.0, 0.0, 9.0, 0.0], top_k=1, **{k: v for k, v in params.items() if k != "top_k"}
    )
    judge.contained(stacked(f"{bad} between", good, row(bad, BAD_ROWS[bad], **params), good), 1)


@pytest.mark.parametrize("place", ["alone", "first", "last"])
def test_ERR16_ERR17_bad_rows_at_the_ends(judge: Judge, place: str) -> None:
    """A bad row alone, first or last in its batch, with logprobs asked for and penalties beside it."""
    good = row("good", [0.0, 1.0, 9.0, 0.0], top_k=1, output=[1], presence_penalty=1.0)
    bad = row("bad", BAD_ROWS["NaN"], output=[2], presence_penalty=1.0)
    rows = {"alone": [bad], "first": [bad, good, good], "last": [good, good, bad]}[place]
    case = stacked(f"bad row {place}", *rows).asking("raw_logprobs", logprobs=2)
    judge.contained(case, rows.index(bad))


def test_ERR16_masks_that_leave_nothing(judge: Judge) -> None:
    """An allow-list whose only token is a bad word leaves nothing, and harms no other row."""
    good = row("good", [0.0, 0.0, 9.0, 0.0], top_k=1)
    empty = row("empty", [3.0, 2.0, 1.0, 0.0], allowed_token_ids=[2], bad_words=[(2,)])
    judge.contained(stacked("nothing left", good, empty, good), 1)


@pytest.mark.statistical
def test_ERR17_neighbours_keep_their_law(judge: Judge) -> None:
    """The law of a good row is the same beside a row of NaN."""
    good = row("good", normal(32, 41))
    case = stacked("good beside NaN", good, row("NaN", np.full(32, np.nan)))
    if judge.session.capabilities.profile.bad_row == "error":
        judge.law(replace(good, name="good alone, bad rows being errors"))
    else:
        judge.law_beside_bad(case, 1)


WIDE = normal(33, 42)
EXTREMES: tuple[dict[str, Any], ...] = (
    {"temperature": 1e-45},
    {"temperature": 1e30},
    {"top_k": 2**31},
    {"top_p": 1e-30},
    {"min_p": 1e-30},
    {"repetition_penalty": 1e20},
    {"repetition_penalty": 1e-20},
    {"logit_bias": {0: 1e308, 1: -1e308}},
    {"min_tokens": 2**40, "eos_token_id": 3, "stop_token_ids": tuple(range(32))},
    {"bad_words": tuple((5, 6, i) for i in range(32)) * 20},
    {"seed": 2**63 - 1},
    {"seed": -(2**63)},
)


@pytest.mark.parametrize("params", EXTREMES, ids=lambda params: ",".join(params))
def test_ERR18_legal_extremes(judge: Judge, params: dict[str, Any]) -> None:
    """Parameters at the far ends of what is allowed act by the same rules."""
    case = row("extreme", WIDE, prompt=[2], output=[5, 6], **params)
    judge.accepts(case)
    if case.requests[0].params.greedy:
        judge.greedy(case)
    else:
        judge.filters(case)


@pytest.mark.parametrize("odd", [-7, 10**6, 2**31], ids=str)
def test_ERR17_ERR18_ids_in_histories_that_no_vocabulary_has(judge: Judge, odd: int) -> None:
    """An id in a history that is neither a token nor padding harms no other row and crashes nothing."""
    penalties: dict[str, Any] = {"repetition_penalty": 2.0, "presence_penalty": 1.0}
    good = row("good", [0.0, 9.0, 8.0, 7.0], top_k=1, prompt=[3], output=[2], **penalties)
    strange = row("strange", [3.0, 2.0, 1.0, 0.0], prompt=[odd], output=[1, odd], **penalties)
    judge.survives(stacked("strange between", good, strange, good), 1)
