"""JUnit, Markdown and the words and numbers that all pages share."""

import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
import report_samples as samples

from aliquot.reports import text
from aliquot.reports.junit import to_junit
from aliquot.reports.markdown import SHOWN_FINDINGS, to_markdown
from aliquot.reports.results import SUPPORT, Statistic, Verdict
from aliquot.reports.summary import (
    bound,
    conditions,
    effects,
    evidence_share,
    gating_tests,
    headline,
    measured,
)


def _case(tree: ET.Element, verdict: Verdict) -> ET.Element:
    path = f".//testcase/properties/property[@name='verdict'][@value='{verdict}']/../.."
    found = tree.find(path)
    assert found is not None
    return found


def test_junit_counts_each_verdict() -> None:
    """Failures, errors and skips are counted for the run and for each suite, and add up."""
    tree = ET.fromstring(to_junit(samples.failing_run()))
    names = ("tests", "failures", "errors", "skipped")
    whole = [int(tree.attrib[name]) for name in names]
    assert whole == [208, 5, 0, 1]
    assert whole == [sum(int(suite.attrib[name]) for suite in tree) for name in names]
    found = [
        len(tree.findall(path)) for path in (".//testcase", ".//failure", ".//error", ".//skipped")
    ]
    assert found == whole


@pytest.mark.parametrize(
    "part", ["wanted: support {2, 3, 4}", "got: support", "reproduce: aliquot run"]
)
def test_junit_failure_says_what_to_do(part: str) -> None:
    """The body of a failure has wanted, got and the command."""
    tree = ET.fromstring(to_junit(samples.failing_run()))
    bodies = [body.text or "" for body in tree.iterfind(".//failure[@type='TOPK03']")]
    assert len(bodies) == 3
    assert all(part in body for body in bodies)


@pytest.mark.parametrize(
    ("verdict", "tag"),
    [
        (Verdict.PASS, None),
        (Verdict.UNDECIDED, None),
        (Verdict.DIVERGES, None),
        (Verdict.FAIL, "failure"),
        (Verdict.UNSUPPORTED, "skipped"),
        (Verdict.KNOWN, "skipped"),
    ],
)
def test_junit_outcome_of_each_verdict(verdict: Verdict, tag: str | None) -> None:
    """A verdict becomes the element that CI systems know, or none, with its reason."""
    run = samples.known_run() if verdict is Verdict.KNOWN else samples.failing_run()
    case = _case(ET.fromstring(to_junit(run)), verdict)
    outcomes = [child for child in case if child.tag != "properties"]
    assert [child.tag for child in outcomes] == ([tag] if tag else [])
    assert all(child.get("message") for child in outcomes)


def test_junit_of_a_known_failure() -> None:
    """A known failure is a skip that says until when and why, with its link, and no failure."""
    tree = ET.fromstring(to_junit(samples.known_run()))
    skipped = tree.find(".//testcase[@name='topk/TOPK03/bf16-row-3']/skipped")
    assert skipped is not None
    assert skipped.attrib["message"].startswith("known until 2030-12-31: ties are cut")
    assert (
        tree.find(".//property[@name='known'][@value='https://example.org/issues/7']") is not None
    )
    assert (tree.attrib["failures"], tree.attrib["skipped"]) == ("0", "3")


def test_junit_error_only() -> None:
    """Checks that could not run are errors, with the cause as message."""
    tree = ET.fromstring(to_junit(samples.error_run()))
    assert tree.attrib["errors"] == tree.attrib["tests"] == "21"
    error = tree.find(".//error")
    assert error is not None
    assert "no kernel for float16" in error.attrib["message"]


def test_junit_survives_hostile_strings() -> None:
    """Markup, CDATA ends, control characters and lone surrogates stay readable text."""
    written = to_junit(samples.hostile_run()).encode("utf-8")
    tree = ET.fromstring(written)
    name = tree.findall(".//testcase")[0].attrib["name"]
    assert name.startswith("a</script><script>window.hit=1</script>")
    assert r"\x00\x1b[31m\ud800\uffff" in name
    assert "]]>" in (tree.findall(".//failure")[0].text or "")


