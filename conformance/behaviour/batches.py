"""Rows in a batch: which tokens each of many keeps."""

from functools import cache
from typing import Any

import numpy as np

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import OracleBackend
from aliquot.conformance.behaviour.answers import MOST_ROWS, sampled
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.causes import Cause, explained
from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.faults import FAULTS

FILTERS: tuple[dict[str, Any], ...] = (
    {"top_k": 20},
    {"top_p": 0.7},
    {"min_p": 0.1, "temperature": 0.8},
    {"top_k": 50, "top_p": 0.8},
    {},
    {"temperature": 0.0},
)
CROWD = stacked(
    "crowd",
    *(
        row("row", np.round(normal(200, 900 + i), i % 3), **FILTERS[i % len(FILTERS)])
        for i in range(MOST_ROWS)
    ),
).asking("processed_logits", logprobs=-1)
"""Rows of many kinds, some with ties, whose values one call shows."""


def of_crowd(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares which tokens the rows of one large batch keep."""
    seen = _kept(backend)
    changing = [f for f in FAULTS.values() if f.requests or f.logits or f.profile or f.backend]
    if seen == _kept(OracleBackend()):
        return None
    words = "the rows of a batch keep what they then keep"
    return explained(words, [f for f in changing if _kept_by(f.name) == seen])


def _kept(backend: Any) -> bytes:
    shown = sampled(backend, CROWD).logprobs
    values = np.zeros(0) if shown is None else arrays.to_numpy(shown.values)
    return np.packbits(values > -np.inf).tobytes()


@cache
def _kept_by(name: str) -> bytes:
    return _kept(FAULTS[name].make())
