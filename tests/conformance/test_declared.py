"""Which clauses a declaration puts to the test."""

from dataclasses import replace

import pytest

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.declared import EDITS, NEEDS, missing_for
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.plugin import judge_of
from aliquot.conformance.selftest import checks
from aliquot.conformance.tiers import TIERS
from aliquot.contract.clauses import clauses

NONE = replace(DECLARED, parameters=frozenset())


def test_every_beginning_is_that_of_clauses() -> None:
    """No entry of the table waits for a clause that the contract does not have."""
    assert [prefix for prefix, _ in NEEDS if not any(c.startswith(prefix) for c in clauses())] == []


@pytest.mark.parametrize(("prefix", "parameters"), NEEDS)
def test_one_of_the_parameters_is_enough(prefix: str, parameters: tuple[str, ...]) -> None:
    """Without any the clause is not tested, and the words name them; with one it is."""
    clause = next(c for c in clauses() if c.startswith(prefix))
    assert missing_for(clause, NONE) == " or ".join(parameters)
    one = replace(DECLARED, parameters=frozenset(parameters[:1]))
    assert missing_for(clause, one) == ""


def test_a_check_tests_the_clauses_that_are_declared() -> None:
    """Of a check of several clauses those of undeclared parameters go; a check of nothing else says what lacks."""
    declared = replace(DECLARED, parameters=frozenset({"top_k"}))
    session = Session("ids", OracleBackend(capabilities=declared), TIERS["smoke"], 0)
    items = {item.name: item for item in checks.collected("smoke", 0, None)}
    several = next(n for n in items if n.startswith("test_MINP01_TOPK01_TOPK06_TOPP01_TOPP06"))
    mixed = judge_of(items[several], session)
    alone = judge_of(items["test_MINP04_zero_is_off"], session)
    assert (mixed.clause_ids, mixed.undeclared) == (("TOPK01", "TOPK06"), "")
    assert (alone.clause_ids, alone.undeclared) == (("MINP04",), "min_p")


def test_what_edits_a_row_is_a_parameter() -> None:
    """The edits of GREEDY05 are names that a backend can declare."""
    assert set(EDITS) <= DECLARED.parameters
