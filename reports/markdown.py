"""A run as a short Markdown summary, for a comment in CI."""

import re

from aliquot.reports.results import CheckResult, RunResults
from aliquot.reports.summary import (
    bound,
    failures,
    first_error,
    first_failure,
    headline,
    known_failures,
    others,
    title_of,
)
from aliquot.reports.text import cleaned, clip, count, plural

LONGEST_LINE = 400
SHOWN_FINDINGS = 10


def to_markdown(results: RunResults) -> str:
    """Write the verdict, the counts and the first findings as GitHub-flavoured Markdown.

    At most `SHOWN_FINDINGS` findings, one for each set of clauses, with every line clipped: the text
    stays below the 65,536 characters that a comment may have.
    """
    results = cleaned(results)
    first = first_failure(results)
    where = f"; first: {_plain(title_of(results, first))}" if first else ""
    rest, error = others(results), first_error(results)
    parts = [
        f"## {results.verdict}: {headline(results)}{where}",
        f"{_run(results)}{f'. Also {rest}' if rest else ''}.",
        *([f"First: {_code(error.id)}: {_code(error.reason)}"] if error else []),
        _counts(results),
        *_findings(results),
        *_known(results),
    ]
    return "\n\n".join(parts) + "\n"


def _run(results: RunResults) -> str:
    backend = results.backend
    tested = f"{backend.name} {backend.version} on {backend.device}"
    return (
        f"{_code(tested)}, tier {_code(results.tier)}, seed {results.seed}, "
        f"{bound(results)}, aliquot {_plain(results.aliquot)}"
    )


def _counts(results: RunResults) -> str:
    counts = results.counts
    rule = "|".join("--:" for _ in counts)
    return f"| {' | '.join(counts)} |\n|{rule}|\n| {' | '.join(map(count, counts.values()))} |"


def _findings(results: RunResults) -> list[str]:
    groups = failures(results)
    if not groups:
        return []
    shown = [_finding(results, checks) for checks in list(groups.values())[:SHOWN_FINDINGS]]
    hidden = len(groups) - len(shown)
    more = [f"{plural(hidden, 'more set')} of clauses failed; see the report."] if hidden else []
    return ["### Findings", *shown, *more]


def _finding(results: RunResults, checks: list[CheckResult]) -> str:
    check, finding = checks[0], checks[0].finding
    lines = [f"**{_plain(title_of(results, check))}** ({_code(check.id)})", _code(check.reason)]
    if finding:
        lines = lines[:1] + [
            f"{name}: {_code(text)}"
            for name, text in (
                ("wanted", finding.wanted),
                ("got", finding.got),
                ("effect", finding.effect),
                ("likely cause", finding.likely_cause),
                ("reproduce", finding.reproduce),
            )
            if text
        ]
    if len(checks) > 1:
        lines.append(f"and {plural(len(checks) - 1, 'more check')} of this clause")
    return "\n- ".join(lines)


def _known(results: RunResults) -> list[str]:
    known = known_failures(results)
    if not known:
        return []
    lines = [
        f"- {_code(check.id)} until {check.known.expires}: {_plain(check.known.reason)} "
        f"({_plain(check.known.link)})"
        for check in known[:SHOWN_FINDINGS]
        if check.known
    ]
    hidden = len(known) - len(lines)
    lines += [f"- and {plural(hidden, 'more check')}; see the report."] if hidden else []
    return ["### Known failures", "\n".join(lines)]


def _plain(text: str) -> str:
    """Escape what Markdown and HTML would read into a line of text."""
    line = clip(" ".join(text.split()), LONGEST_LINE)
    return re.sub(r"([\\`*_\[\]<>#|~&$])", r"\\\1", line)


def _code(text: str) -> str:
    """A code span that holds `text`, whatever backticks are in it."""
    line = clip(" ".join(text.split()), LONGEST_LINE)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}" if longest else f"`{line}`"
