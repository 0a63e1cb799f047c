"""The HTML page: its bytes, its content in a browser, and the files beside it."""

import dataclasses
import html
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import report_browser
import report_samples as samples

from aliquot.reports import plots
from aliquot.reports.html import FULL_FINDINGS, LARGEST_PAGE, to_html
from aliquot.reports.results import RunResults, Verdict
from aliquot.reports.terms import TERMS
from aliquot.reports.write import WriteError, write_all
from aliquot.statistical.independence import PairTest
from aliquot.statistical.partitions import default_partitions

FILES = ["results.json", "junit.xml", "summary.md", "index.html"]


def _saved(run: RunResults, folder: Path) -> Path:
    path = folder / "index.html"
    path.write_text(to_html(run), encoding="utf-8")
    return path


def _rows(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="checks">(.*?)</script>', page, re.S)
    assert found
    rows: dict[str, Any] = json.loads(found[1])
    return rows


def test_huge_run_fits_with_every_check() -> None:
    """5,000 results make a page below one megabyte that leaves no check out."""
    page = to_html(samples.huge_run(5_000))
    assert len(page.encode()) <= LARGEST_PAGE
    assert len(_rows(page)["r"]) == 5_000


def test_page_too_small_for_all_keeps_the_worst() -> None:
    """When reasons are long, the page stays within its size, keeps failures and states the rest."""
    run = samples.huge_run(5_000, failed=200)
    words = [f"{number} " * 60 for number in range(len(run.checks))]
    checks = [
        dataclasses.replace(check, reason=reason)
        for check, reason in zip(run.checks, words, strict=True)
    ]
    page = to_html(samples.run(checks))
    kept = _rows(page)["r"]
    assert len(page.encode()) <= LARGEST_PAGE
    assert sum(row[2] == "FAIL" for row in kept) == 200
    assert f"{5_000 - len(kept):,} checks with milder verdicts are not unfolded" in page


def test_same_results_same_bytes() -> None:
    """A second rendering, in this process or in another, is the same page."""
    here = to_html(samples.failing_run())
    code = "import sys, report_samples as s; from aliquot.reports.html import to_html; "
    code += "sys.stdout.buffer.write(to_html(s.failing_run()).encode())"
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=True)
    assert here == to_html(samples.failing_run())
    assert done.stdout == here.encode()


def test_import_is_cheap() -> None:
    """Importing the reports loads no drawing library."""
    code = "import sys, aliquot.reports.write; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_findings_are_grouped_and_cut() -> None:
    """Of many failed clauses the first are shown in full and the others counted."""
    checks = [
        samples.exact(f"X{number:03}", "row", Verdict.FAIL, finding=samples.ties_finding("row"))
        for number in range(FULL_FINDINGS + 7)
    ]
    page = to_html(samples.run(checks))
    assert page.count('<article class="finding"') == FULL_FINDINGS
    assert f"{FULL_FINDINGS} of {FULL_FINDINGS + 7} groups are shown" in page
    assert sum(len(row) > 8 for row in _rows(page)["r"]) == FULL_FINDINGS


def test_plots_show_failures_first() -> None:
    """At most a dozen plots, the failed checks before the others, clauses in turn."""
    chosen = plots.chosen(samples.failing_run())
    assert len(chosen) == plots.MAX_PLOTS
    assert [check.verdict for check in chosen[:3]] == [Verdict.FAIL, Verdict.FAIL, Verdict.PASS]
    assert [check.clauses[0] for check in chosen[2:6]] == ["LAW02", "TOPK01", "TOPP01", "LAW01"]


