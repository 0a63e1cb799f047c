"""Grammar bitmask (structured output), applied before everything else.

GRAM01: a row of the mask is `ceil(V/32)` int32 words; token t is allowed iff bit `t % 32` of word
`t // 32` is set. GRAM02: a token whose bit is cleared gets the logit -inf. GRAM03: raw logprobs are
taken after this step. GRAM04: a row with all bits set is unchanged. GRAM05: bits at and beyond V
mean nothing. GRAM06: bit 31, the sign, is a bit like any other.
"""

import numpy as np
import numpy.typing as npt

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("GRAM01", "GRAM02", "GRAM03", "GRAM04", "GRAM05", "GRAM06")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf where the batch's bitmask has a cleared bit."""
    mask = context.batch.grammar_bitmask
    if mask is None:
        return rows
    return np.where(allowed(mask, rows.shape[1]), rows, -np.inf)  # GRAM02 GRAM04


def allowed(mask: npt.NDArray[np.int32], vocab_size: int) -> npt.NDArray[np.bool_]:
    """The packed mask `[n, ceil(V/32)]` as bool `[n, V]`."""
    tokens = np.arange(vocab_size)  # GRAM05
    words = mask.view(np.uint32)[:, tokens // 32]  # GRAM06
    bits: npt.NDArray[np.bool_] = (words >> (tokens % 32).astype(np.uint32)) & 1 == 1  # GRAM01
    return bits
