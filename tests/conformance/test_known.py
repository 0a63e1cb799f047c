"""Known failures: what an entry covers, and the entries that make a run red themselves."""

import datetime
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from command import aliquot

from aliquot.conformance.known import Known, KnownError, read
from aliquot.reports.results import CheckResult, Finding, Verdict

TODAY = datetime.date(2030, 6, 15)
REASON = "wanted 2 tokens kept, got 3 kept"
ENTRY = {"reason": "ties are cut", "link": "https://example.org/7", "expires": TODAY}
LATER = {**ENTRY, "expires": datetime.date(2031, 1, 1)}


def toml(*entries: dict[str, Any]) -> str:
    """A file of known failures."""
    tables = (
        "\n".join(
            f"{name} = {json.dumps(value) if isinstance(value, str) else value}"
            for name, value in entry.items()
        )
        for entry in entries
    )
    return "\n".join(f"[[known]]\n{table}" for table in tables)


def known(folder: Path, *entries: dict[str, Any], today: datetime.date = TODAY) -> Known:
    """The known failures of a file with these entries."""
    (folder / "known.toml").write_text(toml(*entries))
    return read(folder / "known.toml", today)


def check(name: str = "TOPK02_ties[3]", **fields: Any) -> CheckResult:
    """A failed check of TOPK02."""
    finding = Finding(witness={}, wanted="2 tokens kept", got="3 kept", reproduce="aliquot run")
    made = {
        "id": name, "clauses": ("TOPK02",), "group": "filters", "title": "ties stay", "case": "3",
        "evidence": "exact", "verdict": Verdict.FAIL, "reason": REASON, "finding": finding,
    }  # fmt: skip
    return CheckResult(**{**made, **fields})


@pytest.mark.parametrize(
    "entry",
    [
        {"check": "TOPK02_ties[3]"},
        {"clause": "TOPK02"},
        {"check": "TOPK02_ties[3]", "clause": "TOPK02"},
        {"clause": "TOPK02", "says": "got 3 kept"},
    ],
)
def test_a_covered_failure_is_known(tmp_path: Path, entry: dict[str, str]) -> None:
    """By check, by clause, by both and with a text: the verdict is KNOWN, with date, reason and link."""
    held = known(tmp_path, {**ENTRY, **entry})
    marked = held.mark(check())
    assert marked.verdict is Verdict.KNOWN
    assert marked.reason == f"known until 2030-06-15: ties are cut; {REASON}"
    assert marked.known
    assert (marked.known.link, marked.known.expires) == ("https://example.org/7", "2030-06-15")
    assert held.verdicts({marked.id: marked}, whole=True) == {}


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        ({"check": "TOPK02_ties"}, {}),
        ({"check": "TOPK02_ties[3]"}, {"clauses": ("ERR18",)}),
        ({"check": "TOPK02_ties[3]", "clause": "TOPK01"}, {}),
        ({"clause": "TOPK01"}, {}),
        ({"clause": "TOPK02"}, {"clauses": ("IO06",)}),
        ({"clause": "TOPK02", "says": "got 4 kept"}, {}),
        ({"clause": "TOPK02"}, {"verdict": Verdict.ERROR}),
    ],
)
def test_another_failure_is_not_covered(
    tmp_path: Path, entry: dict[str, str], fields: dict[str, Any]
) -> None:
    """Another check, clause, reason, a crash, a wrong form and an ERROR stay as they are."""
    failed = check(**fields)
    assert known(tmp_path, {**ENTRY, **entry}).mark(failed) is failed


@pytest.mark.parametrize(
    ("entry", "fields", "said"),
    [
        ({"clause": "TOPK01"}, {}, "the entry names no check of this run"),
        ({"check": "TOPK02_ties"}, {}, "the entry names no check of this run"),
        (
            {"clause": "TOPK02"},
            {"verdict": Verdict.PASS},
            "the failure did not come: 1 check ended as PASS",
        ),
        (
            {"clause": "TOPK02", "says": "got 4"},
            {},
            "the failure did not come: 1 check ended as FAIL",
        ),
        (
            {"clause": "TOPK02", "expires": datetime.date(2030, 6, 14)},
            {},
            "the entry expired on 2030-06-14",
        ),
    ],
)
def test_an_entry_that_does_not_hold_is_a_failure(
    tmp_path: Path, entry: dict[str, Any], fields: dict[str, Any], said: str
) -> None:
    """Unmatched, unexpectedly passing, failing otherwise and expired entries fail, by name."""
    held = known(tmp_path, {**ENTRY, **entry})
    marked = held.mark(check(**fields))
    failed = held.verdicts({marked.id: marked}, whole=True)
    name = ", ".join(f"{key} {entry[key]}" for key in ("check", "clause", "says") if key in entry)
    assert [one.verdict for one in failed.values()] == [Verdict.FAIL]
    assert [(one.id, one.reason) for one in failed.values()] == [(f"known failure: {name}", said)]
    assert marked.verdict is not Verdict.KNOWN


