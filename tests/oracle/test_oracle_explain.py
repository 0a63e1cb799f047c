"""What each step did to a row."""

import math

import numpy as np
import pytest
from oracle_cases import batch, request

from aliquot.oracle.explain import TokenView, explain
from aliquot.oracle.pipeline import CONTRACT, RowError

ROW = np.array([[math.log(p) for p in (0.5, 0.25, 0.125, 0.125)]])


def views(logits=ROW, **params):
    """The views of one row by step name."""
    asks = batch(request(**params), vocab_size=logits.shape[1])
    return {view.name: view for view in explain(logits, asks)}


def test_the_row_as_it_came_then_every_step():
    """One view for the logits and one for each step of the contract, with its clauses."""
    got = views()
    assert list(got) == ["logits", *(step.name for step in CONTRACT)]
    assert got["top_p"].clauses == CONTRACT[-1].clauses


def test_alive_mass_and_removed():
    """top_k = 2 removes an eighth twice and leaves three quarters."""
    view = views(top_k=2)["top_k"]
    assert (view.alive, view.removed, round(view.mass, 15)) == (2, 2, 0.75)
    assert [(t.token, round(t.prob, 15)) for t in view.removed_top] == [(2, 0.125), (3, 0.125)]


def test_top_tokens_are_renormalised():
    """What is left sums to 1, largest first."""
    top = views(top_k=2)["top_k"].top
    assert [(t.token, round(3 * t.prob, 12)) for t in top] == [(0, 2.0), (1, 1.0)]


def test_changed_logits_are_counted():
    """A bias changes one token, the temperature all of them."""
    got = views(logit_bias={2: 1.0}, temperature=0.5)
    assert [got[name].changed for name in ("logit_bias", "penalties", "temperature")] == [1, 0, 4]


def test_undecided_tokens():
    """A nucleus whose edge lies within float32's rounding leaves its token undecided."""
    third = np.zeros((1, 3), dtype=np.float32)
    third[0, 2] = -1e-3
    edge = math.exp(0) / (2 + math.exp(-1e-3)) * 2
    got = views(third, top_p=float(np.float32(edge)))
    assert [got[name].undecided for name in ("top_k", "top_p")] == [0, 1]


def test_five_tokens_at_most():
    """Top lists are short; a single token is certain."""
    row = np.zeros((1, 9))
    row[0, 4] = 800.0
    assert len(views(row)["logits"].top) == 5
    assert views(row, top_k=1)["top_k"].top == (TokenView(4, 800.0, 1.0),)


def test_bad_rows_are_named():
    """A row without a law raises as everywhere."""
    with pytest.raises(RowError, match="step bad_words"):
        views(bad_words=[(t,) for t in range(4)])
