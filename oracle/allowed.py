"""Allowed token ids.

ALLOW01: with `allowed_token_ids` set, every token outside the list gets the logit -inf. ALLOW02: a
request without the list keeps its logits. ALLOW03: greedy rows are masked like random ones.
ALLOW04: listed tokens keep their logits.
"""

import numpy as np

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("ALLOW01", "ALLOW02", "ALLOW03", "ALLOW04")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf outside each request's list."""
    out = rows.copy()
    for row, params in zip(out, context.params, strict=True):  # ALLOW03
        if params.allowed_token_ids is not None:  # ALLOW02
            forbidden = np.ones(row.size, dtype=bool)
            forbidden[list(params.allowed_token_ids)] = False  # ALLOW04
            row[forbidden] = -np.inf  # ALLOW01
    return out
