"""Replay: the token that a draw must give, from the law and the very noise that the draw used.

Signatures that other code may rely on::

    exponential_race(log_weights, noise, ids, bounds) -> Replay
    gumbel_max(log_weights, noise, ids, bounds) -> Replay
    inverse_cdf(probs, noise, ids, bound) -> Replay

Each draw ends in one of three ways: `AGREE` (the token is the reference's), `ROUNDING` (another
token, but the race was closer than the stated rounding error of the two tokens) or `MISMATCH`.
With honest bounds a correct sampler never mismatches, so the test spends no alpha; a sampler
whose law is at total-variation distance ``d`` mismatches in at least a fraction ``d`` of the draws
(two laws under common noise differ at least as often as their distance), see
`aliquot.statistical.power.replay_draws`.

Sources: Gumbel-max (Gumbel 1954; Maddison, Tarlow, Minka 2014); exponential race = Gumbel-max with
``g = -log(e)``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

AGREE, ROUNDING, MISMATCH = np.int8(0), np.int8(1), np.int8(2)
CHUNK_ELEMENTS = 1 << 19


@dataclass(frozen=True)
class Race:
    """Kind of race: how weight and noise make a score, and how scores make a margin.

    Attributes:
        score: function of rows and noise, float64 [draws, vocab]; the largest score wins.
        never: the row entry, and the score, of a token outside of the support.
        least: smallest noise allowed.
        margin: function of the best and the drawn score, float64 [draws].
    """

    score: np.ufunc
    never: float
    least: float
    margin: Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Replay:
    """Outcome of each replayed draw.

    Attributes:
        outcome: int8 [draws], `AGREE`, `ROUNDING` or `MISMATCH`.
        wanted: int64 [draws], the reference's token.
        margin: float64 [draws], how far the drawn token was from winning: difference of
            log scores for a race, of cumulative probability for the inverse CDF; 0 when agreed,
            infinite for a token of probability 0.
        bound: float64 [draws], the rounding error that could explain a margin.
    """

    outcome: npt.NDArray[np.int8]
    wanted: Ids
    margin: Floats
    bound: Floats

    @property
    def draws(self) -> int:
        """Number of draws replayed."""
        return self.outcome.size

    @property
    def mismatches(self) -> Ids:
        """Positions of the draws that no rounding explains, int64 [k]."""
        return np.flatnonzero(self.outcome == MISMATCH)

    @property
    def rounded(self) -> Ids:
        """Positions of the draws that differ but are explained by rounding, int64 [k]."""
        return np.flatnonzero(self.outcome == ROUNDING)

    @property
    def passed(self) -> bool:
        """Whether every draw agreed or is explained by rounding."""
        return not self.mismatches.size


def exponential_race(
    log_weights: npt.ArrayLike, noise: npt.ArrayLike, ids: npt.ArrayLike, bounds: npt.ArrayLike
) -> Replay:
    """Replay draws ``argmax(w / e)``.

    Args:
        log_weights: float64 [vocab] for one row or [draws, vocab] for one row a draw: logarithm of
            the law up to a constant; -inf = not in the support.
        noise: exponential variates ``e``, any float dtype, [draws, vocab].
        ids: int [draws], the tokens drawn.
        bounds: float64, broadcast to log_weights: largest absolute error of a token's log score
            ``log w - log e`` in the sampler's arithmetic.

    Raises:
        ValueError: shapes that disagree, ids outside the vocabulary, negative noise or bounds, or
            a row without support.

    Noise of exactly 0 lets a token of the support win outright and never one outside of it.
    """
    rows = _checked_rows(log_weights)
    weights = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return _race(weights, noise, ids, bounds, EXPONENTIAL)


def gumbel_max(
    log_weights: npt.ArrayLike, noise: npt.ArrayLike, ids: npt.ArrayLike, bounds: npt.ArrayLike
) -> Replay:
    """Replay draws ``argmax(log w + g)``; arguments and errors of `exponential_race`."""
    return _race(_checked_rows(log_weights), noise, ids, bounds, GUMBEL)


def inverse_cdf(
    probs: npt.ArrayLike, noise: npt.ArrayLike, ids: npt.ArrayLike, bound: npt.ArrayLike
) -> Replay:
    """Replay draws of the first id whose cumulative probability exceeds ``u``.

    Args:
        probs: float64 [vocab], the law of the row in the order that the sampler cumulates;
            normalised here.
        noise: float [draws], uniform variates in [0, 1].
        ids: int [draws], the tokens drawn, as positions in that order.
        bound: float64, scalar or [draws]: largest absolute error of a cumulative probability and
            of ``u`` together.

    Raises:
        ValueError: as for `exponential_race`.

    A token of probability 0 is a mismatch however small its margin.
    """
    law = np.asarray(probs, dtype=np.float64)
    uniform = np.asarray(noise, dtype=np.float64)
    drawn = _checked_ids(ids, len(law), uniform.shape)
    _check_range("noise", uniform, 0.0, 1.0)
    upper = np.cumsum(law) / law.sum()
    lower = np.concatenate([[0.0], upper[:-1]])
    last = int(np.flatnonzero(law)[-1])
    wanted = np.minimum(np.searchsorted(upper, uniform, side="right"), last)
    outside = np.maximum(lower[drawn] - uniform, uniform - upper[drawn])
    margin = np.where(wanted == drawn, 0.0, np.maximum(outside, 0.0))
    margin[law[drawn] == 0] = np.inf
    return _judge(drawn, wanted, margin, np.broadcast_to(bound, margin.shape))


def _race(
    rows: Floats, noise: npt.ArrayLike, ids: npt.ArrayLike, bounds: npt.ArrayLike, kind: Race
) -> Replay:
    given = np.asarray(noise)
    if given.ndim != 2 or rows.shape not in (given.shape, given.shape[1:]):
        raise ValueError(
            f"log_weights has shape {rows.shape}, noise {given.shape}; "
            "[vocab] or [draws, vocab] and [draws, vocab] are allowed"
        )
    drawn = _checked_ids(ids, given.shape[1], given.shape[:1])
    errors = np.broadcast_to(np.asarray(bounds, dtype=np.float64), rows.shape)
    _check_range("bounds", errors, 0.0, float(np.finfo(np.float64).max))
    if not drawn.size:
        return _judge(drawn, drawn, np.zeros(0), np.zeros(0))
    step = max(1, CHUNK_ELEMENTS // given.shape[1])
    chunks = [slice(start, start + step) for start in range(0, len(drawn), step)]
    parts = [_race_chunk(rows, given[c], drawn[c], errors, c, kind) for c in chunks]
    wanted, margin, bound = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return _judge(drawn, wanted.astype(np.int64), margin, bound)


def _race_chunk(
    rows: Floats, noise: Floats, drawn: Ids, errors: Floats, chunk: slice, kind: Race
) -> tuple[Ids, Floats, Floats]:
    _check_range("noise", noise, kind.least, np.inf)
    own_rows = rows if rows.ndim == 1 else rows[chunk]
    own_errors = np.broadcast_to(errors if errors.ndim == 1 else errors[chunk], noise.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.asarray(kind.score(own_rows, noise), dtype=np.float64)
    if np.isnan(scores.max()) or own_rows.min() == kind.never:
        np.copyto(scores, kind.never, where=own_rows == kind.never)
    wanted = scores.argmax(axis=1)
    index = np.arange(len(drawn))
    margin = kind.margin(scores[index, wanted], scores[index, drawn])
    bound = own_errors[index, wanted] + own_errors[index, drawn]
    return wanted, margin, bound


def _log_ratio(best: Floats, own: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(best == own, 0.0, np.log(best / own))


def _difference(best: Floats, own: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(best == own, 0.0, best - own)


EXPONENTIAL = Race(np.divide, never=0.0, least=0.0, margin=_log_ratio)
GUMBEL = Race(np.add, never=-np.inf, least=-np.inf, margin=_difference)


def _judge(drawn: Ids, wanted: Ids, margin: Floats, bound: Floats) -> Replay:
    explained = np.where(margin <= bound, ROUNDING, MISMATCH)
    outcome = np.where(wanted == drawn, AGREE, explained).astype(np.int8)
    return Replay(outcome, wanted, margin, np.array(bound, dtype=np.float64))


def _checked_ids(ids: npt.ArrayLike, vocab: int, shape: tuple[int, ...]) -> Ids:
    drawn = np.asarray(ids)
    if drawn.shape != shape or (drawn.size and drawn.dtype.kind not in "iu"):
        raise ValueError(f"ids: integers of shape {shape} are allowed, got {drawn.shape}")
    if drawn.size and (drawn.min() < 0 or drawn.max() >= vocab):
        raise ValueError(f"ids: all must lie in [0, {vocab}), got {drawn.min()}..{drawn.max()}")
    return drawn.astype(np.int64)


def _checked_rows(log_weights: npt.ArrayLike) -> Floats:
    rows = np.asarray(log_weights, dtype=np.float64)
    if rows.ndim not in (1, 2) or not np.isfinite(rows.max(axis=-1)).all():
        raise ValueError(
            f"log_weights of shape {rows.shape}: each row needs a finite maximum and no NaN"
        )
    return rows


def _check_range(name: str, values: Floats, low: float, high: float) -> None:
    if values.size and not (values.min() >= low and values.max() <= high):
        raise ValueError(f"{name}: must lie in [{low}, {high}], got {values.min()}..{values.max()}")
