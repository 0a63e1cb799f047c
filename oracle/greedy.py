"""Greedy rows.

GREEDY01: a request with a temperature below 1e-5 takes the argmax of its logits after the
penalties. GREEDY02: among equal maxima the lowest id. GREEDY03: its top_k, top_p and min_p do
nothing. GREEDY04: in a mixed batch greedy rows take the argmax and random rows their draw.
GREEDY05: all masks, biases and penalties act before.
"""

import numpy as np
import numpy.typing as npt

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("GREEDY01", "GREEDY02", "GREEDY03", "GREEDY04", "GREEDY05")


def ids(rows: Rows) -> npt.NDArray[np.int64]:
    """The argmax of each row, int64 `[n]`, the lowest id among equals (GREEDY02)."""
    if rows.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    lowest: npt.NDArray[np.int64] = rows.argmax(axis=1)  # GREEDY02
    return lowest


def maxima(rows: Rows) -> npt.NDArray[np.bool_]:
    """Every token that equals its row's maximum, bool `[n, V]`: what `greedy_ties = any_maximum` may return."""
    equal: npt.NDArray[np.bool_] = rows == rows.max(axis=1, keepdims=True, initial=-np.inf)
    return equal


def is_greedy(context: Context) -> npt.NDArray[np.bool_]:
    """Which rows are greedy, bool `[n]`; the limit is compared before rounding (GREEDY01)."""
    return np.array([r.params.greedy for r in context.batch.requests], dtype=bool)


def one_hot(law: Rows, greedy_ids: npt.NDArray[np.int64], greedy: npt.NDArray[np.bool_]) -> Rows:
    """The law with greedy rows replaced by certainty of their argmax (GREEDY04)."""
    out = law.copy()
    out[greedy] = 0.0
    out[greedy, greedy_ids[greedy]] = 1.0  # GREEDY01 GREEDY04
    return out
