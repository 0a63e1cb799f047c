"""The checks of the suites, collected once and judged on one sampler after another."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from aliquot.conformance import plugin
from aliquot.conformance.backend import one_line
from aliquot.conformance.judging.outcome import Concluded, Session
from aliquot.conformance.run import Order, RunError, quiet_pytest
from aliquot.conformance.tiers import BUDGET, TIME_LIMIT
from aliquot.reports.results import CheckResult, Verdict


class _Taken:
    """Pytest plugin that keeps the collected checks."""

    items: Sequence[pytest.Item] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep them, with their shares of the false-alarm budget."""
        self.items = list(session.items)


@cache
def collected(tier: str, seed: int, only: str | None) -> tuple[Any, ...]:
    """The checks of a tier as pytest collects them; raises RunError when there are none."""
    order = Order(
        spec="oracle", tier=tier, seed=seed, workers=0, only=only,
        time_limit=TIME_LIMIT, budget=BUDGET,
    )  # fmt: skip
    taken = _Taken()
    quiet_pytest([*order.arguments(), "--collect-only"], taken)
    if not taken.items:
        raise RunError(f"--checks {only}: no check has an id that begins so")
    return tuple(taken.items)


def judged(item: Any, session: Session) -> CheckResult:
    """The result of one collected check on the session's sampler, as `aliquot run` has it."""
    judge = plugin.judge_of(item, session)
    arguments = item.callspec.params if hasattr(item, "callspec") else {}
    try:
        item.function(judge, **arguments)
    except Concluded:
        pass
    except Exception as error:
        judge.verdict, judge.reason = Verdict.ERROR, f"the check itself raised {one_line(error)}"
    return plugin.accounted(judge.result(item.path.stem.removeprefix("test_")))
