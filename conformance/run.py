"""A whole run: the suites in pytest, its workers' results gathered into one."""

import json
import os
import platform
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import pytest

import aliquot
from aliquot.conformance.backend import Backend, load
from aliquot.conformance.plugin import RESULT_KEY
from aliquot.conformance.tiers import ALPHA
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
PACKAGES = ("numpy", "scipy", "torch")
Listener = Callable[[int, int, CheckResult | None], None]


class RunError(Exception):
    """A run that could not take place; the message is one line."""


@dataclass(eq=False)
class Collector:
    """Pytest plugin of the controlling process: gathers results and reports progress."""

    listener: Listener
    command: str
    total: int = 0
    checks: dict[str, CheckResult] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learn the number of checks, in a run without workers."""
        self._announce(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """Learn the number of checks from a worker."""
        self._announce(len(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what went wrong while collecting."""
        if report.failed:
            self.problems.append(f"{report.nodeid}: {report.longreprtext.splitlines()[-1]}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of a finished check, or note that it has none."""
        data = dict(report.user_properties).get(RESULT_KEY)
        if report.when == "call" and data:
            self._add(check_from_dict(json.loads(str(data))))
        elif report.failed:
            self._add(_broken(report, self.command))

    def _announce(self, total: int) -> None:
        if total and not self.total:
            self.total = total
            self.listener(0, total, None)

    def _add(self, check: CheckResult) -> None:
        self.checks[check.id] = check
        self.listener(len(self.checks), self.total, check)


def _broken(report: pytest.TestReport, command: str) -> CheckResult:
    """The result of a check that left none: its process died (ERR18), or the suite is at fault."""
    name = report.nodeid.rpartition("::")[2].removeprefix("test_")
    lines = report.longreprtext.strip().splitlines() or ["no reason given"]
    crashed = "crashed while running" in lines[-1]
    finding = Finding(
        witness={"case": name},
        wanted="an answer or an exception",
        got="the process ended",
        reproduce=f"{command} --only {shlex.quote(name)}",
    )
    return CheckResult(
        id=name,
        clauses=("ERR18",),
        group="robustness",
        title="No crash",
        case="",
        evidence="none",
        verdict=Verdict.FAIL if crashed else Verdict.ERROR,
        reason="the backend ended its process" if crashed else lines[-1],
        finding=finding if crashed else None,
    )


def run(
    spec: str,
    *,
    tier: str,
    seed: int,
    workers: int,
    only: str | None = None,
    listener: Listener = lambda done, total, check: None,
) -> RunResults:
    """Run the suites on the backend that `spec` names.

    `workers` processes share the checks (0: none beside this one); the results do not depend on their number.
    Raises BackendLoadError when the backend cannot be made, RunError when no check ran.
    """
    backend = load(spec)
    command = shlex.join(["aliquot", "run", "--backend", spec, "--tier", tier, "--seed", str(seed)])
    collector = Collector(listener, command)
    code = _pytest(_arguments(spec, tier, seed, workers, only), collector)
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and only:
        raise RunError(f"--only {only}: no check has an id that begins so")
    done, total = len(collector.checks), collector.total
    if code not in COMPLETE or not done or done < total:
        reason = collector.problems[0] if collector.problems else f"pytest says {code!s}"
        raise RunError(f"the run ended after {done} of {total} checks: {reason}")
    return _results(backend, tier, seed, collector.checks)


def _pytest(arguments: list[str], collector: Collector) -> int:
    """Run pytest without what a user's folder or environment would add to it."""
    before = dict(os.environ)
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        return pytest.main(arguments, plugins=[collector])
    finally:
        os.environ.clear()
        os.environ.update(before)


def _arguments(spec: str, tier: str, seed: int, workers: int, only: str | None) -> list[str]:
    suites = files("aliquot.conformance.suites")
    arguments = [
        "--pyargs", "aliquot.conformance.suites",
        "-c", str(suites.joinpath("pytest.ini")), "--rootdir", str(suites),
        "-p", "aliquot.conformance.plugin", "-p", "xdist.plugin",
        "-p", "no:cacheprovider", "-p", "no:terminal", "--noconftest",
        "--backend", spec, "--tier", tier, "--seed", str(seed),
    ]  # fmt: skip
    if workers:
        arguments += ["-n", str(workers)]
    return arguments + (["--only", only] if only else [])


def _results(backend: Backend, tier: str, seed: int, checks: dict[str, CheckResult]) -> RunResults:
    told = tuple(
        ClauseInfo(id=c.id, group=c.group, title=c.title, text=c.text, level=c.level)
        for c in clauses().values()
    )
    return RunResults(
        aliquot=aliquot.__version__,
        backend=_describe(backend),
        tier=tier,
        seed=seed,
        alpha=ALPHA,
        environment=environment(),
        clauses=told,
        checks=tuple(checks[name] for name in sorted(checks)),
    )


def _describe(backend: Backend) -> BackendInfo:
    declared = backend.capabilities
    return BackendInfo(
        name=declared.name,
        version=declared.version,
        device=declared.device,
        dtypes=tuple(declared.dtypes),
        accuracy=declared.accuracy,
        noise=declared.noise,
        parameters=tuple(sorted(declared.parameters)),
        freedoms=declared.profile.as_dict(),
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
