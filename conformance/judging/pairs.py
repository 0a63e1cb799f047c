"""Evidence by pairs of draws: rows, steps and seeds that share no noise."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from aliquot.conformance.case import Case
from aliquot.conformance.judging.draws import Ids
from aliquot.conformance.judging.noise import Noise
from aliquot.reports.results import Statistic
from aliquot.statistical.eprocess import log_mean_e
from aliquot.statistical.independence import TABLE_SIDES, Independence, match_test
from aliquot.statistical.power import known_law_effect, pair_effect

SIDE = TABLE_SIDES[0]


class Pairs(Noise):
    """Looks at where two draws fall together, which their own laws do not show."""

    def stepped(self, case: Case, steps: int, *, grow: bool = False) -> Ids:
        """Draw the same batch step after step: int64 [steps, rows].

        The backend's noise goes on from step to step. With `grow` every output list is one token longer at each.
        """
        self.supports(case)
        self.reseed()
        batches = (_longer(case, step) if grow else case for step in range(steps))
        return np.stack([self.again(batch).ids for batch in batches])

    def independent(self, case: Case, *, grow: bool = False) -> None:
        """Rows of one law draw independently of each other and of themselves at other steps.

        One e-process averages, over all ways to pair, the pair tables and how often the two ids are equal. Rows that
        grow are drawn in one go: their seeds would draw the same again.
        """
        draws, test = self.session.tier.support_draws, partial(self._paired_all_ways, case)
        if grow:
            test(self.stepped(case, draws, grow=True))
        else:
            self._in_rounds(draws, partial(self.stepped, case), test)

    def _paired_all_ways(self, case: Case, ids: Ids) -> None:
        law = self.expect(case).laws[0]
        tables = Independence(law, ids.shape[1])
        tables.observe(ids)
        log_es = {}
        for name, pairs_of in tables.pairings.items():
            first, second = pairs_of(ids)
            equal = match_test(law, law).observe((first == second).astype(np.int64))
            log_es[name] = log_mean_e([tables.tests[name].log_e, equal])
        share = self.alpha / (2 * len(log_es))
        self._pairs_decide(case, log_es, ids.size // 2, pair_effect(SIDE, ids.size // 2, share))

    def unlike(self, case: Case, pairs: Sequence[tuple[int, int]], ids: Ids) -> None:
        """Rows paired as given, of one law, draw independently; `ids` are int64 [steps, rows]."""
        law = self.expect(case).laws[0]
        first, second = (ids[:, [pair[end] for pair in pairs]] for end in (0, 1))
        equal = match_test(law, law).observe((first == second).astype(np.int64))
        effect = known_law_effect(2, first.size, self.alpha, partitions=1)
        self._pairs_decide(case, {"pairs named": equal}, first.size, effect)

    def _pairs_decide(
        self, case: Case, log_es: dict[str, float], pairs: int, effect: float
    ) -> None:
        log_e = log_mean_e(list(log_es.values()))
        self.statistics.append(
            Statistic(
                method="e-process of pairs",
                draws=pairs,
                alpha=self.alpha,
                log10_e=round(min(log_e / math.log(10), 1e6), 4),
                mde_tv=float(f"{effect:.4g}"),
            )
        )
        if log_e >= -math.log(self.alpha):
            strongest = max(log_es, key=lambda name: log_es[name])
            self.fail(
                case, 0,
                "independent draws",
                f"draws that are 10^{log_e / math.log(10):.0f} times likelier if they share noise, by {strongest}",
                effect=f"seen in {pairs} pairs",
            )  # fmt: skip
        self.passed("independence", f"{pairs} pairs of draws are independent")


def _longer(case: Case, step: int) -> Case:
    grown = [replace(r, output_token_ids=[*r.output_token_ids, *[0] * step]) for r in case.requests]
    return replace(case, requests=tuple(grown))
