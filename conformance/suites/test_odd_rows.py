"""Rows that ordinary logits do not hold: subnormals, huge gaps, masked tiles, large vocabularies."""

from typing import Any

import numpy as np
import pytest

from aliquot.conformance.case import Case, named, row, stacked
from aliquot.conformance.corpus.crafted import WIDE, normal, odd_rows, tied
from aliquot.conformance.judge import Judge

VOCAB = 257
ODD = odd_rows(VOCAB)
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 5},
    {"top_p": 0.9},
    {"min_p": 0.2},
    {"top_k": 40, "top_p": 0.7, "min_p": 0.001},
)


def sizes(judge: Judge) -> tuple[int, ...]:
    """The large vocabularies that the tier has time for."""
    return WIDE[: max(1, judge.session.tier.real_rows // 3)]


@pytest.mark.parametrize("name", ODD)
def test_MINP01_TOPK01_TOPK06_TOPP01_TOPP06_odd_rows(judge: Judge, name: str) -> None:
    """The filters keep what they should of rows with extremes and with whole stretches masked."""
    taken = [params for params in FILTERS if judge.declares(*params)]
    judge.filters(stacked(name, *(row(named(params), ODD[name], **params) for params in taken)))


def overflowing(**params: Any) -> Case:
    """A row whose largest logit overflows float32 over its temperature, beside a plain one."""
    huge = row("huge", ODD["gap of 3e38"], temperature=0.5, **params)
    return stacked(
        f"{named(params)} beside another", huge, row("plain", normal(VOCAB, 98), top_k=3)
    )


def test_IO08_TEMP01_ERR18_logits_that_overflow_over_the_temperature(judge: Judge) -> None:
    """A logit of 3e38 at temperature 0.5 is drawn without harm to other rows."""
    case = overflowing(top_p=0.9)
    judge.accepts(case)
    judge.support(case)


def test_LOGP05_IO08_TEMP01_values_of_logits_that_overflow_over_the_temperature(
    judge: Judge,
) -> None:
    """A logit of 3e38 at temperature 0.5 has its logprob, with and without a filter."""
    judge.needs("processed_logprobs")
    for params in ({"top_p": 0.9}, {}):
        case = overflowing(**params)
        judge.reported(case.asking("processed_logprobs", logprobs=2))


@pytest.mark.parametrize("name", ODD)
def test_GREEDY01_GREEDY02_odd_rows(judge: Judge, name: str) -> None:
    """The argmax of rows with extremes, ties and masked stretches."""
    judge.greedy(row(name, ODD[name], temperature=0.0))


@pytest.mark.parametrize("name", ODD)
def test_LOGP02_LOGP07_RANK01_odd_rows(judge: Judge, name: str) -> None:
    """Raw values, the largest logprobs and the rank of rows with extremes and masked stretches."""
    judge.raw(row(name, ODD[name]))
    judge.reported(row(name, ODD[name]).asking("raw_logprobs", logprobs=12))


@pytest.mark.parametrize("place", ["first", "last", "last tile", "everywhere"])
def test_GREEDY01_GREEDY02_GREEDY04_large_vocabularies(judge: Judge, place: str) -> None:
    """The argmax at the ends of a large vocabulary, and the lowest id of one whose logits are all equal."""
    for vocab in sizes(judge):
        logits = normal(vocab, 92) if place != "everywhere" else np.full(vocab, 1.5, np.float32)
        logits[{"first": 0, "last": -1, "last tile": -3}.get(place, 0)] += 9.0 * (
            place != "everywhere"
        )
        greedy = row(f"V = {vocab}, {place}", logits, temperature=0.0)
        judge.greedy(greedy)
        judge.greedy(stacked(f"V = {vocab}, {place}, mixed", greedy, row("random", logits)))


LARGE: dict[str, tuple[float, dict[str, Any]]] = {
    "nucleus": (2.0, {"top_p": 0.95}),
    "ties at the k-th": (0.0, {"top_k": 50}),
    "ties, all filters": (0.0, {"min_p": 0.05, "top_k": 1000, "top_p": 0.9}),
    "nearly flat, p near one": (0.01, {"top_p": 0.999}),
    "flat but for rounding, p nearer one": (1e-6, {"top_p": 0.9999}),
}


@pytest.mark.parametrize("name", LARGE)
def test_IO03_MINP01_TOPK01_TOPP01_TOPP03_large_vocabularies(judge: Judge, name: str) -> None:
    """The filters on tied, normal and nearly flat rows, where a float32 running sum falls short of p."""
    scale, params = LARGE[name]
    for vocab in sizes(judge):
        logits = normal(vocab, 93, scale) if scale else tied(vocab, 94, 40)
        judge.filters(row(f"V = {vocab}, {name}", logits, **params))


def test_LOGP02_LOGP07_RANK01_large_vocabularies(judge: Judge) -> None:
    """Raw values, twenty logprobs and the rank in a large vocabulary."""
    for vocab in sizes(judge):
        case = row(f"V = {vocab}", normal(vocab, 96, 3.0))
        judge.raw(case)
        judge.reported(case.asking("raw_logprobs", logprobs=20))


DECODED: tuple[dict[str, Any], ...] = ({"top_k": 50}, {"top_p": 0.9}, {"temperature": 0.0})


@pytest.mark.parametrize("params", DECODED, ids=named)
def test_IO01_IO03_16_bit_rows_of_a_large_vocabulary(judge: Judge, params: dict[str, Any]) -> None:
    """A large vocabulary in bfloat16, where most tokens are tied."""
    for vocab in sizes(judge):
        case = row(
            f"V = {vocab}, bfloat16", _bfloat16(normal(vocab, 97, 3.0)), dtype="bfloat16", **params
        )
        _greedy_or_filtered(judge, case)


def _greedy_or_filtered(judge: Judge, case: Case) -> None:
    if case.requests[0].params.greedy:
        judge.greedy(case)
    else:
        judge.filters(case)


def _bfloat16(logits: np.ndarray) -> np.ndarray:
    """The logits cut to the upper 16 bits of their float32 patterns, which are bfloat16 numbers."""
    return (logits.view(np.uint32) & 0xFFFF0000).view(np.float32)
