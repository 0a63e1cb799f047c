"""Clauses, oracle lines and test names belong together, in both directions."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from aliquot.contract.clauses import clauses
from aliquot.contract.profile import CANONICAL
from aliquot.oracle import batch_state, logprobs, pipeline, sampler, speculative

ROOT = Path(__file__).parents[2]
ID = re.compile(r"[A-Z]+\d\d")
NAMED = re.compile(r"test_((?:[A-Z]+\d\d_)+)")
WAITING = tomllib.loads((Path(__file__).parent / "waiting.toml").read_text("utf-8"))


def sources(*folders):
    """The Python files below some folders of the repository."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def ids_in_test_names():
    """Clause ids in the names of all tests, with the files they stand in."""
    found = {}
    for path in sources("tests", "conformance/suites"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and (match := NAMED.match(node.name)):
                for clause in ID.findall(match[1]):
                    found.setdefault(clause, set()).add(path.name)
    return found


@cache
def ids_at_lines():
    """Clause ids in the comments of the oracle and of the contract's own checks."""
    lines = (
        line
        for path in sources("oracle", "contract")
        for line in path.read_text("utf-8").split("\n")
    )
    comments = (line.partition("  # ")[2] for line in lines)
    return {clause for comment in comments for clause in ID.findall(comment)}


def waiting(kind):
    """The clauses that a dated list lets wait."""
    return {entry["clause"] for entry in WAITING.get(kind, ())}


def test_every_clause_has_a_test(capsys):
    """A clause is named by a test or waits on the list, which is printed."""
    with capsys.disabled():
        print(*(f"\nwaits for a test since {e['since']}: {e['clause']}" for e in WAITING["test"]))
    assert set(clauses()) - set(ids_in_test_names()) - waiting("test") == set()


def test_every_test_names_a_clause_that_exists():
    """No test is named after an unknown clause."""
    unknown = {c: files for c, files in ids_in_test_names().items() if c not in clauses()}
    assert unknown == {}


def test_nothing_waits_in_vain():
    """An entry of the list leaves it as soon as a test names the clause, and names a clause that exists."""
    done = waiting("test") & set(ids_in_test_names())
    assert (done, waiting("test") - set(clauses())) == (set(), set())


def test_every_clause_stands_at_a_line():
    """The line that implements a clause carries its id, unless the list says where else it is decided."""
    assert set(clauses()) - ids_at_lines() - waiting("line") == set()


def test_every_line_names_a_clause_that_exists():
    """No line carries an unknown id, and none that the list calls unwritten."""
    assert (ids_at_lines() - set(clauses()), ids_at_lines() & waiting("line")) == (set(), set())


@pytest.mark.parametrize("step", pipeline.CONTRACT, ids=lambda step: step.name)
def test_every_step_has_clauses(step):
    """A step of the oracle implements at least one clause, and only clauses that exist."""
    assert set(step.clauses) & set(clauses()) == set(step.clauses) != set()


@pytest.mark.parametrize("module", [batch_state, logprobs, sampler, speculative])
def test_modules_beside_the_steps_have_clauses(module):
    """So do the modules that are no steps."""
    assert set(module.CLAUSES) & set(clauses()) == set(module.CLAUSES) != set()


def test_docstrings_are_the_normative_text():
    """Each step's module docstring states every clause that the step implements."""
    modules = {
        step.name: __import__(step.run.__module__, fromlist=["x"]) for step in pipeline.CONTRACT
    }
    missing = {
        step.name: [c for c in step.clauses if c not in modules[step.name].__doc__]
        for step in pipeline.CONTRACT
    }
    assert set(map(tuple, missing.values())) == {()}


def test_ids_are_unique_and_grouped():
    """Every id begins with its group's prefix and ids count up without gaps."""
    text = (ROOT / "contract" / "clauses.toml").read_text("utf-8")
    assert len(re.findall(r'^id = "', text, re.M)) == len(clauses())


def test_levels_and_freedoms_exist():
    """Levels are must, should or may; freedoms are fields of Profile."""
    levels = {clause.level for clause in clauses().values()}
    named = {clause.freedom for clause in clauses().values()} - {""}
    assert (levels, named - set(CANONICAL.as_dict())) == ({"must", "should", "may"}, set())