def test_junit_of_an_empty_run() -> None:
    """A run without checks is still a document."""
    assert ET.fromstring(to_junit(samples.empty_run())).attrib["tests"] == "0"


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (samples.passing_run, "PASS: 200 of 203 checks passed, none failed"),
        (
            samples.failing_run,
            "FAIL: 5 of 208 checks failed; first: LAW01 Draws follow the softmax",
        ),
        (samples.error_run, "ERROR: 21 of 21 checks could not run"),
        (samples.empty_run, "ERROR: no check ran"),
    ],
)
def test_markdown_begins_with_the_verdict(make: Any, line: str) -> None:
    """The first line is the verdict with its figures."""
    assert to_markdown(make()).splitlines()[0] == f"## {line}"


def test_markdown_gives_the_cause_of_an_error() -> None:
    """When checks could not run, the first says why, and they are not counted twice."""
    lines = to_markdown(samples.error_run()).splitlines()
    assert lines[4].startswith("First: `greedy/GREEDY01/row-1`: `RuntimeError: sample() raised")
    assert lines[2].endswith("aliquot 0.1.0.")


def test_markdown_names_each_finding_once() -> None:
    """Three sets of clauses failed: three findings, the third check of a set only counted."""
    written = to_markdown(samples.failing_run())
    assert re.findall(r"^\*\*(\w+) ", written, re.M) == ["LAW01", "TOPK03", "TOPP02"]
    assert "and 2 more checks of this clause" in written
    assert "reproduce: `aliquot run --backend fast" in written


def test_markdown_lists_known_failures() -> None:
    """Known failures are listed with their date, reason and link, and are no findings."""
    written = to_markdown(samples.known_run())
    assert written.startswith("## PASS: 200 of 205 checks passed, none failed")
    assert "Also 2 failing as known, 1 undecided" in written
    assert "- `topk/TOPK03/bf16-row-3` until 2030-12-31: ties are cut by position" in written
    assert "### Findings" not in written


def test_markdown_stays_a_comment() -> None:
    """Many findings are cut, and the cut is stated, below the size of a comment on GitHub."""
    written = to_markdown(samples.huge_run(size=400, failed=400))
    assert len(re.findall(r"^\*\*", written, re.M)) == SHOWN_FINDINGS
    assert "11 more sets of clauses failed" in written
    assert len(written) < 65_536


def test_markdown_survives_hostile_strings() -> None:
    """Outside code spans no angle bracket, pipe or backtick is left bare."""
    written = to_markdown(samples.hostile_run())
    outside = re.sub(r"(`+) ?.*?(?<!`)\1(?!`)", "", re.sub(r"\\.", "", written))
    assert "window.hit" in written
    assert "<" not in outside


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (1e-6, "10⁻⁶"),
        (3.14e-12, "3.1{}10⁻¹²"),
        (0.0312, "0.031"),
        (0.5, "0.50"),
        (12.0, "12"),
    ],
)
def test_scientific(value: float, shown: str) -> None:
    """Two significant digits, and a power of ten only for what is far from 1."""
    assert text.scientific(value) == shown.format("\N{MULTIPLICATION SIGN}")


def test_long_witness_list_states_its_length() -> None:
    """Of a whole row of logits the first are shown, and how many there are."""
    shown = text.value([float(number) for number in range(49_152)])
    assert shown.startswith("[0, 1, 2, ")
    assert shown.endswith("23, … 49,152 values]")


def test_clip_states_what_it_cut() -> None:
    """A shortened text says by how much."""
    assert text.clip("x" * 1_205, 5) == "xxxxx… (1,200 more characters)"


@pytest.mark.parametrize(
    ("figures", "share"),
    [
        ({"p_value": 1e-4}, 0.5),
        ({"p_value": 1e-8}, 1.0),
        ({"p_value": 1.0}, 0.0),
        ({"p_value": 0.0}, math.inf),
        ({"log10_e": 12.0}, 1.5),
        ({"log10_e": -3.0}, 0.0),
    ],
)
def test_evidence_share(figures: dict[str, Any], share: float) -> None:
    """The gauge reads 1 where alpha is reached, for p-values and e-values alike."""
    assert evidence_share(Statistic(method="m", draws=1, alpha=1e-8, **figures)) == share


