"""DRAW03, DRAW04: draws of different rows and steps share no noise."""

from typing import Any

import numpy as np
import pytest

from aliquot.conformance.case import named, row, stacked
from aliquot.conformance.judge import Judge

ROWS = 32
SLOPE = np.linspace(0.0, 0.5, 64, dtype=np.float32)
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"top_k": 48},
    {"top_p": 0.9},
    {"min_p": 0.7, "temperature": 0.9},
)


@pytest.mark.statistical
@pytest.mark.parametrize("params", KINDS, ids=named)
def test_DRAW03_DRAW04_rows_and_steps_share_no_noise(judge: Judge, params: dict[str, Any]) -> None:
    """Equal rows in one batch draw independently of each other, and of themselves at other steps."""
    judge.independent(stacked("32 equal rows", *[row("sloping", SLOPE, **params)] * ROWS))


@pytest.mark.statistical
def test_DRAW04_one_row_at_many_steps(judge: Judge) -> None:
    """A row alone in its batch draws independently at every step."""
    judge.independent(row("sloping", SLOPE))


@pytest.mark.statistical
def test_DRAW03_rows_beside_greedy_ones(judge: Judge) -> None:
    """Random rows with greedy rows between them draw independently."""
    free, greedy = row("free", SLOPE), row("greedy", SLOPE, temperature=0.0)
    case = stacked("every other row greedy", *[free, greedy] * 8)
    ids = judge.stepped(case, judge.session.tier.support_draws)
    judge.unlike(case, [(0, 2), (4, 6), (8, 10), (12, 14)], ids)
