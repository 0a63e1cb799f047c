"""Evidence by draws: the support, the law, and rows whose mass reaches p exactly."""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from aliquot.conformance import causes, law_test
from aliquot.conformance.case import Case
from aliquot.conformance.causes import Cause
from aliquot.conformance.judging.calls import NO_ROWS
from aliquot.conformance.judging.exact import Exact, ids_in_words
from aliquot.reports.results import SUPPORT, Statistic
from aliquot.statistical.support import minimum_detectable_mass

Ids = npt.NDArray[np.int64]

CHUNK_VALUES = 1 << 21
CHUNK_ROWS = 1 << 12
SHOWN_DRAW_LESS, UNSEEN_DRAW_MORE = 4, 16
MOST_DRAWN = 1 << 24
ONE_MORE = "one token more is kept when the mass reaches p exactly"


class Draws(Exact):
    """Draws rows many times over."""

    def drawn(self, case: Case, draws: int, bad: int | None = None) -> Ids:
        """Draw every row of the case `draws` times: int64 [draws, rows]; row `bad` may be marked invalid."""
        rows = len(case.requests)
        parts = []
        for part in self._parts(case, draws):
            marked = NO_ROWS if bad is None else frozenset(range(bad, len(part.requests), rows))
            parts.append(self.answer(part, bad=marked).ids)
        return np.concatenate(parts).reshape(draws, rows)

    def _parts(self, case: Case, draws: int) -> Iterator[Case]:
        """The case `draws` times over, in tiles of bounded size."""
        most = max(1, min(CHUNK_ROWS, CHUNK_VALUES // case.vocab_size) // len(case.requests))
        if draws >= most:
            yield from itertools.repeat(case.tiled(most), draws // most)
        if draws % most:
            yield case.tiled(draws % most)

    def support(self, case: Case, draws: int | None = None) -> Ids:
        """No token outside what the filters may keep is drawn; returns the draws."""
        self.supports(case)
        return self._inside(case, self.drawn(case, draws or self.session.tier.support_draws))

    def _inside(self, case: Case, ids: Ids) -> Ids:
        """Fail when one of the draws [draws, rows] is outside what the filters may keep; returns the draws."""
        expected = self.expect(case)
        for r in range(len(case.requests)):
            may = expected.drawable(r)
            outside = ids[~may[ids[:, r]], r]
            if outside.size:
                self.fail(
                    case, r,
                    f"draws in {ids_in_words(np.flatnonzero(may))}",
                    f"id {outside[0]}, drawn {outside.size} times in {len(ids)}",
                    tokens=np.unique(outside)[:8].tolist(),
                    effect=f"{outside.size / len(ids):.3g} of the draws",
                    cause=causes.of_draws(case, r, ids[:, r], self.session.capabilities),
                    kind="support", draws=int(np.argmin(may[ids[:, r]])) + 1,
                )  # fmt: skip
        effect = float(f"{minimum_detectable_mass(len(ids)):.4g}")
        self.statistics.append(
            Statistic(method=SUPPORT, draws=len(ids), alpha=0.0, p_value=1.0, mde_tv=effect)
        )
        self.passed("support", f"{len(ids)} draws a row inside the allowed set")
        return ids

    def filters(self, case: Case) -> None:
        """Processed rows where the backend shows them, and then a few draws; elsewhere the law of many draws."""
        self.supports(case)
        self.processed(case)
        self._by_draws(case)

    @property
    def _sees_rows(self) -> bool:
        return self.shows("processed_logits") or self.shows("processed_logprobs")

    def _by_draws(self, case: Case) -> None:
        draws = self.session.tier.support_draws
        if self._sees_rows:
            self.support(case, draws // SHOWN_DRAW_LESS)
        elif self.unseen_alpha:
            self._unseen(case, self.support(case, self._unseen_draws(case)))
        else:
            self.support(case)

    def _unseen_draws(self, case: Case) -> int:
        tier = self.session.tier
        affordable = tier.law_values // UNSEEN_DRAW_MORE // case.logits.size
        return max(tier.support_draws, min(UNSEEN_DRAW_MORE * tier.support_draws, affordable))

    def _unseen(self, case: Case, ids: Ids) -> None:
        """Test draws [draws, rows] against the laws of rows that are not shown; a seeded row draws one token only.

        The n-th such case of a check spends 6 / (pi n)^2 of the check's share, which sums to one share over any number.
        """
        self.unseen_laws += 1
        expected = self.expect(case)
        fresh = [r for r, q in enumerate(case.requests) if q.params.seed is None]
        random = [r for r in fresh if r not in expected.greedy_rows]
        share = self.unseen_alpha * 6 / (math.pi * self.unseen_laws) ** 2
        for r in random:
            law_test.gate_row(self, case, expected, r, ids[:, r], share / len(random))

    def law(self, case: Case) -> None:
        """The draws of every random row follow the oracle's law."""
        draw = partial(self.support, case)
        self._in_rounds(self._law_draws(case), draw, partial(self._laws, case))

    def _in_rounds(
        self, draws: int, draw: Callable[[int], Ids], test: Callable[[Ids], None]
    ) -> None:
        """Draw that often and test; with time left (tier deep), draw more and test all draws so far.

        The e-process goes on over the rounds, so that one alpha covers them together.
        """
        ends = time.monotonic() + self.seconds
        ids = draw(draws)
        statistics, notes = len(self.statistics), len(self.notes)
        test(ids)
        while time.monotonic() < ends and ids.size < MOST_DRAWN:
            ids = np.concatenate([ids, draw(self._next_round(len(ids), ends))])
            del self.statistics[statistics:], self.notes[notes:]
            test(ids)

    def _next_round(self, drawn: int, ends: float) -> int:
        """Draws of a further round: as many as all before, or fewer where that would pass the end of the time."""
        left = ends - time.monotonic()
        affordable = drawn * left / max(self.seconds - left, 1e-9)
        return max(self.session.tier.support_draws, int(min(drawn, affordable)))

    def _law_draws(self, case: Case) -> int:
        """How often the tier draws a case for its law: rows of a large vocabulary less often."""
        tier = self.session.tier
        return max(1, min(tier.law_draws, tier.law_values // case.logits.size))

    def _laws(self, case: Case, ids: Ids) -> None:
        """Test draws int64 [draws, rows] against the laws of the case's rows, which share alpha."""
        expected = self.expect(case)
        oracle = expected.draws(len(ids), self.rng)
        share = self.alpha / len(case.requests)
        for r in range(len(case.requests)):
            law_test.judge_row(self, case, expected, r, ids[:, r], oracle[:, r], share)

    def law_beside_bad(self, case: Case, bad: int) -> None:
        """The random rows beside row `bad` follow their laws."""
        self.supports(case)
        good = [r for r in range(len(case.requests)) if r != bad]
        self._in_rounds(
            self._law_draws(case),
            partial(self.drawn, case, bad=bad),
            lambda ids: self._laws(case.only(good), ids[:, good]),
        )

    def exact_mass(self, cases: Sequence[Case]) -> None:
        """Rows whose mass reaches p exactly in float32: the next token stays, or not, as declared.

        In real arithmetic each row's mass lies beside p by less than the rounding bound, on the side where the rule
        says the same as for equality, so no single row decides. A sampler that follows the rule departs from it
        only by rounding, in a row with probability at most 1/2; departing in every row then has probability 2^-rows.
        """
        self.supports(cases[0])
        one_more = self.session.capabilities.profile.topp_exact == "one_more"
        departs = [self._keeps_edge(case, one_more) != one_more for case in cases]
        if all(departs) and 2.0 ** -len(cases) <= self.alpha:
            rule, seen = ("one more", "no more") if one_more else ("no more", "one more")
            self.fail(
                cases[0], 0,
                f"{rule} token kept when the mass reaches p",
                f"{seen} kept in all {len(cases)} rows whose mass equals p in float32",
                cause=None if one_more else Cause(ONE_MORE, ("TOPP02",), (f"that results if {ONE_MORE}",)),
            )  # fmt: skip
        self.passed("exact mass", f"{sum(departs)} of {len(cases)} rows differ by rounding")

    def _keeps_edge(self, case: Case, one_more: bool) -> bool:
        """Whether a token is kept before which the mass reaches p, seen in values or in draws."""
        expected, logits = self.expect(case), case.logits[0]
        edge = ~expected.surely_kept(0)
        if one_more:
            may = expected.drawable(0)
            edge = may & (logits == logits[may].min())
        if self.shows("processed_logits"):
            shown = self.answer(case.asking("processed_logits", logprobs=-1)).logprobs
            return shown is not None and bool((shown[0][edge] != -np.inf).any())
        ids = self.drawn(case, self.session.tier.support_draws)[:, 0]
        return bool(edge[ids].any())
