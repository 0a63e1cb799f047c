"""Minimum number of output tokens.

MINTOK01: while `len(output) < min_tokens`, every stop id has the logit -inf. MINTOK02: from
`len(output) = min_tokens` on nothing is masked. MINTOK03: the stop ids are EOS and all
stop_token_ids. MINTOK04: other rows are untouched. MINTOK05: drafts before a position count as
output, `len(output) + i < min_tokens`.
"""

import numpy as np

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("MINTOK01", "MINTOK02", "MINTOK03", "MINTOK04", "MINTOK05")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf at the stop ids of requests that are still too short."""
    out = rows.copy()
    for row, params, history in zip(out, context.params, context.histories, strict=True):
        if len(history) < params.min_tokens:  # MINTOK01 MINTOK02 MINTOK05
            row[list(params.stop_ids)] = -np.inf  # MINTOK03 MINTOK04
    return out
