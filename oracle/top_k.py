"""Top-k.

TOPK01: a token stays iff its logit is at least the k-th largest. TOPK02: all ties at the k-th stay
(freedom topk_ties: exactly k, by lowest or highest id). TOPK03: k = 0, -1 and k >= V switch it off.
TOPK04: k = 1 keeps the maxima. TOPK05: each row has its own k. TOPK06: with fewer than k finite
logits exactly those stay.
"""

import numpy as np
import numpy.typing as npt

from aliquot.contract.params import ParameterError
from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("TOPK01", "TOPK02", "TOPK03", "TOPK04", "TOPK05", "TOPK06")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf below the k-th largest logit.

    Raises ParameterError for k = -1 and k > V where the profile declares them errors (freedom
    topk_off).
    """
    out = rows.copy()
    for index, (row, params) in enumerate(zip(out, context.params, strict=True)):
        if context.profile.topk_off == "error":
            _require_on(params.top_k, row.size, context.batch.requests[index].id)
        if 0 < params.top_k < row.size:  # TOPK03 TOPK05
            row[~keep(row, params.top_k, context.profile.topk_ties)] = -np.inf
    return out


def keep(row: Rows, k: int, ties: str = "keep_all") -> npt.NDArray[np.bool_]:
    """Which tokens of a row `[V]` stay for 0 < k < V under a choice of topk_ties."""
    kth = np.partition(row, row.size - k)[row.size - k]
    if ties == "keep_all":
        stays: npt.NDArray[np.bool_] = row >= kth  # TOPK01 TOPK02 TOPK04 TOPK06
        return stays
    stays = row > kth
    tied = np.flatnonzero(row == kth)
    wanted = k - int(stays.sum())
    chosen = tied[tied.size - wanted :] if ties == "highest_ids" else tied[:wanted]
    stays[chosen] = True
    return stays


def _require_on(k: int, vocab_size: int, request: str) -> None:
    if k == -1 or k > vocab_size:
        allowed = f"an integer in [1, {vocab_size}], or 0 for none (profile topk_off = error)"
        raise ParameterError(f"request {request}: top_k is {k}, allowed is {allowed}")
