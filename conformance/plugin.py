"""Pytest plugin: the options of a run, the `judge` fixture and the result of each check.

`pytest --pyargs aliquot.conformance.suites --backend fast --tier pr --seed 0` runs the suites; tests that
do not ask for `judge` are not affected.
"""

import json
import re
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from aliquot.conformance.tiers import ALPHA, TIERS

if TYPE_CHECKING:
    from aliquot.conformance.judge import Judge, Session

RESULT_KEY = "aliquot-result"
_CLAUSE = re.compile(r"[A-Z]+\d\d")
_shares = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a conformance run."""
    group = parser.getgroup("aliquot", "conformance of token samplers")
    group.addoption(
        "--backend", default="fast", help="sampler under test: NAME, module:Name or fault:NAME"
    )
    group.addoption("--tier", default="smoke", choices=tuple(TIERS), help="budget of draws")
    group.addoption("--seed", type=int, default=0, help="seed of the run's noise")
    group.addoption("--only", default=None, help="run the checks whose id starts with this")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of checks that spend false-alarm budget."""
    config.addinivalue_line(
        "markers", "statistical: spends a share of the run's false-alarm budget"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count the statistical checks, then keep those that `--only` names.

    The count comes first, so that a check run alone has the same share as in the whole run.
    """
    config.stash[_shares] = sum(1 for item in items if item.get_closest_marker("statistical"))
    only = config.getoption("--only")
    if only:
        chosen = [
            item for item in items if "judge" in _fixtures(item) and check_id(item).startswith(only)
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def _fixtures(item: pytest.Item) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


def check_id(item: pytest.Item) -> str:
    """The check's id: the test's name without its prefix."""
    return item.name.removeprefix("test_")


@pytest.fixture(scope="session")
def aliquot_session(pytestconfig: pytest.Config) -> "Session":
    """The backend under test with tier and seed, made once per process."""
    from aliquot.conformance.backend import BackendLoadError, load
    from aliquot.conformance.judge import Session

    spec = pytestconfig.getoption("--backend")
    try:
        backend = load(spec)
    except BackendLoadError as error:
        pytest.exit(str(error), returncode=2)
    return Session(
        spec, backend, TIERS[pytestconfig.getoption("--tier")], pytestconfig.getoption("--seed")
    )


@pytest.fixture
def judge(request: pytest.FixtureRequest, aliquot_session: "Session") -> "Judge":
    """The judge of this check."""
    from aliquot.conformance.judge import Judge

    item = request.node
    statistical = item.get_closest_marker("statistical") is not None
    callspec = getattr(item, "callspec", None)
    return Judge(
        session=aliquot_session,
        check_id=check_id(item),
        clause_ids=tuple(_CLAUSE.findall(item.originalname or item.name)),
        title=(item.function.__doc__ or "").strip().splitlines()[0].rstrip("."),
        case_name=callspec.id if callspec else "",
        alpha=ALPHA / item.config.stash[_shares] if statistical else 0.0,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Attach the check's result to its report and turn the verdict into pytest's outcome."""
    judge: Judge | None = getattr(item, "funcargs", {}).get("judge")
    if judge is None:
        return (yield)
    from aliquot.conformance.backend import one_line
    from aliquot.conformance.judge import Concluded
    from aliquot.reports.results import Verdict, check_to_dict

    try:
        outcome = yield
    except Concluded:
        outcome = None
    except BaseException as error:
        judge.verdict, judge.reason = Verdict.ERROR, f"the check itself raised {one_line(error)}"
        raise
    finally:
        result = judge.result(item.path.stem.removeprefix("test_"))
        item.user_properties.append((RESULT_KEY, json.dumps(check_to_dict(result))))
    if judge.verdict is Verdict.UNSUPPORTED:
        pytest.skip(judge.reason)
    if judge.verdict in (Verdict.FAIL, Verdict.ERROR):
        pytest.fail(f"{judge.verdict} {judge.check_id}: {judge.reason}", pytrace=False)
    return outcome
