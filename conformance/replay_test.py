"""The replay test of one row: the oracle draws with the backend's own noise and must draw the same tokens."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance import causes
from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.judging.outcome import Outcome
from aliquot.reports.results import Statistic
from aliquot.statistical import replay
from aliquot.statistical.power import replay_effect

KINDS = ("inverse_cdf", "gumbel", "exponential_race")


def judge_row(
    judge: Outcome,
    case: Case,
    expected: Expectation,
    r: int,
    ids: npt.NDArray[np.int64],
    kind: str,
    noise: npt.NDArray[Any],
) -> None:
    """Fail the check at the first draw of row `r` that no rounding explains.

    `ids` are int64 [draws]; `noise` is float64 [draws] for `inverse_cdf`, whose order is that of the ids, and
    [draws, V] for `gumbel` and `exponential_race`.
    """
    if r not in expected.greedy_rows:
        judge_found(judge, case, r, ids, kind, [replayed(expected, r, ids, kind, noise)])


def judge_found(
    judge: Outcome,
    case: Case,
    r: int,
    ids: npt.NDArray[np.int64],
    kind: str,
    parts: Sequence[replay.Replay],
) -> None:
    """Record row `r`'s replay, done in parts, and fail the check at its first draw that no rounding explains."""
    names = [f.name for f in fields(replay.Replay)]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    found = replay.Replay(**joined)
    judge.statistics.append(
        Statistic(
            method=f"replay, {kind.replace('_', ' ')}",
            draws=found.draws,
            alpha=0.0,
            p_value=1.0 if found.passed else 0.0,
            mde_tv=float(f"{replay_effect(found.draws):.4g}"),
        )
    )
    if not found.passed:
        _fail(judge, case, r, ids, found)
    judge.passed("replay", f"{found.draws} draws replayed, {len(found.rounded)} by rounding")


def replayed(
    expected: Expectation, r: int, ids: npt.NDArray[np.int64], kind: str, noise: npt.NDArray[Any]
) -> replay.Replay:
    """The draws of row `r` beside those that the oracle makes of the same noise; arguments as of `judge_row`."""
    law = expected.laws[r]
    if kind == "inverse_cdf":
        return replay.inverse_cdf(law, noise, ids, _cumulative_bound(expected, r))
    with np.errstate(divide="ignore"):
        scores = np.log(law)
    race = replay.gumbel_max if kind == "gumbel" else replay.exponential_race
    rows = np.broadcast_to(scores, noise.shape)  # as the bounds, which differ from draw to draw
    return race(rows, noise, ids, _score_bound(expected, r, noise, kind))


def _fail(
    judge: Outcome, case: Case, r: int, ids: npt.NDArray[np.int64], found: replay.Replay
) -> None:
    first = found.mismatches[0]
    judge.fail(
        case, r,
        f"id {found.wanted[first]} in draw {first} with the noise used",
        f"id {ids[first]}",
        tokens=[int(found.wanted[first]), int(ids[first])],
        effect=f"{len(found.mismatches)} of {found.draws} draws differ; margin "
        f"{found.margin[first]:.3g}, rounding explains {found.bound[first]:.3g}",
        cause=causes.of_draws(case, r, ids, judge.session.capabilities),
    )  # fmt: skip


def _cumulative_bound(expected: Expectation, r: int) -> float:
    """Largest error of a cumulative probability: that of each token's mass, and that of the sums."""
    law = expected.laws[r]
    relative = np.minimum(np.expm1(np.minimum(expected.log_error(r), 1.0)), 1.0)
    return float((law * relative).sum()) + 2 * expected.accuracy.sum_error(len(law))


def _score_bound(
    expected: Expectation, r: int, noise: npt.NDArray[Any], kind: str
) -> npt.NDArray[np.float64]:
    """Largest error of each token's score in the race: log probability, noise, one addition or division."""
    with np.errstate(divide="ignore"):
        own = np.abs(noise if kind == "gumbel" else np.log(noise))
    unit = expected.accuracy.unit
    bound = expected.log_error(r) + unit * (2 + np.where(np.isfinite(own), own, 0.0))
    return np.minimum(bound, np.finfo(np.float64).max / 4)  # two of them are added
