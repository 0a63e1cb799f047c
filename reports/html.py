"""A run as one self-contained HTML page."""

import base64
import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from aliquot.reports import plots, rows, summary
from aliquot.reports.results import (
    SEVERITY,
    CheckResult,
    ClauseInfo,
    Effect,
    RunResults,
    Statistic,
    Verdict,
)
from aliquot.reports.terms import terms
from aliquot.reports.text import cleaned, clip, count, plural, scientific, value

LARGEST_PAGE = 1_000_000
"""Bytes that a page may have; the rows of checks take what the rest leaves."""

FULL_FINDINGS = 30
MORE_CHECKS = 8
LONGEST_TEXT = 600
LONGEST_BRIEF = 200
WITNESS_ENTRIES = 16
LINE_EACH = 6
"""An object in a witness with more members than this is one line, so that it pushes nothing else out."""

GAUGE_WIDTH = 1000
GAUGE_SPAN = 1.5
"""The gauge ends at this multiple of the limit; what lies beyond is drawn at the end."""

_NOTES_RESERVE = 1_000


@dataclass(frozen=True)
class _Row:
    """A line of the clause table; `decided` are those of its checks that say something of the clause."""

    info: ClauseInfo
    verdict: Verdict | None
    checks: int
    decided: int
    effect: Effect | None
    index: int


@dataclass(frozen=True)
class _Group:
    """The failed checks of one set of clauses: the first in full, others in brief."""

    anchor: str
    title: str
    clauses: list[ClauseInfo]
    check: CheckResult
    witness: list[tuple[str, str]]
    plot: str | None
    more: list[CheckResult]
    hidden: int


@dataclass(frozen=True)
class _Gauge:
    """Statistical tests on one scale: SVG paths of the ticks, in 1/1000 of the width."""

    within: str
    beyond: str
    limit: float
    label: str


@dataclass(frozen=True)
class _Plot:
    anchor: str
    check: CheckResult
    svg: Markup
    draws: int


def to_html(results: RunResults) -> str:
    """Write a run as an HTML page of at most `LARGEST_PAGE` bytes that needs nothing beside it.

    The verdict, the findings and the table of clauses are plain HTML; a script unfolds the checks of a
    clause and filters. The same results give the same bytes. Checks that the size limit leaves out
    are counted on the page; the worst verdicts stay.
    """
    results = cleaned(results)
    lines = _clause_rows(results)
    drawn = _plots(results)
    groups = _groups(results, {plot.check.id: plot.anchor for plot in drawn})
    page = _environment().get_template("report.html")
    sections: dict[str, list[_Row]] = {}
    for line in lines:
        sections.setdefault(line.info.group, []).append(line)
    context = _context(results, lines) | {"sections": sections, "groups": groups, "plots": drawn}
    bare = page.render(context, rows="", left_out=0)
    embedded, left_out = rows.embed(
        results,
        clauses={line.info.id: line.index for line in lines},
        findings={group.check.id: group.anchor for group in groups[:FULL_FINDINGS]},
        limit=LARGEST_PAGE - len(bare.encode()) - _NOTES_RESERVE,
    )
    return page.render(context, rows=Markup(embedded), left_out=left_out)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("aliquot.reports"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "brief": lambda text: clip(text, LONGEST_BRIEF),
        "clip": lambda text: clip(text, LONGEST_TEXT),
        "conditions": summary.conditions,
        "count": count,
        "measured": summary.measured,
        "plural": plural,
        "scientific": scientific,
    }
    return environment


def _asset(name: str) -> str:
    return resources.files("aliquot.reports").joinpath("templates", name).read_text("utf-8")


def _context(results: RunResults, lines: list[_Row]) -> dict[str, Any]:
    first = summary.first_failure(results)
    known = summary.known_failures(results)
    script = _asset("report.js")
    return {
        "style": Markup(_asset("report.css")),
        "script": Markup(script),
        "script_hash": _script_hash(script),
        "run": results,
        "headline": summary.headline(results),
        "others": summary.others(results),
        "first": summary.title_of(results, first) if first else None,
        "error": summary.first_error(results),
        "meanings": summary.MEANINGS,
        "terms": terms(results),
        "full_findings": FULL_FINDINGS,
        "untested": sum(1 for line in lines if line.verdict is None),
        "listed": len(lines),
        "tests": summary.gating_tests(results),
        "known": known[:FULL_FINDINGS],
        "known_hidden": len(known[FULL_FINDINGS:]),
        "draws": sum(map(_draws, results.checks)),
        "gauge": _gauge([s for check in results.checks for s in check.statistics]),
        "finding_gauge": _gauge,
        "with_plots": sum(1 for check in results.checks if check.frequencies),
        "band": plots.BAND,
        "gauge_span": GAUGE_SPAN,
    }


