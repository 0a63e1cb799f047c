"""Temperature.

TEMP01: each random row is divided by its temperature, once, before the filters. TEMP02: greedy rows
are divided by 1. TEMP03: temperatures from 1e-5 up act as given, unless the profile declares a
floor. TEMP04: the division happens in the wide type, so 16-bit logits do not overflow.
"""

import numpy as np

from aliquot.oracle.context import Context, rounded
from aliquot.oracle.rows import Rows

CLAUSES = ("TEMP01", "TEMP02", "TEMP03", "TEMP04")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows divided by their temperatures."""
    return rows / divisors(context)[:, None]  # TEMP01 TEMP04


def divisors(context: Context) -> Rows:
    """What each row is divided by, float64 `[n]`."""
    floor = rounded(context.profile.temperature_floor, context.parameter_dtype)
    given = zip(context.batch.requests, context.params, strict=True)
    return np.array(
        [1.0 if r.params.greedy else max(p.temperature, floor) for r, p in given],  # TEMP02 TEMP03
        dtype=np.float64,
    )