def test_measured_names_the_kind_of_value() -> None:
    """An e-value is shown by its logarithm, a p-value as it is."""
    assert measured(Statistic(method="m", draws=1, alpha=1e-8, log10_e=-0.5)) == "log₁₀ e = −0.50"  # noqa: RUF001
    assert measured(Statistic(method="m", draws=1, alpha=1e-8, p_value=0.25)) == "p = 0.25"


def test_only_what_gates_is_a_statistical_test() -> None:
    """Figures shown beside the deciding one spend nothing of the false-alarm bound, nor do tests without chance."""
    run = samples.passing_run()
    exact = samples.exact("LAW01", "replay", statistics=(samples.replayed(4_700),))
    assert gating_tests(run) == gating_tests(samples.run([*run.checks, exact])) == 40


def test_spent_is_what_the_checks_that_ran_were_granted() -> None:
    """The bound is the sum of the shares; a check that did not run spends nothing of its own."""
    run = samples.passing_run()
    skipped = samples.exact("LAW01", "none", Verdict.UNSUPPORTED, alpha=1e-8)
    assert run.spent == 4e-7
    assert samples.run([*run.checks, skipped]).spent == run.spent
    assert bound(
        run
    ) == "false alarms: at most 4.0{}10⁻⁷ of 10⁻⁶, over 40 statistical checks".format(
        "\N{MULTIPLICATION SIGN}"
    )


def test_effects_are_the_smallest_that_decide() -> None:
    """Of a clause's tests the sharpest that decides counts, whatever stands beside it, and the line has the range."""
    sharp = samples.exact("LAW01", "replay", statistics=(samples.replayed(4_700),))
    run = samples.run([*samples.passing_run().checks, sharp])
    by_clause = {effect.clause: effect for effect in run.effects}
    assert sorted(by_clause) == ["LAW01", "LAW02", "TOPK01", "TOPP01", "TOPP02"]
    assert (by_clause["LAW01"].method, by_clause["LAW01"].check) == ("replay, gumbel", sharp.id)
    assert by_clause["LAW02"].mde_tv == 0.0312
    assert effects(run).startswith("finds a total variation of 0.00098 to 0.031, by clause")


def test_a_test_of_the_support_counts_where_no_other_draws() -> None:
    """It finds fewer kinds of differences, so that a wider test goes first even if it needs a larger one."""
    inside = Statistic(method=SUPPORT, draws=256, alpha=0.0, p_value=1.0, mde_tv=0.0001)
    checks = [samples.exact(name, "support", statistics=(inside,)) for name in ("LAW02", "TOPK09")]
    found = samples.run([*samples.passing_run().checks, *checks]).effects
    assert {e.clause: e.method == SUPPORT for e in found if e.clause in ("LAW02", "TOPK09")} == {
        "LAW02": False, "TOPK09": True,
    }  # fmt: skip


def test_one_effect_is_said_once() -> None:
    """When all clauses have the same smallest effect, the line is no range."""
    run = samples.run([samples.exact("LAW01", "replay", statistics=(samples.replayed(9),))])
    assert effects(run) == "finds a total variation of 0.00098, by clause, with probability 0.99"


def test_a_test_that_finds_nothing_has_no_effect() -> None:
    """A distance of 1 is that of laws which share no token: neither clause nor statistic names it."""
    blind, sharp = (
        Statistic(method="e-process", draws=9, alpha=1e-8, log10_e=0.0, mde_tv=mde)
        for mde in (1.0, 0.9999)
    )
    checks = [
        samples.exact("LAW01", "blind", statistics=(blind,)),
        samples.exact("LAW02", "sharp", statistics=(sharp,)),
    ]
    assert [effect.clause for effect in samples.run(checks).effects] == ["LAW02"]
    assert ["finds TV" in conditions(s) for s in (blind, sharp)] == [False, True]


def test_headline_without_a_pass() -> None:
    """A run in which nothing was supported does not read as a success."""
    run = samples.run([samples.exact("PEN04", "bad-words", Verdict.UNSUPPORTED)])
    assert run.verdict is Verdict.ERROR
    assert headline(run) == "none of 1 check passed"
