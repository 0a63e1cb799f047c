"""INV: relations that hold for every input, seen in the sampler's own answers."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from aliquot.conformance.case import Case, named, row, stacked
from aliquot.conformance.corpus.crafted import normal, tied
from aliquot.conformance.judge import Judge

DYADIC = np.round(normal(200, 51, 3.0) * 8) / 8
FILTERS: tuple[dict[str, Any], ...] = (
    {"top_k": 20},
    {"top_p": 0.7},
    {"min_p": 0.1},
    {"top_k": 50, "top_p": 0.8, "min_p": 0.01},
)


def kept(judge: Judge, case: Case) -> npt.NDArray[np.bool_]:
    """Which tokens the sampler keeps, bool [n, V], in its processed logits."""
    judge.needs("processed_logits")
    judge.supports(case)
    return np.asarray(shown(judge, case.asking("processed_logits", logprobs=-1)) != -np.inf)


def shown(judge: Judge, case: Case) -> npt.NDArray[np.float32]:
    """The whole rows that the sampler shows, float32 [n, V]."""
    values = judge.answer(case).logprobs
    if values is None or values.shape != case.logits.shape:
        judge.fail(case, 0, f"values of shape {list(case.logits.shape)}", "none or another shape")
    return values


def cuts_ties(judge: Judge) -> bool:
    """Whether the backend declares that it separates equal logits."""
    profile = judge.session.capabilities.profile
    return (profile.topk_ties, profile.topp_ties) != ("keep_all", "keep_all")


def same(judge: Judge, case: Case, what: str, first: Any, second: Any) -> None:
    """Fail unless two kept sets are equal, naming the tokens in which they differ."""
    differ = np.flatnonzero(first != second)
    tokens = (differ[:8] % case.vocab_size).tolist()
    judge.equal(case, 0, f"{what}: tokens that differ", [], tokens, tokens)


@pytest.mark.parametrize("params", FILTERS, ids=named)
@pytest.mark.parametrize("shift", [64.0, -512.0])
def test_INV01_shift(judge: Judge, shift: float, params: dict[str, Any]) -> None:
    """Adding a constant that loses no bits keeps the same tokens."""
    case = row("dyadic", DYADIC, **params)
    moved = row("shifted", DYADIC + shift, **params)
    same(judge, case, f"shift by {shift}", kept(judge, case)[0], kept(judge, moved)[0])


@pytest.mark.parametrize("params", FILTERS, ids=named)
def test_INV02_permutation(judge: Judge, params: dict[str, Any]) -> None:
    """Permuting the vocabulary permutes the kept tokens."""
    logits = normal(200, 52) if cuts_ties(judge) else DYADIC
    order = np.random.default_rng(5).permutation(200)
    case, moved = row("row", logits, **params), row("permuted", logits[order], **params)
    same(judge, case, "permuted", kept(judge, case)[0][order], kept(judge, moved)[0])


@pytest.mark.parametrize("size", [2, 9, 64])
def test_INV03_INV08_alone_or_in_a_batch(judge: Judge, size: int) -> None:
    """A row keeps the same tokens alone, in a batch and in half of it."""
    rows = [row(f"row {i}", normal(200, 60 + i), **FILTERS[i % 4]) for i in range(size)]
    whole = kept(judge, stacked(f"batch of {size}", *rows))
    halves = [
        kept(judge, stacked("half", *rows[: size // 2])),
        kept(judge, stacked("half", *rows[size // 2 :])),
    ]
    same(judge, rows[0], "in halves", whole.ravel(), np.concatenate(halves).ravel())
    same(judge, rows[0], "alone", whole[0], kept(judge, rows[0])[0])
    same(judge, rows[-1], "alone", whole[-1], kept(judge, rows[-1])[0])


GROWING: tuple[tuple[str, str, list[float]], ...] = (
    ("INV04", "top_k", [1, 2, 3, 10, 50, 199]),
    ("INV05", "top_p", [0.01, 0.3, 0.5, 0.9, 0.99]),
    ("INV06", "min_p", [1.0, 0.5, 0.1, 0.01, 0.001]),
)


@pytest.mark.parametrize(("clause", "name", "values"), GROWING, ids=[g[1] for g in GROWING])
def test_INV04_INV05_INV06_a_weaker_filter_keeps_more(
    judge: Judge, clause: str, name: str, values: list[float]
) -> None:
    """A larger k, a larger p and a smaller min_p never shrink the support."""
    judge.clause_ids = (clause,)
    for logits in (normal(200, 71), *([] if cuts_ties(judge) else [tied(200, 72)])):
        cases: list[Any] = [{name: value} for value in values]
        found = [kept(judge, row(f"{params}", logits, **params))[0] for params in cases]
        for smaller, larger in itertools.pairwise(found):
            lost = np.flatnonzero(smaller & ~larger)
            judge.equal(row(name, logits), 0, "tokens lost", [], lost[:8].tolist(), lost[:8])


def test_INV07_falling_temperature(judge: Judge) -> None:
    """A lower temperature never lowers the top token's probability."""
    judge.needs("processed_logprobs")
    tops = []
    for temperature in (4.0, 2.0, 1.0, 0.7, 0.3, 0.1):
        case = row(f"T = {temperature}", normal(200, 73), temperature=temperature)
        judge.supports(case)
        tops.append(float(shown(judge, case.asking("processed_logprobs", logprobs=-1)).max()))
    judge.equal(case, 0, "top logprobs in order", sorted(tops), tops)


@pytest.mark.parametrize("params", FILTERS, ids=named)
def test_INV09_upper_set(judge: Judge, params: dict[str, Any]) -> None:
    """No kept logit is below a dropped one."""
    for logits in (normal(1000, 74, 3.0), tied(1000, 75)):
        case = row("row", logits, **params)
        found = kept(judge, case)[0]
        dropped = logits[~found].max(initial=-np.inf)
        judge.equal(
            case, 0, "kept logits below a dropped one:", 0, int((logits[found] < dropped).sum())
        )


@pytest.mark.parametrize("p", [0.9, 0.999, 0.9999])
def test_INV10_parameters_as_held(judge: Judge, p: float) -> None:
    """Where p rounded to float32 keeps other tokens than p itself, the rounded one counts."""
    case = row("N(0, 3), V = 32,000", normal(32_000, 76, 3.0), top_p=p)
    judge.filters(replace(case, name=f"{case.name}, p = {p}"))
