"""No typed-in tolerance stands in the repository: every one is derived."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "contract",
    "oracle",
    "fast",
    "conformance",
    "statistical",
    "reports",
    "tests",
    "benchmarks",
)
KEYWORDS = {"rtol", "atol", "rel_tol", "abs_tol"}
NAMES = {"approx", "isclose", "allclose", "assert_allclose", "assert_almost_equal", "assert_close"}


def tolerances(source):
    """The lines of Python text that name a tolerance or a comparison that needs one."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = {
            ast.keyword: lambda n: [n.arg],
            ast.Name: lambda n: [n.id],
            ast.Attribute: lambda n: [n.attr],
            ast.arg: lambda n: [n.arg],
            ast.alias: lambda n: [n.name],
        }.get(type(node), lambda n: [])(node)
        found += [(name, getattr(node, "lineno", 0)) for name in names if name in KEYWORDS | NAMES]
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_typed_in_tolerances(folder):
    """No rtol, atol, approx, isclose or allclose, in code or tests."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    found = {str(p.relative_to(ROOT)): tolerances(p.read_text("utf-8")) for p in paths}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    ["f(x, rtol=1e-3)", "np.allclose(a, b)", "x == pytest.approx(1)", "from math import isclose"],
)
def test_the_lint_sees_them(source):
    """Each way of typing in a tolerance is found."""
    assert len(tolerances(source)) == 1
