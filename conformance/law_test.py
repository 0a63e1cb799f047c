"""The law test of one row: draws of the backend against the oracle's exact law.

The e-process gates: under the contract it reaches 1 / alpha with probability at most alpha. The chi-square tests
are shown beside it, as the field knows them.
"""

import math

import numpy as np
import numpy.typing as npt

from aliquot.conformance import causes
from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.judging.outcome import Outcome
from aliquot.reports.results import Frequencies, Statistic
from aliquot.statistical import chisquare
from aliquot.statistical.eprocess import KnownLaw
from aliquot.statistical.power import known_law_effect

Ids = npt.NDArray[np.int64]
Law = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
PLOTTED = 12
CELLS = 16
FIRST_LOOK, LOOKS = 64, 4


def judge_row(
    judge: Outcome, case: Case, expected: Expectation, r: int, ids: Ids, oracle: Ids, alpha: float
) -> None:
    """Test row `r`'s draws `ids` [draws] and record the statistics; fails the check at `alpha`.

    As `gate_row`, with the chi-square tests and the frequencies beside it. `oracle` [draws] are the oracle's own
    draws, for the two-sample test.
    """
    if r in expected.greedy_rows:
        return
    law, must = _sure(expected, r)
    try:
        _gate_kept(judge, case, r, ids, law, must, alpha)
    finally:
        kept, own = ids[must[ids]], oracle[must[oracle]]
        if kept.size and own.size:
            judge.statistics += _beside(kept, own, law, alpha)
    judge.frequencies = judge.frequencies or _frequencies(case, r, law, kept)


def gate_row(
    judge: Outcome, case: Case, expected: Expectation, r: int, ids: Ids, alpha: float
) -> None:
    """Test the draws `ids` [draws] of a random row `r` by the e-process; fails the check at `alpha`.

    Law and draws are conditioned on the tokens that every correct sampler keeps, so that what is undecided by
    rounding or left to the sampler does not matter; a row without such a token, one with tied maxima of which any
    may stay, has nothing to test.
    """
    law, must = _sure(expected, r)
    if must.any():
        _gate_kept(judge, case, r, ids, law, must, alpha)


def _gate_kept(
    judge: Outcome, case: Case, r: int, ids: Ids, law: Law, must: Mask, alpha: float
) -> None:
    kept = ids[must[ids]]
    if not kept.size:
        judge.fail(case, r, "draws among the tokens surely kept", f"none in {len(ids)} draws")
    if np.count_nonzero(law) == 1:
        return
    process = KnownLaw(law)
    log_e = _watched(process, kept, alpha)
    judge.statistics.append(_gate(process, law, log_e, alpha))
    if log_e >= -math.log(alpha):
        judge.frequencies = _frequencies(case, r, law, kept)
        judge.fail(
            case, r,
            "draws of the oracle's law",
            f"draws that are 10^{log_e / math.log(10):.0f} times likelier under another law, "
            f"by {process.strongest()}{_never(law, kept, alpha)}",
            tokens=_largest(law)[:4].tolist(),
            effect=f"total variation about {_distance(kept, law):.3f} in {len(kept)} draws",
            cause=causes.of_draws(case, r, kept, judge.session.capabilities),
            kind="law", draws=process.draws,
        )  # fmt: skip
    judge.passed("law", f"{len(kept)} draws follow the law")


def _sure(expected: Expectation, r: int) -> tuple[Law, Mask]:
    """The law of row `r` given a token that is surely kept, zero where none is, and which tokens are."""
    must = expected.surely_kept(r)
    law = expected.laws[r] * must
    return law / (law.sum() or 1.0), must


def _never(law: Law, ids: Ids, alpha: float) -> str:
    """In words the likeliest token that was not drawn, where that has a probability below `alpha`."""
    missing = np.where(np.bincount(ids, minlength=len(law)), 0.0, law)
    token = int(missing.argmax())
    if missing[token] * len(ids) < -math.log(alpha):
        return ""
    return f"; id {token} of probability {missing[token]:.3g} was not drawn in {len(ids)}"


def _watched(process: KnownLaw, ids: Ids, alpha: float) -> float:
    """The log e-value at the first of ever larger numbers of draws at which it decides, or after all."""
    log_e, seen = 0.0, 0
    while seen < len(ids) and log_e < -math.log(alpha):
        more = max(FIRST_LOOK, seen // LOOKS)
        log_e = process.observe(ids[seen : seen + more])
        seen += more
    return log_e


def _gate(process: KnownLaw, law: Law, log_e: float, alpha: float) -> Statistic:
    cells = min(CELLS, int(np.count_nonzero(law)))
    effect = known_law_effect(cells, process.draws, alpha) if cells > 1 else 1.0
    return Statistic(
        method="e-process against the law",
        draws=process.draws,
        alpha=alpha,
        log10_e=round(min(log_e / math.log(10), 1e6), 4),
        mde_tv=_rounded(effect),
        cells=cells,
    )


def _beside(ids: Ids, oracle: Ids, law: Law, alpha: float) -> list[Statistic]:
    counts, reference = (np.bincount(x, minlength=len(law)) for x in (ids, oracle))
    fit = chisquare.goodness_of_fit(counts, law)
    two = chisquare.two_sample(counts, reference)
    effect = _rounded(chisquare.minimum_detectable_effect(law, len(ids), alpha))
    named = (
        ("chi-square against the law", fit, effect),
        ("chi-square against the oracle's draws", two, None),
    )
    return [
        Statistic(
            method=method, draws=test.draws, alpha=alpha, p_value=float(f"{test.p_value:.6g}"),
            mde_tv=mde, cells=test.cells, pooled=test.pooled or None, gates=False,
        )
        for method, test, mde in named
    ]  # fmt: skip


def _frequencies(case: Case, r: int, law: Law, ids: Ids) -> Frequencies:
    shown = _largest(law)
    counts = np.bincount(ids, minlength=len(law))
    rest_p, rest_n = 1 - law[shown].sum(), len(ids) - counts[shown].sum()
    labels, expected, drawn = [str(t) for t in shown], law[shown].tolist(), counts[shown].tolist()
    if len(shown) < np.count_nonzero(law):
        labels, expected, drawn = [*labels, "rest"], [*expected, rest_p], [*drawn, rest_n]
    return Frequencies(
        title=f"{case.name}, row {r}",
        labels=tuple(labels),
        expected=tuple(float(f"{p:.6g}") for p in expected),
        drawn=tuple(int(n) for n in drawn),
    )


def _largest(law: Law) -> Ids:
    order = np.argsort(-law, kind="stable")[:PLOTTED]
    return order[law[order] > 0]


def _distance(ids: Ids, law: Law) -> float:
    return float(np.abs(np.bincount(ids, minlength=len(law)) / len(ids) - law).sum() / 2)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
