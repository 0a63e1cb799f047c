"""The suites on the answers of a desk: pytest with another judge in the place of the suites' own."""

import json
from collections.abc import Generator
from dataclasses import dataclass, field, fields, replace

import pytest

from aliquot.conformance.backend import Capabilities
from aliquot.conformance.isolation import described
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.plugin import RESULT_KEY
from aliquot.conformance.run import Listener, Order, quiet_pytest, results_of
from aliquot.conformance.tiers import TIERS, TIME_LIMIT
from aliquot.conformance.vectors.backend import VectorBackend
from aliquot.conformance.vectors.desk import Desk, NotAnswered
from aliquot.conformance.vectors.judge import VectorJudge
from aliquot.reports.results import CheckResult, RunResults, Verdict, check_from_dict


class SuiteError(Exception):
    """Suites that could not run; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a run of the suites needs beside the desk; `words` are the command to reproduce it."""

    capabilities: Capabilities
    tier: str
    seed: int
    only: str | None = None
    words: tuple[str, ...] = ()


@dataclass(eq=False)
class Plugin:
    """Pytest plugin: the judge on a desk's answers, and the results gathered."""

    desk: Desk
    setting: Setting
    listener: Listener
    total: int = 0
    checks: dict[str, CheckResult] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def pytest_configure(self, config: pytest.Config) -> None:
        """Register the fixtures last, so that they take the place of the suites' own."""
        config.pluginmanager.register(Fixtures(self.desk, self.setting))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn the number of checks."""
        self.total = len(session.items)
        self.listener(0, self.total, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of a finished check."""
        data = dict(report.user_properties).get(RESULT_KEY)
        if report.when == "call" and data:
            check = check_from_dict(json.loads(str(data)))
            self.checks[check.id] = check
            self.listener(len(self.checks), self.total, check)
        elif report.failed:
            self.problems.append(report.longreprtext.strip().splitlines()[-1])


@dataclass(eq=False)
class Fixtures:
    """Pytest plugin: the session and the judge of a check, under the names of the suites' own."""

    desk: Desk
    setting: Setting

    @pytest.fixture(scope="session")
    def aliquot_session(self) -> Session:
        """The session of the checks, each of which has a backend of its own."""
        backend = VectorBackend(self.desk, "", self.setting.capabilities)
        return Session("vectors", backend, TIERS[self.setting.tier], self.setting.seed)

    @pytest.fixture
    def judge(self, judge: Judge) -> VectorJudge:
        """The judge of this check on answers from the desk."""
        backend = VectorBackend(self.desk, judge.check_id, self.setting.capabilities)
        given = {f.name: getattr(judge, f.name) for f in fields(Judge) if f.init}
        session = replace(judge.session, backend=backend)
        return VectorJudge(**{**given, "session": session, "words": self.setting.words})

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """A check that cannot be seen in data does not run; one that lacks an answer ends as UNSUPPORTED."""
        judge: VectorJudge = item.funcargs["judge"]  # type: ignore[attr-defined]
        if not judge.clause_ids:
            judge.conclude(Verdict.UNSUPPORTED, f"not in the vectors: {judge.reasons[0]}")
        try:
            return (yield)
        except NotAnswered as absent:
            judge.missing(absent)
            judge.conclude(Verdict.UNSUPPORTED, f"not answered: {absent}")


def run(
    desk: Desk, setting: Setting, listener: Listener = lambda done, total, check: None
) -> RunResults:
    """Run the suites on a desk's answers, in this process.

    Raises SuiteError when no check has an id that begins as wanted or when the suites end early.
    """
    order, plugin = _order(setting), Plugin(desk, setting, listener)
    code = quiet_pytest(order.arguments(), plugin)
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and setting.only:
        raise SuiteError(f"--only {setting.only}: no check has an id that begins so")
    if plugin.problems or len(plugin.checks) < plugin.total or not plugin.checks:
        reason = plugin.problems[0] if plugin.problems else f"pytest says {code!s}"
        raise SuiteError(f"the suites ended after {len(plugin.checks)} of {plugin.total}: {reason}")
    backend = described(VectorBackend(desk, "", setting.capabilities))
    return results_of(order, backend, (plugin.checks[name] for name in sorted(plugin.checks)))


def _order(setting: Setting) -> Order:
    return Order(
        spec="vectors", tier=setting.tier, seed=setting.seed, workers=0, only=setting.only,
        time_limit=TIME_LIMIT, budget=0.0,
    )  # fmt: skip
