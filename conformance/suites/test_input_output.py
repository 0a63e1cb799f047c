"""IO: what goes in and what comes out."""

from dataclasses import replace

import numpy as np
import pytest

from aliquot.conformance import arrays
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import SIZES, normal
from aliquot.conformance.judge import Judge
from aliquot.reports.results import Verdict

DTYPES = ("float32", "bfloat16", "float16")
TWO_ROWS = stacked(
    "rows in opposite order",
    row("falling", [5, 4, 3, 2, 1], top_k=1),
    row("rising", [1, 2, 3, 4, 5], top_k=1),
)
MIXED = stacked(
    "greedy beside random",
    row("greedy", [0.0, 3.0, 1.0], temperature=0.0),
    row("random", [0.0, 3.0, 1.0]),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_IO01_logits_of_each_declared_dtype(judge: Judge, dtype: str) -> None:
    """Logits are taken in every dtype that the backend declares."""
    judge.greedy(row(dtype, [0.0, 2.0, 1.0, -3.0], dtype=dtype, temperature=0.0))


@pytest.mark.parametrize("padding", [1, 3, 64])
def test_IO02_rows_in_a_wider_buffer(judge: Judge, padding: int) -> None:
    """A row stride above V reads no column of another row."""
    judge.filters(replace(TWO_ROWS, name=f"{padding} columns of padding", padding=padding))


@pytest.mark.parametrize("vocab", SIZES)
def test_IO03_any_vocabulary_size(judge: Judge, vocab: int) -> None:
    """Greedy and filtered rows are right for V that are no multiple of anything."""
    logits = normal(vocab, 3)
    logits[-1] = 9.0
    judge.greedy(row(f"V = {vocab}, greedy", logits, temperature=0.0))
    judge.filters(row(f"V = {vocab}, filtered", logits, top_k=5, top_p=0.9))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_IO04_16_bit_logits_are_computed_in_float32(judge: Judge, dtype: str) -> None:
    """Logprobs of 16-bit logits have float32 accuracy."""
    case = row(dtype, np.linspace(-60, 0, 64), dtype=dtype)
    case = replace(case, logits=_rounded(case.logits, dtype))
    judge.raw(case)


def _rounded(logits: np.ndarray, dtype: str) -> np.ndarray:
    import torch

    return torch.from_numpy(logits).to(getattr(torch, dtype)).float().numpy()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_IO05_16_bit_input_keeps_its_bits(judge: Judge, dtype: str) -> None:
    """A 16-bit input is not written to."""
    case = row(dtype, [1.0, 2.0, 3.0, 4.0], dtype=dtype, output=[3], presence_penalty=2.0,
               temperature=0.5, top_k=2)  # fmt: skip
    judge.supports(case)
    if judge.session.capabilities.arrays == "numpy" and dtype == "bfloat16":
        judge.conclude(Verdict.UNSUPPORTED, "NumPy has no bfloat16")
    logits = arrays.logits_for(case, judge.session.capabilities)
    before = arrays.bits(logits)
    judge.answer(case, logits)
    same = arrays.bits(logits) == before
    judge.equal(case, 0, "input bits unchanged:", True, same)


@pytest.mark.parametrize("case", [TWO_ROWS, MIXED], ids=str)
def test_IO06_IO07_IO08_form_of_the_sampled_ids(judge: Judge, case: Case) -> None:
    """Sampled ids have shape [n, 1], the declared dtype, and lie in the vocabulary."""
    judge.support(case)


@pytest.mark.parametrize("logprobs", [0, 2])
def test_IO07_IO09_form_of_the_logprobs(judge: Judge, logprobs: int) -> None:
    """Logprob ids have the declared dtype, values are float32 and ranks int64."""
    case = MIXED.asking("raw_logprobs", logprobs=logprobs)
    judge.supports(case)
    answer = judge.answer(case)
    judge.equal(case, 0, "logprobs returned:", True, answer.logprobs is not None)


def test_IO10_an_empty_batch(judge: Judge) -> None:
    """No rows in, no rows out, in the right shape and dtype."""
    case = replace(TWO_ROWS, name="no rows", logits=np.zeros((0, 5), np.float32), requests=())
    judge.accepts(case)
    judge.equal(case, 0, "sampled ids:", 0, len(judge.answer(case).ids))
