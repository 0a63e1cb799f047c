"""A whole run: the suites in pytest, its workers' results gathered into one.

The backend lives in worker processes, so that its crash or endless loop is a finding and the run goes on; this process
never imports it. With `workers=0` it lives in this process, for backends that are trusted to return (the oracle, the
fault library).
"""

import json
import os
import platform
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import aliquot
from aliquot.conformance import isolation
from aliquot.conformance.backend import BackendLoadError, load
from aliquot.conformance.causes import agreed
from aliquot.conformance.known import NONE_KNOWN, Known
from aliquot.conformance.plugin import RESULT_KEY, WATCH_FOLDER
from aliquot.conformance.tiers import ALPHA, BUDGET, TIME_LIMIT
from aliquot.contract.clauses import clauses
from aliquot.reports.results import (
    BackendInfo,
    CheckResult,
    ClauseInfo,
    Finding,
    RunResults,
    Verdict,
    check_from_dict,
)

COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
UNMADE = 64
"""Exit code of a pytest session that ends because its backend cannot be made."""

RESTARTS = 100_000
"""More than there are checks: no number of crashes ends a run."""

PHASES = ("setup", "call", "teardown")
PACKAGES = ("numpy", "scipy", "torch")
Listener = Callable[[int, int, CheckResult | None], None]


class RunError(Exception):
    """A run that could not take place; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to run: see `run`."""

    spec: str
    tier: str
    seed: int
    workers: int
    only: str | None
    time_limit: float
    budget: float

    @property
    def command(self) -> str:
        """The shell command of this run, without the choice of checks."""
        words = ["aliquot", "run", "--backend", self.spec, "--tier", self.tier,
                 "--seed", str(self.seed)]  # fmt: skip
        if self.time_limit != TIME_LIMIT:
            words += ["--time-limit", f"{self.time_limit:g}"]
        return shlex.join(words)

    def arguments(self) -> list[str]:
        """Arguments of pytest."""
        suites = files("aliquot.conformance.suites")
        arguments = [
            "--pyargs", "aliquot.conformance.suites",
            "-c", str(suites.joinpath("pytest.ini")), "--rootdir", str(suites),
            "-p", "aliquot.conformance.plugin", "-p", "xdist.plugin",
            "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler", "--noconftest",
            "--backend", self.spec, "--tier", self.tier, "--seed", str(self.seed),
            "--time-limit", str(self.time_limit), "--budget", str(self.budget),
        ]  # fmt: skip
        if self.workers:
            arguments += ["-n", str(self.workers), "--max-worker-restart", str(RESTARTS)]
        return arguments + (["--only", self.only] if self.only else [])


