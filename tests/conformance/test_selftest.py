"""The self-test: its exit codes, its table, and that it judges as a run does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command import aliquot

from aliquot.conformance.faults import EQUIVALENTS, FAULTS
from aliquot.conformance.run import run
from aliquot.conformance.selftest import outcome as selftest
from aliquot.conformance.selftest.outcome import Conditions
from aliquot.conformance.selftest.table import Summary, as_data, from_data
from aliquot.reports.results import Verdict


def test_a_killed_fault_and_its_table(tmp_path: Path) -> None:
    """A fault that a check kills ends with code 0, its row in the table and the same in JSON."""
    ended = aliquot(
        "selftest", "--only", "rank-constant", "--checks", "RANK", "--tier", "smoke", "-n", "0",
        "--json", "kills.json", cwd=tmp_path,
    )  # fmt: skip
    data = json.loads((tmp_path / "kills.json").read_text())
    assert ended.code == 0
    assert ended.err.startswith("1/1 rank-constant: 4 of 4 red")
    assert "rank-constant" in ended.out.splitlines()[1]
    assert "1 of 1 faults killed" in ended.out.splitlines()[-1]
    assert [(s["name"], s["own_clause"], s["right_cause"]) for s in data["samplers"]] == [
        ("rank-constant", True, True)
    ]


def test_a_surviving_fault_ends_with_code_1(tmp_path: Path) -> None:
    """A fault that no chosen check kills stands out and makes the command fail."""
    ended = aliquot(
        "selftest", "--only", "rank-constant", "--checks", "TOPK04", "--tier", "smoke", "-n", "1",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.code == 1
    assert "SURVIVES" in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "nothing-like-it"), "--only nothing-like-it"),
        (("--checks", "XX"), "--checks XX"),
    ],
)
def test_wrong_use_ends_with_code_2(arguments: tuple[str, str], said: str, tmp_path: Path) -> None:
    """A name that no sampler or check has is one line on standard error."""
    ended = aliquot("selftest", *arguments, "--tier", "smoke", "-n", "0", cwd=tmp_path)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


def test_it_judges_as_a_run_does() -> None:
    """The checks judged one after another give the failures and the causes of `aliquot run`."""
    whole = run("fault:topk-one-more", tier="smoke", seed=0, workers=0, only="TOPK04")
    found = selftest.outcome("topk-one-more", Conditions("smoke", only="TOPK04"))
    assert (found.failed, found.checks) == (len(whole.failures), len(whole.checks))
    assert found.first == whole.failures[0].clauses
    finding = whole.failures[0].finding
    assert finding is not None
    assert found.cause in (finding.likely_cause or "")


def test_a_flagged_equivalent_sampler_fails_the_self_test() -> None:
    """An equivalent sampler with a failed check, or one that could not run, is flagged."""
    right = selftest.described(EQUIVALENTS["same-gumbel-max"], [], 0.0)
    summaries = [Summary.of([replace(right, failed=1)]), Summary.of([replace(right, errors=1)])]
    assert [(s.flagged, s.passed) for s in summaries] == [(1, False), (1, False)]
    assert Summary.of([right]).passed


def test_the_fewest_draws_of_each_kind_of_evidence_count() -> None:
    """Two failures of a kind leave the smaller number of draws."""
    results = run("fault:draw-always-zero", tier="smoke", seed=0, workers=0, only="DRAW02")
    found = selftest.described(FAULTS["draw-always-zero"], results.checks, 0.0)
    draws = [c.finding.draws for c in results.checks if c.finding and c.verdict is Verdict.FAIL]
    assert found.killed_by["support"] == min(draws)


def test_outcomes_survive_json() -> None:
    """Outcomes written as JSON values are read back as they were."""
    found = [selftest.described(FAULTS["rank-constant"], [], 1.5)]
    assert from_data(json.loads(json.dumps(as_data(found)))) == found


def test_quick_begins_with_the_own_clauses_and_ends_at_the_first_red_check() -> None:
    """Every RANK check is red for this fault, so one check is enough; a right sampler is tested whole."""
    quick = selftest.outcome("rank-constant", Conditions("smoke", quick=True))
    whole = selftest.outcome("same-unnormalised", Conditions("smoke", only="RANK"))
    right = selftest.outcome("same-unnormalised", Conditions("smoke", only="RANK", quick=True))
    assert (quick.failed, quick.checks, quick.own_clause) == (1, 1, True)
    assert right.checks == whole.checks > 1


def test_a_sampler_that_shows_ids_alone_is_killed_by_its_draws() -> None:
    """Top-k with one token more, its values hidden, is red by draws; a wrong rank is then out of sight."""
    hidden = selftest.outcome(
        "topk-one-more", Conditions("smoke", only="TOPK01_the", ids_only=True)
    )
    unseen = selftest.outcome("rank-constant", Conditions("smoke", only="RANK", ids_only=True))
    assert set(hidden.killed_by) <= {"support", "law"}
    assert (hidden.as_wanted, unseen.failed) == (True, 0)
