"""A case as the witness of a finding."""

import json

import numpy as np
import pytest

from aliquot.conformance.case import SHOWN_WHOLE, extremes, row, stacked

WIDE = np.linspace(1, 2, SHOWN_WHOLE + 1, dtype=np.float32)


def test_a_small_row_is_shown_whole() -> None:
    """Up to 64 logits are a list, which holds its extremes."""
    shown = row("small", WIDE[1:]).witness(0)
    assert len(shown["logits"]) == SHOWN_WHOLE
    assert "extremes" not in shown


def test_a_large_row_is_shown_by_its_tokens_and_extremes() -> None:
    """Of a larger row stand the logits of the tokens asked for, and what decides without being asked for."""
    logits = WIDE.copy()
    logits[[3, 9]] = 2.0**100, -(2.0**100)
    shown = row("large", logits).witness(0, [64])
    assert shown["logits"] == {"64": 2.0}
    assert shown["extremes"] == {
        "largest": {"token": 3, "logit": 2.0**100}, "smallest": {"token": 9, "logit": -(2.0**100)},
    }  # fmt: skip


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "+inf"), (-np.inf, "-inf")])
def test_values_that_are_not_finite_are_counted(value: float, name: str) -> None:
    """How many there are and where the first stands, whatever their number; the finite ones are told beside."""
    logits = WIDE.copy()
    logits[[5, 64]] = value
    shown = extremes(logits)
    assert shown[name] == {"count": 2, "first": 5}
    assert (shown["largest"]["token"], shown["smallest"]["token"], len(shown)) == (63, 0, 3)


def test_a_row_without_a_finite_value_has_no_largest() -> None:
    """A row of NaN says that all are NaN, as JSON."""
    shown = row("NaN", np.full(1000, np.nan)).witness(0)
    assert json.loads(json.dumps(shown, allow_nan=False))["extremes"] == {
        "NaN": {"count": 1000, "first": 0}
    }


def test_a_row_says_of_how_many_it_is_one() -> None:
    """Rows are counted from 0; the number of rows tells the last one."""
    case = stacked("three", *(row(name, [0.0, 1.0]) for name in "abc"))
    assert (case.witness(2)["row"], case.witness(2)["rows"]) == (2, 3)
    assert "rows" not in row("one", [0.0]).witness(0)
