"""The fault library: what it covers, and that a cheap check kills each fault and flags no equivalent sampler."""

import re

import pytest
from kills import KILLED_BY

from aliquot.conformance import causes
from aliquot.conformance.faults import EQUIVALENTS, FAULTS
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.selftest import checks
from aliquot.conformance.tiers import TIERS
from aliquot.contract.clauses import clauses
from aliquot.reports.results import CheckResult, Verdict

CLASSES = {f"F{number}" for number in range(1, 16)} - {"F13"}
REPORT = re.compile(r"[\w.-]+/[\w.-]+ (PR|issue) \d+")
CHEAP = (
    "TOPP01_mass_before_the_token", "TOPP07", "TOPK02", "TOPK06_fewer", "MINP01_threshold", "MINP03",
    "DRAW01_the_law[three", "DRAW05", "LOGP05", "LOGP10", "INV03_ERR17_SEED02_batches_with_bad_rows[9]",
)  # fmt: skip


def judged(name: str, *beginnings: str) -> list[CheckResult]:
    """The results of the checks whose ids begin so on a known sampler, tier smoke."""
    known = FAULTS | EQUIVALENTS
    session = Session(f"fault:{name}", known[name].make(), TIERS["smoke"], 0)
    items = checks.collected("smoke", 0, None)
    return [
        checks.judged(item, session)
        for item in items
        if item.name.removeprefix("test_").startswith(beginnings)
    ]


def test_the_library_covers_every_class_but_speculative_decoding() -> None:
    """Every class of faults F1 to F12, F14 and F15 has faults."""
    assert {fault.group for fault in FAULTS.values()} == CLASSES


def test_the_library_is_modelled_on_many_reports() -> None:
    """At least 60 faults name at least 40 different public reports, each as owner/name and a number."""
    reports = {fault.report for fault in FAULTS.values()}
    assert len(FAULTS) >= 60
    assert len(reports) >= 40
    assert [report for report in reports if not REPORT.fullmatch(report)] == []


def test_there_are_equivalent_samplers() -> None:
    """At least eight samplers are different and right."""
    assert len(EQUIVALENTS) >= 8


def test_faults_break_clauses_of_the_contract() -> None:
    """Every fault names at least one clause, and only clauses that exist."""
    named = {fault.name: fault.clauses for fault in FAULTS.values()}
    assert [name for name, broken in named.items() if not broken] == []
    assert {clause for broken in named.values() for clause in broken} <= set(clauses())


def test_what_is_wrong_is_said_differently_for_every_fault() -> None:
    """No two faults are described by the same words, by which causes are told apart."""
    assert len({fault.about for fault in FAULTS.values()}) == len(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_named_check_kills_each_fault_and_names_it(name: str) -> None:
    """The check goes red and the fault is among the causes that explain it."""
    found = judged(name, KILLED_BY[name])
    assert [check.verdict for check in found] == [Verdict.FAIL]
    finding = found[0].finding
    assert finding is not None
    assert FAULTS[name].about in {causes.about(text) for text in finding.explanations}


@pytest.mark.parametrize("name", EQUIVALENTS)
def test_no_cheap_check_flags_an_equivalent_sampler(name: str) -> None:
    """An equivalent sampler passes the checks of filters, law, noise, logprobs and bad rows."""
    found = judged(name, *CHEAP)
    assert len(found) > 20
    assert [check.id for check in found if check.verdict in (Verdict.FAIL, Verdict.ERROR)] == []
