"""The oracle as a sampler: the exact law, drawn by inverse CDF.

SEED01 to SEED04: the noise of a seeded request is a function of its seed and the number of its
output tokens, so that neither row nor neighbours nor earlier steps matter. SEED05: requests without
a seed take fresh noise from the caller's generator. SEED06 and SEED07: all 64 bits of the seed
enter. DRAW07: logprobs are gathered after the draw.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import Batch, Request
from aliquot.contract.output import INVALID_TOKEN, Logprobs, SamplerOutput
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import law, logprobs, pipeline
from aliquot.oracle.rows import RowError, from_logits

CLAUSES = (
    *(f"DRAW{i:02d}" for i in range(1, 8)),
    *(f"SEED{i:02d}" for i in range(1, 8)),
    *("IO06", "IO07", "IO08", "IO09", "IO10", "ERR17"),
)


def sample(
    logits: npt.ArrayLike,
    batch: Batch,
    rng: np.random.Generator,
    *,
    profile: Profile = CANONICAL,
    steps: pipeline.Steps | None = None,
    parameter_dtype: type[Any] = np.float32,
) -> SamplerOutput:
    """One token a row: ids int64 `[n, 1]` and the logprobs that the batch asks for.

    Rows without a law raise RowError, or under another choice of `profile.bad_row` yield -1 or id 0
    while all other rows are sampled as if alone (ERR17).
    """
    noise = uniforms(batch.requests, rng)
    rows, good = from_logits(logits, batch), list(range(len(batch)))
    settings: dict[str, Any] = {
        "profile": profile,
        "steps": steps,
        "parameter_dtype": parameter_dtype,
    }
    while True:
        part = subset(batch, good)
        try:
            outcome = pipeline.run(rows[good], part, **settings)
            break
        except RowError as error:
            if profile.bad_row == "error":  # ERR16
                raise
            del good[error.row]  # ERR17
    drawn = law.draw(outcome.law, noise[good])  # DRAW01
    gathered = logprobs.gather(outcome, part, drawn)  # DRAW07
    return spread(drawn, gathered, good, batch, profile)


def uniforms(requests: Sequence[Request], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """One uniform in [0, 1) a request, float64 `[n]`: its own for a seed, else the next of `rng`."""
    return np.array([_uniform(request, rng) for request in requests], dtype=np.float64)


def _uniform(request: Request, rng: np.random.Generator) -> float:
    seed = request.params.seed
    if seed is None:
        return rng.random()  # SEED05 DRAW03 DRAW04
    numbers = np.array([seed % 2**64, len(request.output_token_ids)], dtype="<u8")  # SEED01 SEED03
    words = np.random.SeedSequence(numbers.view("<u4").tolist())  # SEED07
    return np.random.default_rng(words).random()  # SEED02 SEED04 SEED06


def subset(batch: Batch, rows: list[int]) -> Batch:
    """The batch of some of its rows."""
    mask = batch.grammar_bitmask
    return replace(
        batch,
        requests=[batch.requests[row] for row in rows],
        grammar_bitmask=None if mask is None else mask[rows],
        all_greedy=None,
        all_random=None,
    )


def spread(
    drawn: npt.NDArray[np.int64],
    gathered: Logprobs | None,
    good: list[int],
    batch: Batch,
    profile: Profile,
) -> SamplerOutput:
    """The results of the good rows at their places, the mark or id 0 and no values in between."""
    n = len(batch)
    mark = INVALID_TOKEN if profile.bad_row == "invalid_mark" else 0
    dtype = np.int32 if profile.id_dtype == "int32" else np.int64  # IO07
    ids = np.full((n, 1), mark, dtype=dtype)  # IO06 IO10
    ids[good, 0] = drawn
    if not batch.wants_logprobs:
        return SamplerOutput(sampled_token_ids=ids)
    width = gathered.values.shape[1] if gathered else 1
    token_ids = np.full((n, width), mark, dtype=dtype)
    values = np.full((n, width), -np.inf, dtype=np.float32)
    ranks = np.zeros(n, dtype=np.int64)
    if gathered:
        token_ids[good], values[good] = gathered.token_ids, gathered.values
        ranks[good] = gathered.ranks
    return SamplerOutput(
        sampled_token_ids=ids,
        logprobs=Logprobs(token_ids=token_ids, values=values, ranks=ranks),
    )
