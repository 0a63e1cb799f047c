"""A run as lines for the terminal."""

from collections import Counter

from aliquot.reports.results import CheckResult, RunResults, Verdict
from aliquot.reports.summary import bound, by_clauses, effects, known_failures
from aliquot.reports.text import count, plural, printable

SHOWN = 10
INDENT = " " * 5


def to_terminal(results: RunResults) -> list[str]:
    """The lines that a run ends with: its red and known checks, what it can find and its verdict."""
    counts = ", ".join(f"{n} {verdict}" for verdict, n in results.counts.items() if n)
    lines = [
        *red_checks(results),
        *_shown([[check] for check in known_failures(results)], "more check", "failing as known"),
        bound(results),
        *([effects(results)] if results.effects else []),
        f"{results.verdict}: {results.backend.name}, tier {results.tier}, seed {results.seed}: {_why(results)}{counts}",
    ]
    return [printable(line) for line in lines]


def _why(results: RunResults) -> str:
    """What an ERROR without a check that could not run means."""
    undecided = results.verdict is Verdict.ERROR and not results.counts[Verdict.ERROR]
    return "nothing was decided: " if undecided else ""


def red_checks(results: RunResults) -> list[str]:
    """The failed checks, then those that could not run: of each set of clauses the first, with their number.

    Checks that test the same clauses fail for like reasons, so that no kind of failure hides behind the copies of
    another. The last lines count all sets and give the cause named most often.
    """
    broken = [check for check in results.checks if check.verdict is Verdict.ERROR]
    lines = []
    for verdict, red in ((Verdict.FAIL, list(results.failures)), (Verdict.ERROR, broken)):
        sets = list(by_clauses(red).values())
        lines += _shown(sets, "more set", f"of clauses with {verdict}")
        lines += [*_tally(red, verdict), *_cause(red)]
    return [printable(line) for line in lines]


def _shown(groups: list[list[CheckResult]], noun: str, rest: str) -> list[str]:
    """The first check of each of the first groups, and how many groups are left out, in words."""
    lines = [line for group in groups[:SHOWN] for line in _first(group)]
    hidden = len(groups) - SHOWN
    return [*lines, f"{INDENT}and {plural(hidden, noun)} {rest}"] if hidden > 0 else lines


def _first(group: list[CheckResult]) -> list[str]:
    """The first check of a group: its reason, likely cause and command, or the link of a known failure."""
    check, finding = group[0], group[0].finding
    number = f" (first of {count(len(group))})" if len(group) > 1 else ""
    lines = [f"{' '.join((check.verdict, *check.clauses, check.id))}{number}: {check.reason}"]
    if check.known:
        lines.append(f"{INDENT}{check.known.link}")
    elif finding:
        lines += [f"{INDENT}likely cause: {finding.likely_cause}"] if finding.likely_cause else []
        lines += [f"{INDENT}{finding.reproduce}"] if finding.reproduce else []
    return lines


def _tally(red: list[CheckResult], verdict: Verdict) -> list[str]:
    """How many checks of each set of clauses are red, the most first: every check counts once."""
    sets = Counter(" ".join(check.clauses) or "known failures" for check in red)
    if len(sets) < 2:
        return []
    counted = ", ".join(f"{clauses} ({count(n)})" for clauses, n in sets.most_common())
    return [f"{plural(len(red), 'check')} with {verdict}, by the clauses they test: {counted}"]


def _cause(red: list[CheckResult]) -> list[str]:
    """The likely cause that most of the red checks name, and the clauses it breaks."""
    causes = Counter(
        (check.finding.likely_cause.partition(" if ")[2], " ".join(check.finding.blames))
        for check in red
        if check.finding and check.finding.likely_cause
    )
    return [
        f"likely cause of {count(n)} of {count(len(red))}: {cause} ({blamed})"
        for (cause, blamed), n in causes.most_common(1)
    ]
