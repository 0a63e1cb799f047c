"""Evidence far from the best token: how fine the noise is, by hits in the tail and by injected noise."""

import math
from functools import partial

import numpy as np

from aliquot.conformance.case import Case, row
from aliquot.conformance.judging.draws import Ids
from aliquot.conformance.judging.pairs import Pairs
from aliquot.reports.results import Statistic, Verdict
from aliquot.statistical.power import tail_effect
from aliquot.statistical.tail import (
    EXACT,
    GAPS,
    OTHER,
    TAIL_TOKENS,
    UNDECIDED,
    TailTest,
    hit_probability,
    tail_logits,
)

NEARER = (12.0, 14.0)
LEAST_HITS = 25
FINE_GAP = 25.0
FINE = {
    "inverse_cdf": [2.0**-40],
    "gumbel": [[-math.log(2.0**-40), 1.0]],
    "exponential_race": [[2.0**-40, 0.5]],
}
"""Noise that only a finer grid than 2^-32 holds, with which the first of the logits [-25, 0] is drawn."""


class Tails(Pairs):
    """Draws tokens far below the best."""

    def tail(self) -> None:
        """Tail tokens are drawn at their rate, at the largest gap of which the tier's draws expect enough hits."""
        draws = max(1, self.session.tier.law_values // (TAIL_TOKENS + 1))
        rates = {gap: hit_probability(EXACT, gap) for gap in (*NEARER, *GAPS)}
        gap = max((g for g in rates if rates[g] * draws >= LEAST_HITS), default=NEARER[0])
        case = row(f"{TAIL_TOKENS} tokens {gap:g} nats below the best", tail_logits(gap))
        self._in_rounds(draws, partial(self.support, case), partial(self._hits, case, gap))

    def _hits(self, case: Case, gap: float, ids: Ids) -> None:
        """The draws `ids` of a row whose tail lies `gap` nats below its best token hit the tail at their rate."""
        rate, draws, hits = hit_probability(EXACT, gap), len(ids), int(np.count_nonzero(ids))
        test = TailTest()
        log_e = test.observe(gap, hits, draws)
        self.statistics.append(
            Statistic(
                method=f"e-process of hits in the tail, {gap:g} nats",
                draws=draws,
                alpha=self.alpha,
                log10_e=round(min(log_e / math.log(10), 1e6), 4),
                mde_tv=float(f"{tail_effect(gap, draws, self.alpha) * rate:.4g}"),
                cells=2,
            )
        )
        if log_e >= -math.log(self.alpha):
            source = test.source()
            like = "" if source in (EXACT, OTHER, UNDECIDED) else f", as with noise of a {source}"
            self.fail(
                case, 0,
                f"about {rate * draws:.0f} of {draws} draws in the tail", f"{hits}{like}",
                tokens=[0, 1], effect=f"{1 - hits / (rate * draws):.0%} of the tail lost",
            )  # fmt: skip
        self.passed("tail", f"{hits} of {draws} draws in the tail, {rate * draws:.0f} expected")

    def fine_noise(self) -> None:
        """Noise in float64 decides as float64: a token 25 nats below the best is drawn when its noise says so."""
        case = row("25 nats below", [-FINE_GAP, 0.0])
        self.supports(case)
        if self.session.capabilities.noise != "replayable":
            self.conclude(Verdict.UNSUPPORTED, "not declared: replayable noise")
        wide = row("a thousand tokens", np.zeros(1000))
        self.answer(wide)
        _, seen = self._noise(wide)
        if np.array_equal(seen, seen.astype(np.float32)):
            self.conclude(Verdict.UNSUPPORTED, "the noise handed out is float32's")
        self.answer(case)
        kind, _ = self._noise(case)
        self.ask(case.name, "inject", np.array(FINE[kind]))
        drawn = int(self.again(case).ids[0])
        self.equal(case, 0, f"for {kind} noise of 2^-40 the id", 0, drawn, tokens=[0, 1])
