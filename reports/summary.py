"""What a run says in one line and in a few numbers; shared by all pages."""

import math
from collections import defaultdict
from collections.abc import Iterable

from aliquot.reports.results import WHOLE_LAW, CheckResult, RunResults, Statistic, Verdict
from aliquot.reports.text import ALPHA, MINUS, count, plural, scientific

MEANINGS = {
    Verdict.PASS: "the sampler did what the clause says",
    Verdict.FAIL: "the sampler broke the clause; a finding gives the case",
    Verdict.KNOWN: "it broke the clause as a listed known failure says; red once that entry expires",
    Verdict.UNDECIDED: "the difference lies inside the derived rounding band",
    Verdict.DIVERGES: "it differs where the contract leaves a choice that the backend declared",
    Verdict.UNSUPPORTED: "the backend does not declare the capability that the check needs",
    Verdict.ERROR: "the check could not run; says nothing of the sampler",
}
"""What each verdict means, in a few words."""

SAYS_NOTHING = frozenset({Verdict.UNDECIDED, Verdict.UNSUPPORTED, Verdict.ERROR})
"""Verdicts of checks that leave open whether the sampler keeps the clause."""

_OUTCOMES = {
    Verdict.KNOWN: "failing as known",
    Verdict.UNDECIDED: "undecided",
    Verdict.DIVERGES: "diverging by a declared freedom",
    Verdict.UNSUPPORTED: "not supported",
    Verdict.ERROR: "could not run",
}


def headline(results: RunResults) -> str:
    """The verdict in one sentence, without the verdict's own word: "3 of 214 checks failed"."""
    counts, total = results.counts, len(results.checks)
    if not total:
        return "no check ran"
    if results.verdict is Verdict.FAIL:
        return f"{count(counts[Verdict.FAIL])} of {plural(total, 'check')} failed"
    if counts[Verdict.ERROR]:
        return f"{count(counts[Verdict.ERROR])} of {plural(total, 'check')} could not run"
    if results.verdict is Verdict.PASS:
        return f"{count(counts[Verdict.PASS])} of {plural(total, 'check')} passed, none failed"
    return f"none of {plural(total, 'check')} passed"


def others(results: RunResults) -> str:
    """The outcomes that the headline leaves out: "4 undecided, 2 not supported"."""
    counts = results.counts
    if results.verdict is Verdict.ERROR:
        counts[Verdict.ERROR] = 0
    return ", ".join(f"{count(counts[v])} {words}" for v, words in _OUTCOMES.items() if counts[v])


def first_error(results: RunResults) -> CheckResult | None:
    """The first check that could not run, if that is the verdict of the run."""
    if results.verdict is not Verdict.ERROR:
        return None
    return next((check for check in results.checks if check.verdict is Verdict.ERROR), None)


def title_of(results: RunResults, check: CheckResult) -> str:
    """The clause ids of a check and the title of the first: "TOPK03 Ties at the k-th stay"."""
    titles = {clause.id: clause.title for clause in results.clauses}
    first = next((titles[clause] for clause in check.clauses if clause in titles), check.title)
    return f"{', '.join(check.clauses)} {first}".strip()


def first_failure(results: RunResults) -> CheckResult | None:
    """The check that failed and says most about the cause."""
    return next(iter(results.failures), None)


def failures(results: RunResults) -> dict[tuple[str, ...], list[CheckResult]]:
    """The failed checks by the clauses that they test, the most telling first."""
    return by_clauses(results.failures)


def by_clauses(checks: Iterable[CheckResult]) -> dict[tuple[str, ...], list[CheckResult]]:
    """Checks by the set of clauses that they test, in their order."""
    groups: dict[tuple[str, ...], list[CheckResult]] = defaultdict(list)
    for check in checks:
        groups[check.clauses].append(check)
    return dict(groups)


def evidence_share(statistic: Statistic) -> float:
    """How far the evidence goes towards a finding: 0 is none, 1 the limit that `alpha` sets.

    log(p) / log(alpha) for a p-value, log(e) / log(1 / alpha) for an e-value. Infinite for p = 0, NaN
    where alpha sets no limit (alpha not between 0 and 1).
    """
    if not 0 < statistic.alpha < 1:
        return math.nan
    limit = -math.log10(statistic.alpha)
    if statistic.log10_e is not None:
        return max(statistic.log10_e, 0.0) / limit
    if statistic.p_value is None:
        return math.nan
    return -math.log10(statistic.p_value) / limit if statistic.p_value > 0 else math.inf


def measured(statistic: Statistic) -> str:
    """The measured value: "p = 0.41" or "log₁₀ e = 4.20"."""
    if statistic.log10_e is not None:
        return f"log₁₀ e = {statistic.log10_e:.2f}".replace("-", MINUS)
    return f"p = {scientific(statistic.p_value)}" if statistic.p_value is not None else "no value"


def conditions(statistic: Statistic) -> str:
    """What the value was measured with: the draws, cells, share of alpha and detectable effect."""
    parts = [plural(statistic.draws, "draw")]
    if statistic.cells is not None:
        parts.append(plural(statistic.cells, "cell"))
    if statistic.gates and statistic.alpha:
        parts.append(f"{ALPHA} = {scientific(statistic.alpha)}")
    if statistic.mde_tv is not None and statistic.mde_tv < WHOLE_LAW:
        parts.append(f"finds TV ≥ {scientific(statistic.mde_tv)}")
    if statistic.pooled:
        parts.append(statistic.pooled)
    return ", ".join(parts)


def gating_tests(results: RunResults) -> int:
    """How many statistical tests spend a share of the false-alarm bound."""
    return sum(1 for check in results.checks for s in check.statistics if s.gates and s.alpha)


def bound(results: RunResults) -> str:
    """The run's false-alarm bound and what was spent of it, in one line."""
    return (
        f"false alarms: at most {scientific(results.spent)} "
        f"of {scientific(results.alpha)}, over {plural(len(results.drawing), 'statistical check')}"
    )


def effects(results: RunResults) -> str:
    """The smallest detectable effects of the clauses in one line: the range over clauses that draw."""
    found = [effect.mde_tv for effect in results.effects]
    spread = " to ".join(dict.fromkeys([scientific(min(found)), scientific(max(found))]))
    return f"finds a total variation of {spread}, by clause, with probability 0.99"


def known_failures(results: RunResults) -> list[CheckResult]:
    """The checks that fail as known, those that expire first at the head."""
    known = [check for check in results.checks if check.known]
    return sorted(known, key=lambda check: (check.known.expires if check.known else "", check.id))