def _clause_rows(results: RunResults) -> list[_Row]:
    """The clauses of the run, then those that only checks name; a check without one has the id ""."""
    worst: dict[str, Verdict] = {}
    number: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    for check in results.checks:
        for clause in check.clauses or ("",):
            number[clause] += 1
            decided[clause] += check.verdict not in summary.SAYS_NOTHING
            worst[clause] = min(worst.get(clause, check.verdict), check.verdict, key=SEVERITY.index)
    effects = {effect.clause: effect for effect in results.effects}
    listed = {clause.id: clause for clause in results.clauses}
    unlisted = [clause for clause in sorted(number) if clause not in listed]
    infos = [*listed.values(), *map(_unlisted, unlisted)]
    return [
        _Row(
            info=info,
            verdict=worst.get(info.id),
            checks=number[info.id],
            decided=decided[info.id],
            effect=effects.get(info.id),
            index=index,
        )
        for index, info in enumerate(infos)
    ]


def _unlisted(clause: str) -> ClauseInfo:
    title = "Not among the clauses of this run" if clause else "Checks that name no clause"
    return ClauseInfo(id=clause, group="other checks", title=title, text="", level="")


def _groups(results: RunResults, plotted: dict[str, str]) -> list[_Group]:
    listed = {clause.id: clause for clause in results.clauses}
    return [
        _Group(
            anchor=f"finding-{number}",
            title=summary.title_of(results, checks[0]),
            clauses=[listed.get(clause) or _unlisted(clause) for clause in clauses],
            check=checks[0],
            witness=_witness(checks[0]),
            plot=plotted.get(checks[0].id),
            more=checks[1 : MORE_CHECKS + 1],
            hidden=max(len(checks) - 1 - MORE_CHECKS, 0),
        )
        for number, (clauses, checks) in enumerate(summary.failures(results).items(), start=1)
    ]


def _witness(check: CheckResult) -> list[tuple[str, str]]:
    """The witness as names and one-line values, a small object inside it as one entry for each member."""
    if check.finding is None:
        return []
    flat: list[tuple[str, str]] = []
    for name, item in check.finding.witness.items():
        if isinstance(item, dict) and 0 < len(item) <= LINE_EACH:
            flat += [(f"{name}.{key}", value(entry)) for key, entry in item.items()]
        else:
            flat.append((name, value(item)))
    shown = [(clip(name, 60), clip(text, LONGEST_TEXT)) for name, text in flat[:WITNESS_ENTRIES]]
    hidden = len(flat) - len(shown)
    return [*shown, ("…", f"{count(hidden)} more in results.json")] if hidden else shown


def _draws(check: CheckResult) -> int:
    """The draws that a check decides by; those of a law are counted once, also where they are replayed too."""
    deciding = [s for s in check.statistics if s.gates]
    return sum(s.draws for s in deciding if s.alpha or not check.alpha)


def _gauge(statistics: list[Statistic] | tuple[Statistic, ...]) -> _Gauge | None:
    shares = [summary.evidence_share(s) for s in statistics if s.gates]
    shares = [share for share in shares if not math.isnan(share)]
    if not shares:
        return None
    beyond = sum(1 for share in shares if share >= 1)
    largest = max(shares)
    shown = f"more than {GAUGE_SPAN}" if largest > GAUGE_SPAN else f"{largest:.2f}"
    return _Gauge(
        within=_ticks([share for share in shares if share < 1]),
        beyond=_ticks([share for share in shares if share >= 1]),
        limit=1 / GAUGE_SPAN,
        label=f"{plural(len(shares), 'statistical test')}, {count(beyond)} at or beyond the limit; "
        f"the largest stands at {shown} of the limit",
    )


def _ticks(shares: list[float]) -> str:
    places = {round(min(share / GAUGE_SPAN, 1.0) * GAUGE_WIDTH) for share in shares}
    return "".join(f"M{place} 0v1" for place in sorted(places))


def _plots(results: RunResults) -> list[_Plot]:
    return [
        _Plot(
            anchor=f"plot-{number}",
            check=check,
            svg=Markup(plots.to_svg(check.frequencies, f"p{number}-")),
            draws=sum(check.frequencies.drawn),
        )
        for number, check in enumerate(plots.chosen(results), start=1)
        if check.frequencies
    ]


def _script_hash(script: str) -> str:
    """The hash by which the page's content policy knows its own script and refuses any other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
