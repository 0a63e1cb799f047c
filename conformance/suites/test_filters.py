"""MINP, TOPK, TOPP: which tokens the filters keep."""

from typing import Any

import pytest

from aliquot.conformance.case import Case, from_probs, named, row, stacked
from aliquot.conformance.corpus.crafted import exact_mass_cases, normal, real_cases, tied
from aliquot.conformance.judge import Judge

RISING = from_probs([0.1, 0.2, 0.3, 0.4])
NEGATIVE = (-5.0, -6.0, -7.0, -8.0)


@pytest.mark.parametrize("min_p", [0.05, 0.3, 0.5, 0.9])
def test_MINP01_threshold_relative_to_the_best(judge: Judge, min_p: float) -> None:
    """Tokens below min_p times the largest probability are cut."""
    judge.filters(row("rising", RISING, min_p=min_p))
    judge.filters(row("normal", normal(1000, 5), min_p=min_p))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_MINP02_after_temperature(judge: Judge, temperature: float) -> None:
    """The threshold looks at probabilities after temperature, not at logits."""
    judge.filters(row("five", [5.0, 4.0, 3.0, -1.0, -2.0], min_p=0.2, temperature=temperature))


def test_MINP03_the_best_token_stays(judge: Judge) -> None:
    """min_p = 1 keeps the maxima and never nothing."""
    judge.filters(row("two maxima", [1.0, 3.0, 3.0, 2.0], min_p=1.0))


def test_MINP04_zero_is_off(judge: Judge) -> None:
    """min_p = 0 keeps every token, also far below the best."""
    judge.filters(row("far", [0.0, -80.0, -30.0], min_p=0.0))


def test_MINP05_random_rows_only(judge: Judge) -> None:
    """min-p of a random row leaves its greedy neighbour alone."""
    greedy = row("greedy", [1.0, 3.0, 3.0], temperature=0.0)
    judge.greedy(stacked("mixed", row("random", [1.0, 3.0, 3.0], min_p=1.0), greedy))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_TOPK01_the_k_largest_stay(judge: Judge, k: int) -> None:
    """Exactly the k largest of distinct logits stay, also when all are negative."""
    judge.filters(row("rising", RISING, top_k=k))
    judge.filters(row("negative", NEGATIVE, top_k=k))
    judge.filters(row("far below 0", [-2e4, -3e4, -4e4, -5e4], top_k=k))


@pytest.mark.parametrize("k", [1, 5, 50, 999])
def test_TOPK01_a_thousand_tokens(judge: Judge, k: int) -> None:
    """The k largest of a thousand normal logits stay."""
    judge.filters(row("normal", normal(1000, 7), top_k=k))


@pytest.mark.parametrize("copies", [1, 3, 9])
def test_TOPK02_ties_at_the_kth_all_stay(judge: Judge, copies: int) -> None:
    """All tokens equal to the k-th logit stay, at any batch size."""
    case = row("ties", [3.0, 2.0, 2.0, 1.0, 2.0], top_k=2)
    judge.filters(stacked(f"{copies} rows", *[case] * copies))
    judge.filters(row("levels", tied(1000, 2), top_k=20))


@pytest.mark.parametrize("k", [-1, 0, 4, 5, 9_999_999])
def test_TOPK03_off_values(judge: Judge, k: int) -> None:
    """k of 0, -1, V and above V keeps every token, or is refused where declared."""
    if judge.session.capabilities.profile.topk_off == "error" and not 0 <= k <= 4:
        judge.refuses(row("r7", RISING, top_k=k), "top_k")
        return
    judge.filters(row("rising", RISING, top_k=k))
    judge.filters(
        stacked("beside k = 2", row("rising", RISING, top_k=k), row("two", RISING, top_k=2))
    )


def test_TOPK04_k_of_one(judge: Judge) -> None:
    """k = 1 keeps the maximum, and both of two."""
    judge.filters(row("one maximum", [2.0, 1.9, 0.0], top_k=1))
    judge.filters(row("two maxima", [2.0, 2.0, 0.0], top_k=1))


def test_TOPK05_k_per_row(judge: Judge) -> None:
    """Every row is cut by its own k."""
    rows = [row(f"k = {k}", RISING, top_k=k) for k in (1, 0, 3, 2)]
    judge.filters(stacked("four rows", *rows))


def test_TOPK06_fewer_finite_logits_than_k(judge: Judge) -> None:
    """Masked tokens do not come back when fewer than k are left, whether the logits or the request mask them."""
    masked = from_probs([0.0, 0.4, 0.0, 0.6])
    judge.filters(row("two finite", masked, top_k=3))
    if not judge.declares("allowed_token_ids"):
        return
    judge.filters(row("two allowed", RISING, top_k=3, allowed_token_ids=[0, 2]))
    judge.filters(row("and top-p", RISING, top_k=3, top_p=0.5, allowed_token_ids=[0, 1, 2]))
    judge.filters(row("k above what is left", RISING, top_k=3, top_p=0.5, allowed_token_ids=[0, 1]))


