"""Repetition, frequency and presence penalties.

PEN01: in this order. PEN02: a seen token's logit is divided by the repetition penalty if positive,
else multiplied. PEN03: seen is in the prompt or the output. PEN04: once per distinct token. PEN05:
`l -= frequency * count` in the output. PEN06: `l -= presence` if in the output. PEN07: the prompt
is not counted. PEN08: the whole history counts. PEN09: the padding id V and the placeholder -1 are
nothing. PEN10: 1, 0 and 0 change nothing. PEN11: negative values raise. PEN12: greedy rows too.
PEN13: -inf stays -inf. PEN14: each row by its own history.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from aliquot.contract.params import SamplingParams
from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = (
    "PEN01",
    "PEN02",
    "PEN03",
    "PEN04",
    "PEN05",
    "PEN06",
    "PEN07",
    "PEN08",
    "PEN09",
    "PEN10",
    "PEN11",
    "PEN12",
    "PEN13",
    "PEN14",
)


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with each request's penalties applied to the tokens that it has seen."""
    out = rows.copy()
    requests = zip(out, context.batch.requests, context.params, context.histories, strict=True)
    for row, request, params, history in requests:  # PEN12 PEN14
        if penalises(params):  # PEN10
            prompt = counts(request.prompt_token_ids or (), row.size)
            output = counts(history, row.size)  # PEN07 PEN08
            row[:] = penalised(row, prompt, output, params)
    return out


def penalises(params: SamplingParams) -> bool:
    """Whether any of the three penalties is not neutral."""
    values = (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
    return values != (1.0, 0.0, 0.0)


def counts(tokens: Sequence[int], vocab_size: int) -> npt.NDArray[np.int64]:
    """How often each token id occurs, int64 `[V]`; ids outside [0, V) are padding."""
    ids = np.asarray(tokens, dtype=np.int64)
    real = ids[(ids >= 0) & (ids < vocab_size)]  # PEN09
    return np.bincount(real, minlength=vocab_size)


def penalised(
    row: Rows,
    prompt: npt.NDArray[np.int64],
    output: npt.NDArray[np.int64],
    params: SamplingParams,
) -> Rows:
    """One row `[V]` after the three penalties, in their order (PEN01)."""
    r = params.repetition_penalty
    seen = (prompt > 0) | (output > 0)  # PEN03 PEN04
    row = np.where(seen, np.where(row > 0, row / r, row * r), row)  # PEN02 PEN13
    row = row - params.frequency_penalty * output  # PEN01 PEN05 PEN11
    return row - params.presence_penalty * (output > 0)  # PEN01 PEN06