def test_part_of_a_run_does_not_miss_the_other_checks(tmp_path: Path) -> None:
    """With `--only` an entry of a check that was not chosen is neither unmatched nor passing."""
    held = known(tmp_path, {**ENTRY, "clause": "TOPK01"})
    assert held.verdicts({"x": check()}, whole=False) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("known = 3", "has known, allowed are tables [[known]]"),
        ("[other]", "has other, allowed are tables [[known]]"),
        ("[[known", "not TOML in UTF-8: "),
        ("known = [1]", "entry 1: is 1, allowed is a table"),
        (toml(ENTRY), "entry 1: lacks check or clause"),
        (toml({"check": "x"}), "entry 1: lacks reason, link, expires"),
        (toml({**ENTRY, "check": "x", "colour": "red"}), "entry 1: has colour, allowed are check"),
        (toml({**ENTRY, "check": " "}), "entry 1: check is ' ', allowed is a text"),
        (toml({**ENTRY, "check": 5}), "entry 1: check is 5, allowed is a text"),
        (toml({**ENTRY, "clause": "TOPX99"}), "entry 1: clause TOPX99 is not in the contract"),
        (
            toml({**ENTRY, "check": "x", "expires": "soon"}),
            "entry 1: expires is 'soon', allowed is a date such as 2030-12-31",
        ),
        (
            toml({**ENTRY, "check": "x"}, {**LATER, "check": "x"}),
            "entry 2: check x is listed before",
        ),
    ],
)
def test_a_malformed_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """Whatever is wrong with a file, one line names it, the entry and what is allowed."""
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(KnownError) as caught:
        read(path, TODAY)
    assert str(caught.value).startswith(f"--known {path}: {said}")
    assert "\n" not in str(caught.value)


def test_the_guides_example_is_valid(tmp_path: Path) -> None:
    """The file in docs/ci.md can be read, and its check is one that the suites have."""
    text = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "known.toml").write_text(example)
    first, second = read(tmp_path / "known.toml", TODAY).entries
    module = find_spec("aliquot.conformance.suites.test_filters")
    assert module
    assert module.origin
    assert f"def test_{first.check.partition('[')[0]}(" in Path(module.origin).read_text()
    assert (second.clause, second.says) == ("LOGP07", "ranks")


BACKEND = """
from dataclasses import replace
from aliquot.conformance.adapters.oracle import OracleBackend

class Always(OracleBackend):
    def sample(self, logits, batch):
        right = super().sample(logits, batch)
        return replace(right, sampled_token_ids=right.sampled_token_ids * 0)
"""
ONLY = ("run", "--backend", "always:Always", "--tier", "smoke", "--only", "TOPK01", "--in-process")


def test_a_run_with_known_failures(tmp_path: Path) -> None:
    """A run whose failures are all known is green and lists them; one entry too many makes it red."""
    (tmp_path / "always.py").write_text(BACKEND)
    day = datetime.date(9999, 12, 31)
    entry = {"clause": "TOPK01", "reason": "always 0", "link": "#12", "expires": day}
    other = {**entry, "check": "TOPK01_a_thousand_tokens[999]"}
    (tmp_path / "green.toml").write_text(toml(entry))
    (tmp_path / "red.toml").write_text(toml(entry, other))
    green = aliquot(*ONLY, "--known", "green.toml", "--report", "green", cwd=tmp_path)
    red = aliquot(*ONLY, "--known", "red.toml", cwd=tmp_path)
    results = json.loads((tmp_path / "green" / "results.json").read_text())
    verdicts = sorted(one["verdict"] for one in results["checks"])
    assert (green.code, verdicts) == (0, [*["KNOWN"] * 6, "PASS"])
    assert (
        "KNOWN TOPK01 TOPK01_the_k_largest_stay[1]: known until 9999-12-31: always 0;" in green.out
    )
    assert red.code == 1
    assert "FAIL known failure: check TOPK01_a_thousand_tokens[999], clause TOPK01" in red.out


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    """A file that is not there ends the command with exit code 2 before anything runs."""
    ended = aliquot("run", "--known", "nosuch.toml", cwd=tmp_path)
    assert (ended.code, ended.said) == (
        2,
        "aliquot: --known nosuch.toml: No such file or directory\n",
    )
