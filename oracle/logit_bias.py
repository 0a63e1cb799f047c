"""Logit bias: sparse additions.

BIAS01: `logit[t] += bias[t]`, other tokens stay. BIAS02: a bias acts clipped to [-100, 100].
BIAS03: -inf stays -inf. BIAS04: a bias is a real number, not rounded to an integer. BIAS05: min
tokens act before the bias, penalties after.
"""

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("BIAS01", "BIAS02", "BIAS03", "BIAS04", "BIAS05")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with each request's biases added; the context holds them clipped."""
    out = rows.copy()
    for row, params in zip(out, context.params, strict=True):
        for token, bias in params.logit_bias.items():
            row[token] += bias  # BIAS01 BIAS03 BIAS04
    return out