@dataclass(eq=False)
class Collector:
    """Pytest plugin of the controlling process: gathers results and reports progress.

    `folder` is where workers leave what is to be known of their end; `unmade` says why a worker has no backend.
    """

    order: Order
    folder: Path
    known: Known
    listener: Listener
    ids: list[str] = field(default_factory=list)
    checks: dict[str, CheckResult] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    backend: BackendInfo | None = None
    unmade: str = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn the checks, in a run without workers."""
        self._announce([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where to leave its files."""
        node.workerinput[WATCH_FOLDER] = str(self.folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """Learn the checks from a worker."""
        self._announce(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """End the run when a worker could not make the backend."""
        worker = node.gateway.id
        end = isolation.ending(self.folder, worker, self.order.time_limit)
        self.unmade = isolation.refused(self.folder, worker)
        if error and end.call.get("call") == isolation.MAKING:
            self.unmade = f"backend {self.order.spec}: {end.words}"
        if self.unmade:
            pytest.exit(self.unmade, returncode=UNMADE)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what went wrong while collecting."""
        if report.failed:
            self.problems.append(f"{report.nodeid}: {report.longreprtext.splitlines()[-1]}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of a finished check, or note that it has none."""
        data = dict(report.user_properties).get(RESULT_KEY)
        if report.when == "call" and data:
            self._add(check_from_dict(json.loads(str(data))))
        elif report.failed and report.when in PHASES:
            lines = report.longreprtext.strip().splitlines() or ["no reason given"]
            self._add(_without_result(report.nodeid, lines[-1]))

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """Take the end of a worker's process as the result of the check that it was at."""
        end = isolation.ending(self.folder, report.node.gateway.id, self.order.time_limit)
        self._add(check_of_ending(crashitem, end, self.order.command))

    def finish(self, reason: str) -> None:
        """Give every check that did not run the verdict ERROR with this reason."""
        for nodeid in self.ids:
            if _name(nodeid) not in self.checks:
                self._add(_without_result(nodeid, f"not run: {reason}"))

    def _announce(self, ids: list[str]) -> None:
        if ids and not self.ids:
            self.ids = list(ids)
            self.listener(0, len(ids), None)

    def _add(self, check: CheckResult) -> None:
        self.checks[check.id] = marked = self.known.mark(check)
        self.listener(len(self.checks), len(self.ids), marked)


def _name(nodeid: str) -> str:
    """The id of the check behind a test of the suites."""
    return nodeid.partition("::")[2].removeprefix("test_")


def check_of_ending(nodeid: str, end: isolation.Ending, command: str) -> CheckResult:
    """The result of a check whose process ended: a finding (ERR18), unless the check itself took too long."""
    name = _name(nodeid)
    if end.late and not end.call:
        return _without_result(nodeid, "the check itself outran the time limit, between two calls")
    finding = Finding(
        witness={"case": name, **end.call},
        wanted="an answer or an exception",
        got=end.words,
        reproduce=f"{command} --only {shlex.quote(name)}",
    )
    title = clauses()["ERR18"].title
    return CheckResult(
        id=name, clauses=("ERR18",), group=_group(nodeid), title=title, case=_case(name),
        evidence="none", verdict=Verdict.FAIL,
        reason=f"wanted {finding.wanted}, got {finding.got}", finding=finding,
    )  # fmt: skip


def _without_result(nodeid: str, reason: str) -> CheckResult:
    """The result of a check that could not run."""
    name = _name(nodeid)
    return CheckResult(
        id=name, clauses=tuple(re.findall(r"[A-Z]+\d\d", name.partition("[")[0])),
        group=_group(nodeid), title="could not run", case=_case(name),
        evidence="none", verdict=Verdict.ERROR, reason=reason,
    )  # fmt: skip


def _group(nodeid: str) -> str:
    return Path(nodeid.partition("::")[0]).stem.removeprefix("test_")


def _case(name: str) -> str:
    return name.partition("[")[2].removesuffix("]")


def run(
    spec: str,
    *,
    tier: str,
    seed: int,
    workers: int,
    only: str | None = None,
    time_limit: float = TIME_LIMIT,
    budget: float = BUDGET,
    known: Known = NONE_KNOWN,
    listener: Listener = lambda done, total, check: None,
) -> RunResults:
    """Run the suites on the backend that `spec` names.

    `workers` processes share the checks; the results do not depend on their number. With none the backend lives in
    this process, whose end it then may be. `time_limit` are the seconds that it has for one answer (in workers),
    `budget` the minutes that tier `deep` draws on, `known` the failures that do not make the run red.
    Raises BackendLoadError when the backend cannot be made, RunError when no check ran.
    """
    order = Order(
        spec=spec, tier=tier, seed=seed, workers=workers, only=only,
        time_limit=time_limit, budget=budget,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="aliquot-") as folder:
        collector = Collector(order, Path(folder), known, listener)
        if not workers:
            collector.backend = isolation.described(load(spec))
        code = quiet_pytest(order.arguments(), collector)
        collector.backend = collector.backend or isolation.declared(collector.folder)
    _complete(collector, code)
    return _results(collector)


def _complete(collector: Collector, code: int) -> None:
    """See that every check has a result; raises when none has one or the run was interrupted."""
    order, done, total = collector.order, len(collector.checks), len(collector.ids)
    if collector.unmade and not done:
        raise BackendLoadError(collector.unmade)
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and order.only:
        raise RunError(f"--only {order.only}: no check has an id that begins so")
    if code == UNMADE:
        return collector.finish(collector.unmade)
    if code not in COMPLETE or not done or done < total:
        reason = collector.problems[0] if collector.problems else f"pytest says {code!s}"
        raise RunError(f"the run ended after {done} of {total} checks: {reason}")
    return None


def quiet_pytest(arguments: list[str], plugin: object) -> int:
    """Run pytest without what a user's folder or environment would add to it."""
    before = dict(os.environ)
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        return pytest.main(arguments, plugins=[plugin])
    finally:
        os.environ.clear()
        os.environ.update(before)


def _results(collector: Collector) -> RunResults:
    assert collector.backend is not None
    whole = collector.order.only is None
    checks = collector.checks | collector.known.verdicts(collector.checks, whole=whole)
    return results_of(
        collector.order, collector.backend, agreed(checks[name] for name in sorted(checks))
    )


def results_of(order: Order, backend: BackendInfo, checks: Iterable[CheckResult]) -> RunResults:
    """The results of a run's checks, with what they depend on."""
    told = tuple(
        ClauseInfo(id=c.id, group=c.group, title=c.title, text=c.text, level=c.level)
        for c in clauses().values()
    )
    return RunResults(
        aliquot=aliquot.__version__,
        backend=backend,
        tier=order.tier,
        seed=order.seed,
        alpha=ALPHA,
        environment=environment(),
        clauses=told,
        checks=tuple(checks),
    )


def environment() -> dict[str, str]:
    """Versions that a result depends on."""
    found: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
