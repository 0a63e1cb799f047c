"""The checks of a run as compact rows that the page's script unfolds."""

import json
from typing import Any

from jinja2.utils import htmlsafe_json_dumps

from aliquot.reports.results import SEVERITY, CheckResult, RunResults, Statistic
from aliquot.reports.summary import conditions, measured
from aliquot.reports.text import clip

LONGEST_TEXT = 300


def embed(
    results: RunResults, clauses: dict[str, int], findings: dict[str, str], limit: int
) -> tuple[str, int]:
    """Pack the checks into a JSON object of at most `limit` bytes, safe inside a script element.

    `clauses` maps a clause id to its row on the page, `findings` a check id to its finding's anchor.
    The object has `s`, the strings, and `r`, the rows: id, clause rows, verdict, then title, case,
    evidence and reason as indices into `s`, the statistics as (method, value, conditions, gates), and
    the anchor. Where the limit does not hold all, the worst verdicts come first. Returns the text
    and the number of checks left out.
    """
    strings: dict[str, int] = {}
    used = len(_dumps({"s": [], "r": []}))
    rows: dict[int, list[Any]] = {}
    order = sorted(
        range(len(results.checks)), key=lambda i: SEVERITY.index(results.checks[i].verdict)
    )
    for index in order:
        known = len(strings)
        row = _row(results.checks[index], strings, clauses, findings)
        added = list(strings)[known:] if len(strings) > known else []
        used += len(_dumps(row)) + 1 + sum(len(_dumps(text)) + 1 for text in added)
        if used > limit:
            for text in added:
                del strings[text]
            break
        rows[index] = row
    packed = {"s": list(strings), "r": [rows[index] for index in sorted(rows)]}
    return _dumps(packed).decode(), len(results.checks) - len(rows)


def _row(
    check: CheckResult, strings: dict[str, int], clauses: dict[str, int], findings: dict[str, str]
) -> list[Any]:
    def index(text: str) -> int:
        return strings.setdefault(clip(text, LONGEST_TEXT), len(strings))

    def packed(statistic: Statistic) -> list[Any]:
        shared = index(statistic.method), measured(statistic), index(conditions(statistic))
        return [*shared, int(statistic.gates)]

    texts = [index(text) for text in (check.title, check.case, check.evidence, check.reason)]
    row = [
        clip(check.id, LONGEST_TEXT),
        [clauses[clause] for clause in check.clauses or ("",)],
        check.verdict,
        *texts,
    ]
    statistics = [packed(statistic) for statistic in check.statistics]
    anchor = findings.get(check.id)
    return [*row, statistics, anchor] if anchor else [*row, statistics] if statistics else row


def _dumps(data: Any) -> bytes:
    return htmlsafe_json_dumps(data, dumps=_compact).encode()


def _compact(data: Any, **_: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
