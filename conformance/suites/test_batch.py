"""INV03, SEED02: a row in a batch of any size is what it is alone."""

import numpy as np
import pytest

from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import normal, tied
from aliquot.conformance.judge import Judge

SIZES = (1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 255, 256, 257, 512, 1024)
PLAIN, LEVELS = normal(65, 81, 2.0), tied(65, 82)
KINDS = (
    row("seeded", PLAIN, seed=11),
    row("plain", PLAIN),
    row("greedy", LEVELS, temperature=0.0),
    row("top-k with ties", [3.0, 2.0, 2.0, 1.0, 2.0, *[-9.0] * 60], top_k=2),
    row("top-p", PLAIN, top_p=0.8, temperature=0.7),
    row("seeded, filtered", PLAIN, seed=12_000_017, top_k=20, top_p=0.9),
    row("min-p", PLAIN, min_p=0.2),
    row("penalised", PLAIN, prompt=[1, 64], output=[5, 5, 64], repetition_penalty=1.5,
        frequency_penalty=0.5, presence_penalty=0.5),
    row("bad words", PLAIN, output=[7, 8], bad_words=[(7, 8, 9), (64,)]),
    row("bias", PLAIN, logit_bias={0: 2.0, 64: -3.5}),
    row("allowed", PLAIN, allowed_token_ids=[0, 31, 32, 64], seed=13),
    row("min tokens", PLAIN, min_tokens=2, eos_token_id=64, temperature=0.0),
    row("seeded, all of it", LEVELS, seed=14, top_k=9, min_p=0.01, temperature=1.3, presence_penalty=1.0,
        output=[3]),
)  # fmt: skip
MIXED = ("plain", "greedy", "top-p", "penalised")
BAD = row("NaN", np.full(65, np.nan))


@pytest.mark.parametrize("size", SIZES)
def test_INV03_INV08_SEED02_batches_of_any_size(judge: Judge, size: int) -> None:
    """Support, values and seeded tokens of each row are those of the row alone."""
    judge.alike(KINDS, size)


@pytest.mark.parametrize("size", [2, 9, 64, 256])
def test_INV03_ERR17_SEED02_batches_with_bad_rows(judge: Judge, size: int) -> None:
    """The same with rows of NaN between them."""
    judge.alike(KINDS, size, bad=BAD)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_INV03_equal_rows(judge: Judge, kind: Case) -> None:
    """Nine equal rows in one batch are nine times the row alone."""
    judge.alike([kind], 9)


def test_INV03_large_rows_in_a_batch(judge: Judge) -> None:
    """Rows of a vocabulary of 50,001 tokens, filtered and not, side by side."""
    logits = normal(50_001, 83, 2.0)
    kinds = [row("plain", logits, seed=3), row("cut", logits, seed=4, top_k=30, top_p=0.9),
             row("greedy", logits, temperature=0.0), row("nucleus", logits, top_p=0.7)]  # fmt: skip
    judge.alike(kinds, 9)


@pytest.mark.statistical
def test_INV03_DRAW01_the_law_in_a_mixed_batch(judge: Judge) -> None:
    """Random rows between greedy, filtered and penalised ones follow their own laws."""
    mixed = [kind for kind in KINDS if kind.name in MIXED]
    judge.law(stacked("a mixed batch", *mixed))
