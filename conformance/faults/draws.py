"""F7: the random draw, at the ends of its noise and in its law."""

import numpy as np

from aliquot.conformance.faults.fault import Draw, Fault, Ids
from aliquot.oracle.pipeline import Rows

GRID = 2001
SHORT = 1 - 1e-4
BLOCK = 3
ROUNDED_DOWN = 1024
LARGEST_FLOAT32_GUMBEL = 16.64
LARGEST_31_BIT_GUMBEL = 21.49
RARELY = 1e-3


def _log(law: Rows) -> Rows:
    with np.errstate(divide="ignore"):
        return np.log(law)


def _subtracted(law: Rows, noise: Rows) -> Ids:
    kept = np.flatnonzero(law > 0)
    return np.asarray(kept[(np.log(law[kept]) - noise[:, kept]).argmax(axis=1)])


def negative_gumbel_law(probs: Rows) -> Rows:
    """The law of argmax(log p - g) for Gumbel g, by quadrature over the score of the winner.

    The score of token t lies below x with probability 1 - exp(-exp(x - log p_t)).
    """
    kept = np.flatnonzero(probs > 0)
    log_p = np.log(probs[kept])
    law = np.zeros_like(probs)
    for x in np.linspace(log_p.max() - 40, log_p.max() + 8, GRID):
        rates = np.exp(np.minimum(x - log_p, 50.0))
        log_below = np.log(-np.expm1(-rates))
        law[kept] += np.exp(log_below.sum() - log_below - rates) * rates
    return np.asarray(law / law.sum())


def _divided(law: Rows, noise: Rows) -> Ids:
    """argmax(p / e): 0 / 0 is NaN, which argmax takes for the largest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((law / noise).argmax(axis=1))


def _added(law: Rows, noise: Rows) -> Ids:
    """argmax(log p + g): -inf + inf is NaN, which argmax takes for the largest."""
    with np.errstate(invalid="ignore"):
        return np.asarray((_log(law) + noise).argmax(axis=1))


def _capped(largest: float) -> Draw:
    def pick(law: Rows, noise: Rows) -> Ids:
        return _added(law, np.clip(noise, -1e30, largest))

    return Draw(kind="gumbel", pick=pick)


def _first_at_least(law: Rows, noise: Rows) -> Ids:
    """The first id whose cumulated probability is at least u: id 0 for u = 0, whatever its probability."""
    return np.minimum(np.searchsorted(np.cumsum(law), noise, side="left"), law.size - 1)


def _last_beyond(law: Rows, noise: Rows) -> Ids:
    """The last id where u lies beyond a sum that is a little short of 1."""
    place = np.searchsorted(np.cumsum(law) * SHORT, noise, side="right")
    return np.minimum(place, law.size - 1)


def _by_blocks(law: Rows, noise: Rows) -> Ids:
    """Sums inside blocks are rounded down and those over blocks are not, so that they need not grow together."""
    starts = np.arange(law.size) // BLOCK * BLOCK
    whole = np.concatenate([[0.0], np.cumsum(law)])
    inside = np.floor((whole[1:] - whole[starts]) * ROUNDED_DOWN) / ROUNDED_DOWN
    above = whole[starts] + inside > noise[:, None]
    last = int(np.flatnonzero(law)[-1])
    return np.where(above.any(axis=1), above.argmax(axis=1), last)


def _always_zero(law: Rows, noise: Rows) -> Ids:
    return np.zeros(len(noise), dtype=np.int64)


def _certain_zero(law: Rows) -> Rows:
    certain = np.zeros_like(law)
    certain[0 if law.max() < 1 else int(law.argmax())] = 1.0
    return certain


def _now_and_then_beyond(law: Rows, noise: Rows) -> Ids:
    """In one draw of a thousand an id at V or above."""
    drawn = _last_beyond(law, noise)
    return np.where(noise > 1 - RARELY, law.size, drawn)


FAULTS = (
    Fault(
        name="gumbel-sign",
        about="the Gumbel noise is subtracted",
        report="chainer/chainerrl PR 104",
        group="F7",
        clauses=("DRAW01", "DRAW09"),
        draw=Draw(kind="gumbel", pick=_subtracted),
        law=negative_gumbel_law,
    ),
    Fault(
        name="exp-zero",
        about="exponential noise of exactly 0 is divided by",
        report="vllm-project/vllm-metal issue 622",
        group="F7",
        clauses=("DRAW05",),
        draw=Draw(kind="exponential_race", pick=_divided),
    ),
    Fault(
        name="gumbel-u-one",
        about="infinite Gumbel noise is added to a masked token",
        report="sgl-project/sglang PR 33423",
        group="F7",
        clauses=("DRAW05",),
        draw=Draw(kind="gumbel", pick=_added),
    ),
    Fault(
        name="gumbel-coarse-tail",
        about="Gumbel noise never exceeds 21.49, the end of a 31-bit grid",
        report="vllm-project/vllm PR 47524",
        group="F7",
        clauses=("DRAW06", "DRAW08"),
        draw=_capped(LARGEST_31_BIT_GUMBEL),
    ),
    Fault(
        name="gumbel-float32-tail",
        about="Gumbel noise never exceeds 16.64, the end of float32",
        report="vllm-project/vllm PR 45996",
        group="F7",
        clauses=("DRAW06", "DRAW08"),
        draw=_capped(LARGEST_FLOAT32_GUMBEL),
    ),
    Fault(
        name="cdf-zero-weight",
        about="u = 0 draws id 0 whatever its probability",
        report="pytorch/pytorch issue 48841",
        group="F7",
        clauses=("DRAW05",),
        draw=Draw(kind="inverse_cdf", pick=_first_at_least),
    ),
    Fault(
        name="cdf-short-sum",
        about="a u beyond the sum of the probabilities draws the last id",
        report="flashinfer-ai/flashinfer PR 923",
        group="F7",
        clauses=("DRAW05", "DRAW02"),
        draw=Draw(kind="inverse_cdf", pick=_last_beyond),
    ),
    Fault(
        name="cdf-non-monotone",
        about="the cumulated probabilities of blocks are rounded apart and do not grow together",
        report="flashinfer-ai/flashinfer PR 225",
        group="F7",
        clauses=("DRAW05", "DRAW02", "DRAW01"),
        draw=Draw(kind="inverse_cdf", pick=_by_blocks),
    ),
    Fault(
        name="draw-always-zero",
        about="random rows draw id 0",
        report="flagos-ai/vllm-plugin-FL issue 542",
        group="F7",
        clauses=("DRAW01", "DRAW02"),
        law=_certain_zero,
    ),
    Fault(
        name="draw-beyond-vocabulary",
        about="one draw of a thousand lies beyond the vocabulary",
        report="NVIDIA/TensorRT-LLM issue 1590",
        group="F7",
        clauses=("IO08",),
        draw=Draw(kind="inverse_cdf", pick=_now_and_then_beyond),
    ),
)
