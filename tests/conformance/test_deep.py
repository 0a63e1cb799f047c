"""Tier deep: rounds of draws under one e-process, and the false-alarm budget that checks may spend."""

import contextlib
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.case import row
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging import draws
from aliquot.conformance.judging.outcome import Concluded, Session
from aliquot.conformance.plugin import accounted, seconds_each
from aliquot.conformance.tiers import TIERS
from aliquot.contract.batch import Batch
from aliquot.reports.results import CheckResult, Statistic, Verdict

ALPHA = 1e-8
CASE = row("four", [0.0, 0.5, 1.0, 1.5])
SMALL = replace(TIERS["deep"], law_draws=2_000, support_draws=64)


class Biased(OracleBackend):
    """Every 40th draw is token 0 instead, and the noise is not shown."""

    def __init__(self) -> None:
        super().__init__(capabilities=replace(DECLARED, noise="opaque"))

    def sample(self, logits: Any, batch: Batch) -> Any:
        """The oracle's answer with some ids replaced."""
        output = super().sample(logits, batch)
        output.sampled_token_ids[::40] = 0
        return output


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is one second further at every look."""
    ticks = itertools.count()
    monkeypatch.setattr(draws.time, "monotonic", lambda: float(next(ticks)))


def judged(
    act: Callable[[Judge], None], seconds: float, backend: OracleBackend | None = None
) -> CheckResult:
    """The result of one statistical check with that much time for further draws."""
    session = Session("oracle", backend or OracleBackend(), SMALL, 0)
    judge = Judge(session, "DRAW01_check", ("DRAW01",), "title", "", alpha=ALPHA, seconds=seconds)
    with contextlib.suppress(Concluded):
        act(judge)
    return judge.result("group")


def gate(result: CheckResult) -> Statistic:
    """The one statistic that decides with a share of alpha."""
    (found,) = (s for s in result.statistics if s.gates and s.alpha)
    return found


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_time_left_is_drawn_on(seconds: float) -> None:
    """Without time a check draws once; with time it goes on and shows one test of all draws."""
    result = judged(lambda judge: judge.law(CASE), seconds)
    few, many = SMALL.law_draws, gate(result).draws
    assert result.verdict is Verdict.PASS
    assert (many == few) if not seconds else (many > 4 * few)
    assert result.reason.endswith(f"{many} draws follow the law")
    assert gate(result).alpha == ALPHA


@pytest.mark.usefixtures("clock")
def test_further_rounds_find_what_the_first_does_not() -> None:
    """A bias too small for the first round is found in the evidence of all, and the search stops there."""
    once = judged(lambda judge: judge.law(CASE), 0.0, Biased())
    on = judged(lambda judge: judge.law(CASE), 100.0, Biased())
    evidence = [gate(result).log10_e or 0.0 for result in (once, on)]
    assert (once.verdict, on.verdict) == (Verdict.PASS, Verdict.FAIL)
    assert evidence[0] < -math.log10(ALPHA) <= evidence[1]
    assert SMALL.law_draws < gate(on).draws < draws.MOST_DRAWN


@pytest.mark.usefixtures("clock")
def test_the_most_draws_end_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check stops at the most draws that are kept, however much time is left."""
    monkeypatch.setattr(draws, "MOST_DRAWN", 10_000)
    assert 10_000 <= gate(judged(lambda judge: judge.law(CASE), 30.0)).draws <= 20_000


@pytest.mark.usefixtures("clock")
def test_pairs_go_on_too() -> None:
    """The test of pairs draws on, all its pairs in one e-process."""
    flat = row("flat", np.zeros(8))
    once, on = (judged(lambda judge: judge.independent(flat), s) for s in (0.0, 20.0))
    assert (once.verdict, on.verdict) == (Verdict.PASS, Verdict.PASS)
    assert gate(on).draws > 4 * gate(once).draws


def test_the_time_is_shared_by_the_checks() -> None:
    """The budget of all workers is divided by the statistical checks, and only an open-ended tier has one."""
    options = {"--tier": "deep", "--budget": 30.0}
    config: Any = SimpleNamespace(getoption=options.get, workerinput={"workercount": 2})
    assert seconds_each(config, 40) == 90.0
    assert seconds_each(config, 0) == 0.0
    options["--tier"] = "full"
    assert seconds_each(config, 40) == 0.0


def checked(**fields: Any) -> CheckResult:
    """A passed check."""
    made = {
        "id": "DRAW01_x", "clauses": ("DRAW01",), "group": "draw", "title": "x", "case": "",
        "evidence": "exact", "verdict": Verdict.PASS, "reason": "as wanted",
    }  # fmt: skip
    return CheckResult(**{**made, **fields})


def spending(alpha: float, *, gates: bool = True) -> Statistic:
    """A test that spends `alpha`."""
    return Statistic(method="m", draws=1, alpha=alpha, log10_e=0.0, gates=gates)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"alpha": 3e-8, "evidence": "law", "statistics": (spending(1e-8),) * 3},
        {"alpha": 1e-8, "statistics": (spending(1e-8), spending(1e-8, gates=False))},
        {"statistics": (spending(0.0),)},
    ],
)
def test_a_check_within_its_share_keeps_its_verdict(fields: dict[str, Any]) -> None:
    """What is granted may be spent over several tests; what does not decide and what has no chance spends nothing."""
    check = checked(**fields)
    assert accounted(check) is check


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"statistics": (spending(1e-9),)},
            "it spends 1e-09 of the false-alarm bound and was granted 0",
        ),
        (
            {"alpha": 1e-8, "statistics": (spending(1e-8),) * 2},
            "it spends 2e-08 of the false-alarm bound and was granted 1e-08",
        ),
        (
            {"evidence": "exact, independence"},
            "it decides by chance (independence) and is not marked statistical",
        ),
        ({"evidence": "law"}, "it decides by chance (law) and is not marked statistical"),
    ],
)
def test_a_check_that_spends_uncounted_is_an_error(fields: dict[str, Any], said: str) -> None:
    """A check that spends more than its share, or decides by chance without one, says nothing of the sampler."""
    found = accounted(checked(**fields))
    assert (found.verdict, found.reason) == (Verdict.ERROR, said)
