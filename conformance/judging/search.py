"""Evidence by search: generated cases, the smallest of those that fail."""

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyFailure
from hypothesis.strategies import SearchStrategy

from aliquot.conformance.case import Case
from aliquot.conformance.judging.batches import Batches
from aliquot.conformance.judging.outcome import Concluded


class Search(Batches):
    """Lets Hypothesis choose the rows."""

    def searched(self, cases: SearchStrategy[Case], judge: Callable[[Case], None]) -> None:
        """Judge generated cases; the finding is that of the smallest one found to fail.

        What is generated depends on the run's seed alone; nothing is kept for later runs.
        """
        start, examples = int(self.rng.integers(2**63)), self.session.tier.support_draws // 2
        clause_ids, title, notes = self.clause_ids, self.title, len(self.notes)

        def example(case: Case) -> None:
            self.verdict, self.finding, self.clause_ids, self.title = None, None, clause_ids, title
            self.rng = np.random.default_rng(start)
            del self.notes[notes:]
            judge(case)

        options = settings(
            max_examples=examples,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(start)(options(given(cases)(example)))()
        except FlakyFailure as flaky:
            raise Concluded(f"{self.verdict} {self.check_id}: {self.reason}") from flaky
        self.notes.append(f"in {examples} generated cases")