@pytest.mark.parametrize("p", [0.15, 0.35, 0.5, 0.65, 0.95])
def test_TOPP01_mass_before_the_token(judge: Judge, p: float) -> None:
    """A token stays iff the mass of strictly larger tokens is below p."""
    judge.filters(row("rising", RISING, top_p=p))
    judge.filters(row("normal", normal(1000, 11), top_p=p))


@pytest.mark.statistical
def test_TOPP02_exact_mass_stops(judge: Judge) -> None:
    """When the mass reaches p exactly, no further token is kept."""
    cases = exact_mass_cases(48, judge.session.capabilities.profile.topp_exact)
    for case in cases:
        judge.filters(case)
    judge.exact_mass(cases)


@pytest.mark.parametrize("p", [0.45, 0.8, 0.95])
def test_TOPP03_the_crossing_token_stays(judge: Judge, p: float) -> None:
    """The token with which the mass passes p is kept."""
    judge.filters(row("falling", from_probs([0.4, 0.3, 0.2, 0.1]), top_p=p))


def test_TOPP04_ties_at_the_edge(judge: Judge) -> None:
    """Equal logits at the edge are kept or dropped together."""
    judge.filters(row("four equal", [1.0, 1.0, 1.0, 1.0], top_p=0.4))
    judge.filters(row("edge", [3.0, 1.0, 1.0, 1.0, -2.0], top_p=0.85))
    judge.filters(row("levels", tied(1000, 4), top_p=0.7))


@pytest.mark.parametrize("p", [1e-8, 1e-4, 0.01])
def test_TOPP05_the_largest_stays(judge: Judge, p: float) -> None:
    """However small p is, the largest token is kept."""
    judge.filters(row("flat", normal(4096, 13, 0.1), top_p=p))


def test_TOPP06_p_of_one_is_off(judge: Judge) -> None:
    """p = 1 keeps every token, also those whose probability is tiny."""
    judge.filters(row("far", [0.0, -40.0, -20.0, -70.0], top_p=1.0))
    judge.filters(stacked("beside p = .5", row("far", [0.0, -40.0, -20.0]),
                          row("cut", [0.0, -40.0, -20.0], top_p=0.5)))  # fmt: skip


@pytest.mark.parametrize(("k", "p"), [(2, 0.5), (3, 0.4), (3, 0.8), (2, 0.9)])
def test_TOPP07_after_top_k_renormalised(judge: Judge, k: int, p: float) -> None:
    """The nucleus is taken on what top-k left, its mass scaled to 1."""
    judge.filters(row("rising", RISING, top_k=k, top_p=p))
    judge.filters(row("normal", normal(1000, 17), top_k=20 * k, top_p=p))


def test_TOPP08_p_per_row(judge: Judge) -> None:
    """Every row is cut by its own p, with and without top-k beside it."""
    rows = [row(f"p = {p}", RISING, top_p=p) for p in (0.35, 1.0, 0.75, 0.05)]
    judge.filters(stacked("five rows", *rows, row("both", RISING, top_k=2, top_p=0.5)))


FILTERS: tuple[dict[str, Any], ...] = (
    {"top_k": 50},
    {"top_p": 0.9},
    {"top_k": 50, "top_p": 0.9, "temperature": 0.8},
    {"min_p": 0.1, "temperature": 1.3},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.02},
)


@pytest.mark.parametrize("params", FILTERS, ids=named)
@pytest.mark.parametrize("corpus", ["prompts_f32", "decode_bf16"])
def test_MINP01_TOPK01_TOPK02_TOPP01_TOPP04_real_rows(
    judge: Judge, corpus: str, params: dict[str, Any]
) -> None:
    """The usual filters on logits of a language model, ties included."""
    for case in real_cases(corpus, judge.session.tier.real_rows, **params):
        judge.filters(case)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "case",
    [
        row("top-k", [2.0, 1.5, 1.5, 1.0, 0.0, -1.0], top_k=3),
        row("top-p", [2.0, 1.5, 1.5, 1.0, 0.0, -1.0], top_p=0.8),
        row("both", RISING, top_k=3, top_p=0.8),
        row("min-p", [2.0, 1.5, 1.5, 1.0, 0.0, -1.0], min_p=0.3, temperature=1.5),
        row("negative, k = 2", NEGATIVE, top_k=2),
    ],
    ids=str,
)
def test_DRAW01_law_of_filtered_rows(judge: Judge, case: Case) -> None:
    """Draws follow the softmax of what the filters left."""
    judge.law(case)
