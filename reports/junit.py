"""A run as JUnit XML, the format that CI systems read."""

import xml.etree.ElementTree as ET

from aliquot.reports.results import CheckResult, RunResults, Verdict
from aliquot.reports.summary import conditions, measured
from aliquot.reports.text import cleaned, clip, scientific, value

LONGEST_VALUE = 2000


def to_junit(results: RunResults) -> str:
    """Write a run as JUnit XML: one testsuite for each clause group, one testcase for each check.

    FAIL becomes a failure with wanted, got and the reproducing command, ERROR an error, UNSUPPORTED and
    KNOWN a skip with its reason. PASS, UNDECIDED and DIVERGES count as passed; the property `verdict` tells
    them apart. No times are written: the same results give the same bytes.
    """
    results = cleaned(results)
    root = ET.Element("testsuites", {"name": "aliquot"} | _tally(results.checks))
    for group in dict.fromkeys(check.group for check in results.checks):
        root.append(_suite(results, group))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _tally(checks: tuple[CheckResult, ...]) -> dict[str, str]:
    verdicts = [check.verdict for check in checks]
    return {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count(Verdict.FAIL)),
        "errors": str(verdicts.count(Verdict.ERROR)),
        "skipped": str(verdicts.count(Verdict.UNSUPPORTED) + verdicts.count(Verdict.KNOWN)),
    }


def _suite(results: RunResults, group: str) -> ET.Element:
    checks = tuple(check for check in results.checks if check.group == group)
    suite = ET.Element("testsuite", {"name": group} | _tally(checks))
    backend = results.backend
    _properties(
        suite,
        backend=f"{backend.name} {backend.version}",
        device=backend.device,
        tier=results.tier,
        seed=str(results.seed),
        alpha=scientific(results.alpha),
        spent=scientific(results.spent),
    )
    suite.extend(_case(check) for check in checks)
    return suite


def _properties(parent: ET.Element, **values: str) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, text in values.items():
        ET.SubElement(properties, "property", name=name, value=text)


def _case(check: CheckResult) -> ET.Element:
    case = ET.Element("testcase", classname=check.group, name=check.id)
    statistics = [f"{s.method}: {measured(s)} ({conditions(s)})" for s in check.statistics]
    _properties(
        case,
        verdict=check.verdict,
        clauses=" ".join(check.clauses),
        evidence=check.evidence,
        reason=check.reason,
        **({"statistics": "; ".join(statistics)} if statistics else {}),
        **({"known": check.known.link, "until": check.known.expires} if check.known else {}),
    )
    tag = _TAGS.get(check.verdict)
    if tag:
        outcome = ET.SubElement(case, tag, message=check.reason)
        outcome.text = _body(check)
        if tag != "skipped":
            outcome.set("type", " ".join(check.clauses))
    return case


_TAGS = {
    Verdict.FAIL: "failure",
    Verdict.ERROR: "error",
    Verdict.UNSUPPORTED: "skipped",
    Verdict.KNOWN: "skipped",
}


def _body(check: CheckResult) -> str:
    lines = [f"{check.title} ({check.case})" if check.case else check.title, check.reason]
    finding = check.finding
    if finding:
        lines += [f"wanted: {finding.wanted}", f"got: {finding.got}"]
        lines += [f"effect: {finding.effect}"] if finding.effect else []
        lines += [f"likely cause: {finding.likely_cause}"] if finding.likely_cause else []
        lines += [f"reproduce: {finding.reproduce}"] if finding.reproduce else []
        lines += [f"{key} = {clip(value(v), LONGEST_VALUE)}" for key, v in finding.witness.items()]
    return "\n".join(lines)
