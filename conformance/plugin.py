"""Pytest plugin: the options of a run, the `judge` fixture and the result of each check.

`pytest --pyargs aliquot.conformance.suites --backend fast --tier pr --seed 0` runs the suites; tests that
do not ask for `judge` are not affected.
"""

import json
import math
import re
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aliquot.conformance.isolation import Watch
from aliquot.conformance.tiers import ALPHA, BUDGET, TIERS, TIME_LIMIT
from aliquot.statistical.ledger import Ledger

if TYPE_CHECKING:
    from aliquot.conformance.judge import Judge
    from aliquot.conformance.judging.outcome import Session
    from aliquot.reports.results import CheckResult

RESULT_KEY = "aliquot-result"
CHANCE = frozenset({"law", "independence", "tail", "exact mass"})
"""Evidence that a right sampler may fail by chance: a check that has it is marked `statistical`."""

WATCH_FOLDER = "aliquot_watch_folder"
_CLAUSE = re.compile(r"[A-Z]+\d\d")
_alphas = pytest.StashKey[dict[str, float]]()
_unseen_alphas = pytest.StashKey[dict[str, float]]()
_seconds = pytest.StashKey[float]()
_watch = pytest.StashKey[Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a conformance run."""
    group = parser.getgroup("aliquot", "conformance of token samplers")
    group.addoption(
        "--backend", default="fast", help="sampler under test: NAME, module:Name or fault:NAME"
    )
    group.addoption("--tier", default="smoke", choices=tuple(TIERS), help="budget of draws")
    group.addoption("--seed", type=int, default=0, help="seed of the run's noise")
    group.addoption("--only", default=None, help="run the checks whose id starts with this")
    group.addoption("--time-limit", type=float, default=TIME_LIMIT, help="seconds for one answer")
    group.addoption(
        "--budget", type=float, default=BUDGET, help="minutes of further draws in tier deep"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of checks that spend false-alarm budget; in a worker of a run, watch the backend."""
    config.addinivalue_line(
        "markers", "statistical: spends a share of the run's false-alarm budget"
    )
    given = getattr(config, "workerinput", {})
    if WATCH_FOLDER in given:
        folder, limit = Path(given[WATCH_FOLDER]), config.getoption("--time-limit")
        config.stash[_watch] = Watch(folder, given["workerid"], limit)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stop the clock of the time limit after each check."""
    try:
        return (yield)
    finally:
        if _watch in item.config.stash:
            item.config.stash[_watch].rest()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share the false-alarm budget out, then keep the checks that `--only` names.

    One half is for the checks marked `statistical`, the other for rows that the backend does not show, in any
    check. The shares come first, so that a check run alone has the same as in the whole run.
    """
    judging = [item for item in items if "judge" in _fixtures(item)]
    half = ALPHA / 2
    config.stash[_alphas] = Ledger(half).grant_evenly(map(check_id, _statistical(items)))
    config.stash[_unseen_alphas] = Ledger(half).grant_evenly(map(check_id, judging))
    only = config.getoption("--only")
    if only:
        chosen = [item for item in judging if check_id(item).startswith(only)]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
    config.stash[_seconds] = seconds_each(config, len(_statistical(items)))


def _statistical(items: list[pytest.Item]) -> list[pytest.Item]:
    return [item for item in items if item.get_closest_marker("statistical")]


def seconds_each(config: pytest.Config, checks: int) -> float:
    """Seconds of further draws for each of the statistical checks: the budget of all workers, in equal parts."""
    if not TIERS[config.getoption("--tier")].open_ended or not checks:
        return 0.0
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    minutes: float = config.getoption("--budget")
    return minutes * 60 * workers / checks


def _fixtures(item: pytest.Item) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


def check_id(item: pytest.Item) -> str:
    """The check's id: the test's name without its prefix."""
    return item.name.removeprefix("test_")


@pytest.fixture(scope="session")
def aliquot_session(pytestconfig: pytest.Config) -> "Session":
    """The backend under test with tier and seed, made once per process."""
    from aliquot.conformance.backend import BackendLoadError, load
    from aliquot.conformance.judging.outcome import Session

    spec = pytestconfig.getoption("--backend")
    watched = pytestconfig.stash.get(_watch, None)
    try:
        backend = watched.make(spec) if watched else load(spec)
    except BackendLoadError as error:
        pytest.exit(str(error), returncode=2)
    return Session(
        spec, backend, TIERS[pytestconfig.getoption("--tier")], pytestconfig.getoption("--seed")
    )


@pytest.fixture
def judge(request: pytest.FixtureRequest, aliquot_session: "Session") -> "Judge":
    """The judge of this check."""
    return judge_of(request.node, aliquot_session)


def judge_of(item: pytest.Function, session: "Session") -> "Judge":
    """The judge of a collected check, of the backend in the session."""
    from aliquot.conformance.declared import missing_for
    from aliquot.conformance.judge import Judge

    named = tuple(_CLAUSE.findall(item.originalname or item.name))
    missing = {clause: missing_for(clause, session.capabilities) for clause in named}
    tested = tuple(clause for clause in named if not missing[clause])
    alpha = item.config.stash[_alphas].get(check_id(item), 0.0)
    callspec = getattr(item, "callspec", None)
    return Judge(
        session=session,
        check_id=check_id(item),
        clause_ids=tested or named,
        undeclared="" if tested else "; ".join(dict.fromkeys(missing.values())),
        title=(item.function.__doc__ or "").strip().splitlines()[0].rstrip("."),
        case_name=callspec.id if callspec else "",
        alpha=alpha,
        unseen_alpha=item.config.stash[_unseen_alphas].get(check_id(item), 0.0),
        seconds=item.config.stash[_seconds] if alpha else 0.0,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Attach the check's result to its report and turn the verdict into pytest's outcome."""
    judge: Judge | None = getattr(item, "funcargs", {}).get("judge")
    if judge is None:
        return (yield)
    from aliquot.conformance.backend import one_line
    from aliquot.conformance.judging.outcome import Concluded
    from aliquot.reports.results import Verdict, check_to_dict

    try:
        outcome = yield
    except Concluded:
        outcome = None
    except BaseException as error:
        judge.verdict, judge.reason = Verdict.ERROR, f"the check itself raised {one_line(error)}"
        raise
    finally:
        result = accounted(judge.result(item.path.stem.removeprefix("test_")))
        item.user_properties.append((RESULT_KEY, json.dumps(check_to_dict(result))))
    if result.verdict is Verdict.UNSUPPORTED:
        pytest.skip(result.reason)
    if result.verdict in (Verdict.FAIL, Verdict.ERROR):
        pytest.fail(f"{result.verdict} {result.id}: {result.reason}", pytrace=False)
    return outcome


def accounted(result: "CheckResult") -> "CheckResult":
    """The result, an ERROR when its tests spend more of the false-alarm budget than the check was granted."""
    from aliquot.reports.results import Verdict

    chance = CHANCE.intersection(result.evidence.split(", "))
    spent = math.fsum(s.alpha for s in result.statistics if s.gates)
    rounding = len(result.statistics) * math.ulp(1.0)
    if chance and not result.alpha:
        reason = f"it decides by chance ({', '.join(sorted(chance))}) and is not marked statistical"
    elif spent > result.alpha * (1 + rounding):
        reason = (
            f"it spends {spent:.3g} of the false-alarm bound and was granted {result.alpha:.3g}"
        )
    else:
        return result
    return replace(result, verdict=Verdict.ERROR, reason=reason, finding=None)
