"""Causes: which rules explain what was seen, and which of them leads."""

import numpy as np

from aliquot.conformance import causes
from aliquot.conformance.adapters.fast import FastBackend
from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.behaviour.suspects import suspected
from aliquot.conformance.case import row
from aliquot.conformance.faults import FAULTS
from aliquot.reports.results import CheckResult, Finding, Verdict

ONE, OTHER = FAULTS["topk-one-more"].about, FAULTS["topk-one-is-32"].about


KEPT, LIKELIER = "the kept tokens are those that result", "the draws are 10^9 times likelier"


def failed(name: str, *abouts: str, clause: str = "TOPK01", seen: str = KEPT) -> CheckResult:
    """A failed check that these rules explain, the first leading."""
    texts = tuple(f"{seen} if {about}" for about in abouts)
    finding = Finding(
        witness={}, wanted="", got="", reproduce="",
        likely_cause=texts[0] if texts else None, explanations=texts,
    )  # fmt: skip
    return CheckResult(
        id=name, clauses=(clause,), group="filters", title="", case="", evidence="exact",
        verdict=Verdict.FAIL, reason="", finding=finding,
    )  # fmt: skip


def test_the_rule_that_explains_most_failures_leads_them() -> None:
    """A failure that two rules explain is led by the one that explains others too, and blames its clauses."""
    checks = causes.agreed([failed("a", ONE, OTHER), failed("b", OTHER), failed("c")])
    leads = [causes.about(c.finding.likely_cause or "") for c in checks if c.finding]
    assert leads == [OTHER, OTHER, ""]
    assert checks[0].finding is not None
    assert checks[0].finding.blames == FAULTS["topk-one-is-32"].clauses


def test_no_likelihood_speaks_where_draws_depend_on_each_other() -> None:
    """Rules that do not explain the dependence are dropped, though they make most draws likelier."""
    shared = FAULTS["unseeded-shared-stream"].about
    laws = [failed(name, ONE, clause="DRAW01", seen=LIKELIER) for name in "abc"]
    both = failed("d", ONE, shared, clause="DRAW01", seen=LIKELIER)
    kept = failed("e", ONE)
    found = causes.agreed([*laws, both, kept, failed("f", shared, clause="DRAW03", seen="")])
    leads = [causes.about(c.finding.likely_cause or "") for c in found if c.finding]
    assert leads == [shared] * 4 + [ONE, shared]
    alone = causes.agreed([*laws, failed("f", clause="DRAW03")])
    assert next(causes.about(c.finding.likely_cause or "") for c in alone if c.finding) == ONE


def test_the_likeliest_cause_of_a_run() -> None:
    """The rule that explains most findings is the run's cause; without an explanation there is none."""
    findings = [c.finding for c in (failed("a", ONE), failed("b", OTHER, ONE)) if c.finding]
    assert causes.likeliest(findings) == ONE
    assert causes.likeliest([]) == ""


def test_values_far_from_every_rule_have_no_cause() -> None:
    """Values that neither the contract nor a known rule comes near to are not explained."""
    case = row("three", [3.0, 2.0, 1.0], top_k=2).asking("processed_logits", logprobs=-1)
    wild = np.array([11.0, -7.0, -np.inf])
    assert causes.of_values(case, 0, wild, DECLARED) is None


def test_right_samplers_have_no_suspects() -> None:
    """On the oracle and on the production sampler no probe finds a fault."""
    case = row("three", [3.0, 2.0, 1.0])
    clauses = ("ERR16", "IO08", "DRAW03", "DRAW05", "INV03", "STATE01", "LOGP02", "GREEDY01")
    for backend in (OracleBackend(), FastBackend()):
        assert suspected(backend, clauses, case, 0) is None
