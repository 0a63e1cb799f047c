"""docs/coverage.md names checks that exist, some for every blind spot."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "coverage.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| blind spot")
]


def checks() -> set[str]:
    """The names of all checks of the suites, without their prefix."""
    trees = [ast.parse(p.read_text("utf-8")) for p in (ROOT / "conformance/suites").glob("*.py")]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {f.name.removeprefix("test_") for f in functions if f.name.startswith("test_")}


def test_every_blind_spot_has_a_row() -> None:
    """The page has the twelve blind spots that checks of the suite can cover."""
    assert len(ROWS) == 12


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_named_checks_exist(row: list[str]) -> None:
    """Every row names at least two checks, all of which the suites have."""
    named = set(re.findall(r"`(\w+)`", row[2]))
    assert (named - checks(), len(named) >= 2) == (set(), True)
