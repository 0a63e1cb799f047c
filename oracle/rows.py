"""Rows of logits and the one error that a row can raise.

ERR16: a row that holds NaN or +inf, or nothing but -inf, has no law: the oracle raises RowError
with the row, the request and the step after which it was so.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import Batch, BatchError

Rows = npt.NDArray[np.float64]


class RowError(ValueError):
    """A row without a law. `row` is its index, `request` its request's id, `step` the step that left it so."""

    def __init__(self, row: int, request: str, step: str, found: str) -> None:
        super().__init__(
            f"row {row}, request {request}, step {step}: the logits hold {found},"
            " allowed are finite values and -inf with at least one finite"
        )
        self.row, self.request, self.step, self.found = row, request, step, found


def from_logits(logits: npt.ArrayLike, batch: Batch) -> Rows:
    """Widen float logits `[n, V]` to float64 without rounding (IO04).

    Raises BatchError when the shape is not that of the batch or the dtype is no float (ERR14).
    """
    return require_shape(logits, batch).astype(np.float64)  # IO01 IO02 IO03 IO04 IO05


def require_shape(logits: npt.ArrayLike, batch: Batch) -> npt.NDArray[Any]:
    """The logits as an array. Raises BatchError when they are not float `[n, V]` (ERR14)."""
    given: npt.NDArray[Any] = np.asarray(logits)
    wanted = (len(batch), batch.vocab_size)
    if given.shape != wanted or given.dtype.kind != "f":  # ERR14
        raise BatchError(
            f"batch: logits are {given.dtype} {given.shape}, allowed is a float dtype {wanted}"
        )
    return given


def require_alive(rows: Rows, batch: Batch, step: str) -> None:
    """Raise RowError for the first row with NaN, +inf or nothing but -inf (ERR16)."""
    if rows.size == 0:  # IO10
        return
    largest = rows.max(axis=1)
    for row in np.flatnonzero(~np.isfinite(largest)).tolist():  # ERR16
        found = {True: "+inf", False: "nothing but -inf"}[bool(largest[row] > 0)]
        found = "NaN" if np.isnan(largest[row]) else found
        raise RowError(row, batch.requests[row].id, step, found)
