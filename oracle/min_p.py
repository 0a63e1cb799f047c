"""Min-p.

MINP01: a token stays iff `q[t] >= min_p * max(q)`. MINP02: q is the softmax of the row after
temperature and before top-k and top-p. MINP03: min_p = 1 keeps the maxima. MINP04: min_p = 0 keeps
all. MINP05: greedy results never change. As `q[t] / max(q) = exp(l[t] - max(l))`, the rule is `l[t]
- max(l) >= log(min_p)`.
"""

import math

import numpy as np
import numpy.typing as npt

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("MINP01", "MINP02", "MINP03", "MINP04", "MINP05")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf at tokens far below the best."""
    out = rows.copy()
    for row, params in zip(out, context.params, strict=True):
        if params.min_p > 0:  # MINP04 MINP05
            row[~keep(row, params.min_p)] = -np.inf
    return out


def keep(row: Rows, min_p: float) -> npt.NDArray[np.bool_]:
    """Which tokens of a row `[V]` stay for a min_p in (0, 1]."""
    stays: npt.NDArray[np.bool_] = row - row.max() >= math.log(min_p)  # MINP01 MINP02 MINP03
    return stays
