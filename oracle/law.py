"""The exact law of one row, and drawing from a law.

DRAW01: the token of a random row has exactly the law softmax of its filtered row. DRAW02 and
DRAW05: a token without mass is never drawn, not even for u = 0 or u = 1. DRAW06: in float64 the far
tail is reached at its rate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import Batch, Request
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import pipeline
from aliquot.oracle.rows import Rows


def law(
    row: npt.ArrayLike,
    params: SamplingParams,
    *,
    prompt_token_ids: Sequence[int] | None = (),
    output_token_ids: Sequence[int] = (),
    profile: Profile = CANONICAL,
    steps: pipeline.Steps | None = None,
    parameter_dtype: type[Any] = np.float32,
) -> Rows:
    """Probabilities float64 `[V]` of the next token for logits `[V]` under a request's parameters.

    They sum to 1 within 1e-15 relative. Raises RowError as `pipeline.run` does.
    """
    logits = np.asarray(row)[None]
    request = Request(
        id="law",
        params=params,
        prompt_token_ids=prompt_token_ids,
        output_token_ids=list(output_token_ids),
    )
    batch = Batch(requests=[request], vocab_size=logits.shape[1])
    outcome = pipeline.run(
        logits, batch, profile=profile, steps=steps, parameter_dtype=parameter_dtype
    )
    probs: Rows = outcome.law[0]
    return probs


def draw(law: Rows, uniforms: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Token ids int64 `[n]` by inverse CDF, from laws `[n, V]` and uniforms `[n]` in [0, 1].

    Token t is drawn iff the mass before it is at most u and the mass up to it above u.
    """
    us = np.asarray(uniforms, dtype=np.float64)
    drawn = [draw_row(row, u) for row, u in zip(law, us, strict=True)]
    return np.array(drawn, dtype=np.int64).reshape(-1)


def draw_row(law: Rows, uniforms: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Token ids int64 of the uniforms' shape, all drawn from one law `[V]` as `draw` does."""
    tokens = np.flatnonzero(law > 0)  # DRAW02 IO08
    mass = np.cumsum(law[tokens])  # DRAW06
    us = np.asarray(uniforms, dtype=np.float64)
    place = np.searchsorted(mass, us * mass[-1], side="right")  # DRAW01
    return np.asarray(tokens[np.minimum(place, tokens.size - 1)])  # DRAW05