def test_plot_of_many_cells_merges_the_smallest() -> None:
    """A plot of a thousand cells stays readable, the small ones drawn as one, in the page's colours."""
    frequencies = samples.drawn("LAW01", "wide", seed=5, skew=0.05, cells=1_000).frequencies
    assert frequencies
    svg = plots.to_svg(frequencies, "p")
    assert "961 more" in svg
    assert re.findall(r"#[0-9a-fA-F]{3,6}\b|rgb", svg) == []
    assert svg.count("<use") < 4 * plots.MAX_CELLS


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["--paper", "--sheet"])
def test_contrast(scheme: str, ground: str) -> None:
    """Every colour of text reaches the 4.5 : 1 of WCAG AA on both grounds, light and dark."""
    sheet = resources.files("aliquot.reports").joinpath("templates", "report.css").read_text()
    light, dark = (
        dict(re.findall(r"(--[a-z]+): (#\w{6})", part)) for part in sheet.split("@media")[:2]
    )
    colours = light if scheme == "light" else dark
    names = ["ink", "soft", "accent", *(verdict.lower() for verdict in Verdict)]
    low = {
        name: ratio
        for name in names
        if (ratio := _contrast(colours[f"--{name}"], colours[ground])) < 4.5
    }
    assert low == {}


def _contrast(first: str, second: str) -> float:
    """The contrast ratio of two sRGB colours as WCAG 2 defines it."""
    bright, dim = sorted(map(_luminance, (first, second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (samples.passing_run, "PASS 200 of 203 checks passed, none failed."),
        (samples.failing_run, "FAIL 5 of 208 checks failed, first: LAW01 Draws follow the softmax"),
        (samples.error_run, "ERROR 21 of 21 checks could not run."),
        (samples.empty_run, "ERROR no check ran."),
        (samples.hostile_run, "FAIL 1 of 2 checks failed, first: X</script>"),
    ],
)
def test_page_opens_quietly(
    make: Any, verdict: str, page: report_browser.Page, tmp_path: Path
) -> None:
    """From a file, with no console message and no request but its own, the verdict comes first."""
    path = _saved(make(), tmp_path)
    page.open(path)
    heading = page.run("document.querySelector('main h1').innerText.replace(/\\s+/g, ' ')")
    assert heading.startswith(verdict)
    assert page.run("typeof window.hit") == "undefined"
    assert page.errors() == []
    assert page.requests() == [path.as_uri()]


def test_error_run_shows_its_cause(page: report_browser.Page, tmp_path: Path) -> None:
    """When checks could not run, the reason of the first stands beside the verdict."""
    page.open(_saved(samples.error_run(), tmp_path))
    shown = page.run("document.querySelector('section.verdict').innerText")
    assert "greedy/GREEDY01/row-1 RuntimeError: sample() raised: no kernel for float16" in shown


def test_filter_hides_and_shows(page: report_browser.Page, tmp_path: Path) -> None:
    """Typed words narrow the table, the count is said aloud, Escape brings all back."""
    page.open(_saved(samples.failing_run(), tmp_path))
    visible = (
        "[...document.querySelectorAll('tr.clause')].filter(r => r.offsetHeight).map(r => r.id)"
    )
    everything = page.run(visible)
    page.run("document.getElementById('query').focus()")
    page.type("ties k-th")
    narrowed, said = page.run(visible), page.run("document.getElementById('shown').textContent")
    # A made-up key event: Chromium itself would clear the field on a real one, other browsers not.
    escape = "new KeyboardEvent('keydown', {key: 'Escape'})"
    page.run(f"document.getElementById('query').dispatchEvent({escape})")
    assert len(everything) == 21
    assert narrowed == ["clause-TOPK03"]
    assert said == "1 of 21 clauses, 11 checks"
    assert page.run(visible) == everything
    assert page.errors() == []


def test_chips_and_rows_by_keyboard(page: report_browser.Page, tmp_path: Path) -> None:
    """The FAIL chip leaves failed checks only; Enter on a clause unfolds them, lazily."""
    page.open(_saved(samples.failing_run(), tmp_path))
    before = page.run("document.querySelectorAll('.list li').length")
    page.run("document.querySelector('.chip[data-verdict=FAIL]').focus()")
    page.press(" ", 32)
    page.run("document.querySelector('#clause-TOPK03 button').focus()")
    page.press("Enter", 13)
    shown = page.run("[...document.querySelectorAll('.list li code')].map(c => c.textContent)")
    opened = page.run("document.activeElement.getAttribute('aria-expanded')")
    assert before == 0
    assert page.run("document.getElementById('shown').textContent") == "3 of 21 clauses, 5 checks"
    assert shown == [
        f"topk/TOPK03/{case}" for case in ("bf16-row-11", "bf16-row-3", "crafted-ties")
    ]
    assert opened == "true"
    assert page.errors() == []


def test_checks_show_evidence_and_statistics(page: report_browser.Page, tmp_path: Path) -> None:
    """An unfolded check has its case, reason, value, draws, share of alpha and detectable effect."""
    page.open(_saved(samples.failing_run(), tmp_path))
    page.run("document.querySelector('#clause-LAW02 button').click()")
    first = page.run("document.querySelector('.list li').textContent")
    for part in (
        "PASS",
        "law/LAW02/row-0",
        "statistical",
        "p = ",
        "20,000 draws",
        "10⁻⁸",
        "TV ≥ 0.031",
    ):
        assert part in first


def test_many_checks_unfold_in_parts(page: report_browser.Page, tmp_path: Path) -> None:
    """A clause with hundreds of checks shows a hundred, and more on request."""
    page.open(_saved(samples.huge_run(5_000), tmp_path))
    page.run("document.querySelector('#clause-LAW01 button').click()")
    first = page.run("document.querySelectorAll('.list li').length")
    page.run("document.querySelector('.panel .copy').click()")
    assert (first, page.run("document.querySelectorAll('.list li').length")) == (100, 200)
    assert page.errors() == []


def test_the_link_to_the_words_opens_them(page: report_browser.Page, tmp_path: Path) -> None:
    """Following the link above the table unfolds the explanations below it."""
    page.open(_saved(samples.failing_run(), tmp_path))
    unfolded = "document.getElementById('words').open"
    before = page.run(unfolded)
    page.run("document.querySelector('a[href=\"#words\"]').click()")
    page.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert (before, page.run(unfolded)) == (False, True)
    assert page.errors() == []


def test_plot_is_drawn(page: report_browser.Page, tmp_path: Path) -> None:
    """Plots have a size, and their dots take the colour of the scheme."""
    path = _saved(samples.failing_run(), tmp_path)
    dot = "document.querySelector('.plot use[style*=ink]')"
    box = f"(({{width, height}}) => [width, height])({dot}.getBoundingClientRect())"
    colour = f"getComputedStyle({dot}).fill"
    page.open(path, dark=False)
    light, size = page.run(colour), page.run(box)
    page.open(path, dark=True)
    assert min(size) > 0
    assert light != page.run(colour)
    assert page.run("document.querySelectorAll('.plot svg').length") == plots.MAX_PLOTS
    assert page.run("document.querySelector('.plot svg').getBoundingClientRect().height") > 100


@pytest.mark.parametrize("width", [360, 390, 800, 1400])
@pytest.mark.parametrize(
    "make", [samples.failing_run, samples.known_run, samples.crashed_run, samples.hostile_run]
)
def test_nothing_overflows(
    make: Any, width: int, page: report_browser.Page, tmp_path: Path
) -> None:
    """No width makes the page scroll sideways, whatever the strings."""
    page.open(_saved(make(), tmp_path), width=width)
    page.run("document.querySelectorAll('.unfold').forEach(button => button.click())")
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_ids_are_unique(page: report_browser.Page, tmp_path: Path) -> None:
    """No two elements share an id, plots included."""
    page.open(_saved(samples.failing_run(), tmp_path))
    ids = page.run("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))


def test_page_without_scripts_has_verdict_findings_and_clauses() -> None:
    """The plain HTML names the verdict, every finding's command and every clause's verdict."""
    page = to_html(samples.failing_run()).split('<script type="application/json"')[0]
    plain = html.unescape(re.sub(r"<[^>]*>", " ", page))
    assert plain.count("aliquot run --backend fast --tier pr --seed 1 --only") == 3
    assert re.findall(r"TOPK03\s+Ties at the k-th all stay\s+must\s+11\s+(\w+)", plain) == ["FAIL"]
    assert "<noscript>" in page


def _plain(run: RunResults) -> str:
    """The words of a page without its script's data."""
    page = to_html(run).split('<script type="application/json"')[0].partition("<body>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_known_failures_are_listed_with_date_reason_and_link() -> None:
    """A green page names each known failure, its last day, reason, link and what came."""
    page, plain = to_html(samples.known_run()), _plain(samples.known_run())
    assert "Known failures 2 checks failed as listed" in plain
    assert re.search(r"KNOWN until 2030-12-31 topk/TOPK03/bf16-row-3 TOPK03 ties are cut", plain)
    assert plain.count("Got support {2, 3}: token 4 is never drawn") == 2
    assert '<a href="https://example.org/issues/7" rel="noreferrer">' in page
    assert 'id="findings"' not in page


def test_a_known_failures_link_is_followed_only_to_the_web() -> None:
    """A link with another scheme is shown as text."""
    run = samples.known_run()
    checks = [
        dataclasses.replace(check, known=dataclasses.replace(check.known, link="javascript:hit()"))
        if check.known
        else check
        for check in run.checks
    ]
    page = to_html(samples.run(checks))
    assert "javascript:hit()" in page
    assert 'href="javascript' not in page


def test_many_known_failures_are_cut() -> None:
    """Of many known failures the first are listed and the others counted."""
    known = next(check for check in samples.known_run().checks if check.known)
    checks = [dataclasses.replace(known, id=f"{n:03}") for n in range(FULL_FINDINGS + 7)]
    plain = _plain(samples.run(checks))
    assert plain.count("until 2030-12-31") == FULL_FINDINGS
    assert "7 more checks failing as known" in plain


def test_each_clause_states_what_its_checks_can_find() -> None:
    """The table gives the smallest effect of a clause whose checks draw, with its test; the head, what was spent."""
    plain = _plain(samples.passing_run())
    assert re.search(r"LAW02 Rows are independent .*? 0\.031 chi-square, pooled PASS", plain)
    assert re.search(r"IO01 Logits are a matrix of rows must 8 PASS", plain)
    assert "False-alarm bound 10⁻⁶ , 4.0\N{MULTIPLICATION SIGN}10⁻⁷ spent on 40 checks" in plain


def test_a_clause_says_how_many_of_its_checks_decided() -> None:
    """A green clause whose checks mostly were not supported does not read as tested by all of them."""
    ends = [Verdict.PASS, Verdict.UNSUPPORTED, Verdict.UNDECIDED, Verdict.ERROR]
    open_ = [samples.exact("TOPK03", f"{n}", end) for n, end in enumerate(ends)]
    green = [samples.exact("TOPP02", f"{n}", end) for n, end in enumerate([*ends[:2], ends[0]])]
    whole = [samples.exact("LAW01", end, end) for end in (Verdict.FAIL, Verdict.DIVERGES)]
    plain = _plain(samples.run([*open_, *green, *whole]))
    assert "all stay 1 of 4 checks decided must 1 of 4 ERROR" in plain
    assert "crossing token stays 2 of 3 checks decided must 2 of 3 PASS" in plain
    assert "Draws follow the softmax must 2 FAIL" in plain


def test_the_words_of_the_tests_are_explained() -> None:
    """The page explains the words that its tests and failures use, and no others."""
    explained = _explained(samples.failing_run())
    assert explained == ["TV", "e-process", "chi-square"]
    reason = "draws likelier under another law, by mass rank 4"
    red = samples.exact("LAW01", "row", Verdict.FAIL, reason=reason)
    assert _explained(samples.run([red])) == ["mass rank"]
    assert "What the words of the tests mean" not in _plain(samples.error_run())


def _explained(run: RunResults) -> list[str]:
    words = to_html(run).partition("What the words of the tests mean")[2].partition("</details>")[0]
    return re.findall("<dt>(.*?)</dt>", words)


def test_every_group_of_tokens_is_explained() -> None:
    """Each partition by which a finding can be named begins with a word that has an explanation."""
    law = np.full(1000, 1e-3)
    names = [*(part.name for part in default_partitions(law)), *PairTest(law).names]
    assert [name for name in names if not name.startswith(tuple(TERMS))] == []


def test_a_hang_is_a_finding_with_its_call() -> None:
    """The page of a run with a hang and a crash shows what was asked, and how it ended."""
    plain = _plain(samples.crashed_run())
    assert "Got the process ended in sample: Segmentation fault" in plain
    assert "1 more check of this clause failed" in plain
    assert "call sample" in plain


def test_a_witness_keeps_its_parameters_beside_many_logits() -> None:
    """Of a large row the extremes stand on lines of their own, many logits on one, and the parameters behind them."""
    witness = {
        "case": "wide",
        "extremes": {"largest": {"token": 5, "logit": 3e38}, "NaN": {"count": 2, "first": 7}},
        "logits": {str(token): 0.5 for token in range(20)},
        "params": {"top_k": 2},
    }
    finding = dataclasses.replace(samples.ties_finding("wide"), witness=witness)
    plain = _plain(samples.run([samples.exact("TOPK03", "wide", Verdict.FAIL, finding=finding)]))
    assert "extremes.largest {token: 5, logit: 3e+38} extremes.NaN {count: 2, first: 7}" in plain
    assert "logits {0: 0.5, 1: 0.5," in plain
    assert "params.top_k 2" in plain


def test_missing_browser_fails_clearly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Chromium the browser tests fail with the name of what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(report_browser.BrowserError, match="apt-get install chromium"):
        report_browser.Page(tmp_path)


def test_write_all_writes_four_files(tmp_path: Path) -> None:
    """The four files lie in a directory made for them, and nothing beside them."""
    paths = write_all(samples.failing_run(), tmp_path / "new" / "out")
    assert sorted(paths) == sorted(FILES)
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == sorted(FILES)
    assert all(path.stat().st_size > 1_000 for path in paths.values())


def test_write_all_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """A second run over the first leaves the same bytes."""
    first = {
        name: path.read_bytes() for name, path in write_all(samples.hostile_run(), tmp_path).items()
    }
    second = {
        name: path.read_bytes() for name, path in write_all(samples.hostile_run(), tmp_path).items()
    }
    assert first == second


def test_interrupted_writing_keeps_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up leaves the old files whole and no part of the new."""
    before = {
        name: path.read_bytes() for name, path in write_all(samples.passing_run(), tmp_path).items()
    }

    whole = Path.write_bytes

    def half(path: Path, data: bytes) -> int:
        if path.name.startswith(".summary"):
            whole(path, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return whole(path, data)

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(WriteError, match="No space left on device"):
        write_all(samples.failing_run(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_complete_files_are_moved_into_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file gets its name by a rename: nothing is ever written under the final name."""
    whole, written = Path.write_bytes, []

    def noted(path: Path, data: bytes) -> int:
        written.append(path.name)
        return whole(path, data)

    monkeypatch.setattr(Path, "write_bytes", noted)
    write_all(samples.empty_run(), tmp_path)
    assert len(written) == len(FILES)
    assert not set(written) & set(FILES)


def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A path through a file is refused with the directory's name and the cause."""
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"cannot write into .*file/out: Not a directory"):
        write_all(samples.empty_run(), tmp_path / "file" / "out")
