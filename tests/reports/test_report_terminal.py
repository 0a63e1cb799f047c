"""The lines that a run ends with in the terminal."""

import dataclasses

import report_samples as samples

from aliquot.reports.results import CheckResult, Verdict
from aliquot.reports.terminal import SHOWN, to_terminal

CAUSES = (
    "the values are those that result if k + 1 tokens are kept",
    "the ids are those that result if k + 1 tokens are kept",
)


def _failed(number: int, *clauses: str, cause: str | None = None) -> list[CheckResult]:
    finding = dataclasses.replace(
        samples.ties_finding("row"), likely_cause=cause, blames=("TOPK01",) if cause else ()
    )
    return [
        samples.exact(
            clauses[0], f"{n:03}", Verdict.FAIL, clauses=clauses, reason=f"why {n}", finding=finding
        )
        for n in range(number)
    ]


def test_each_kind_of_failure_is_seen() -> None:
    """Copies of one failure are one entry with their number, the other failure stands beside them."""
    run = samples.run([*_failed(165, "IO02", "ERR16"), *_failed(1, "TOPK03")])
    assert [line for line in to_terminal(run) if line.startswith("FAIL ")] == [
        "FAIL TOPK03 topk/TOPK03/000: why 0",
        "FAIL IO02 ERR16 io/IO02/000 (first of 165): why 0",
    ]


def test_the_first_of_a_set_has_its_cause_and_command() -> None:
    """Below the reason stand the likely cause and the command of that check."""
    lines = to_terminal(samples.run(_failed(2, "TOPK03", cause=CAUSES[0])))
    assert lines[:3] == [
        "FAIL TOPK03 topk/TOPK03/000 (first of 2): why 0",
        f"     likely cause: {CAUSES[0]}",
        "     aliquot run --backend fast --tier pr --seed 1 --only topk/TOPK03/row",
    ]


def test_a_check_of_several_clauses_is_counted_once() -> None:
    """The numbers of the tally add up to the failed checks."""
    run = samples.run([*_failed(1, "ERR18"), *_failed(12, "ERR16", "ERR17", "ERR18")])
    tally = "13 checks with FAIL, by the clauses they test: ERR16 ERR17 ERR18 (12), ERR18 (1)"
    assert tally in to_terminal(run)


def test_one_set_needs_no_tally() -> None:
    """When all failed checks test the same clauses, the entry has said their number."""
    assert not any(
        "by the clauses" in line for line in to_terminal(samples.run(_failed(9, "ERR18")))
    )


def test_many_sets_are_cut_and_still_counted() -> None:
    """Of many sets of clauses the first are shown, the number of the others is said and the tally has all."""
    checks = [check for n in range(SHOWN + 3) for check in _failed(2, f"X{n:02}")]
    lines = to_terminal(samples.run(checks))
    assert sum("(first of 2)" in line for line in lines) == SHOWN
    assert "     and 3 more sets of clauses with FAIL" in lines
    assert sum(f"X{n:02} (2)" in line for n in range(SHOWN + 3) for line in lines) == 13


def test_the_cause_named_most_often_is_told_with_its_share() -> None:
    """Causes that differ only in what was looked at are one; checks without a cause count in the whole."""
    checks = [
        *_failed(3, "TOPK01", cause=CAUSES[0]),
        *_failed(2, "TOPK02", cause=CAUSES[1]),
        *_failed(4, "TOPK03"),
    ]
    lines = to_terminal(samples.run(checks))
    assert "likely cause of 5 of 9: k + 1 tokens are kept (TOPK01)" in lines


def test_checks_that_could_not_run_are_told_apart() -> None:
    """An error is listed by its clauses with its reason, after the failures."""
    errors = [samples.exact("TOPK03", name, Verdict.ERROR, reason="no kernel") for name in "ab"]
    lines = to_terminal(samples.run([*_failed(1, "TOPK03"), *errors]))
    assert [line for line in lines if line.startswith(("FAIL T", "ERROR T"))] == [
        "FAIL TOPK03 topk/TOPK03/000: why 0",
        "ERROR TOPK03 topk/TOPK03/a (first of 2): no kernel",
    ]


def test_known_failures_are_told_with_their_links() -> None:
    """A green run names its known failures and where they are followed, not how to reproduce them."""
    lines = to_terminal(samples.known_run())
    assert [line.partition(": ")[0] for line in lines[:4]] == [
        "KNOWN TOPK03 topk/TOPK03/bf16-row-11", "     https://example.org/issues/7",
        "KNOWN TOPK03 topk/TOPK03/bf16-row-3", "     https://example.org/issues/7",
    ]  # fmt: skip


def test_many_known_failures_are_cut() -> None:
    """The first are listed and the others counted."""
    known = next(check for check in samples.known_run().checks if check.known)
    checks = [dataclasses.replace(known, id=f"{n:03}") for n in range(SHOWN + 1)]
    assert "     and 1 more check failing as known" in to_terminal(samples.run(checks))


def test_the_last_line_is_the_verdict_with_its_counts() -> None:
    """Verdict, backend, tier, seed and the number of checks of each verdict."""
    assert to_terminal(samples.failing_run())[-1] == (
        "FAIL: fast, tier pr, seed 1: 200 PASS, 5 FAIL, 1 UNDECIDED, 1 DIVERGES, 1 UNSUPPORTED"
    )


def test_a_backends_words_cannot_steer_the_terminal() -> None:
    """Control characters in a reason are shown as escapes."""
    text = "\n".join(to_terminal(samples.hostile_run()))
    assert r"\x1b[31m" in text
    assert "\x1b" not in text


def test_an_entry_that_knows_a_failure_wrongly_is_named_in_the_tally() -> None:
    """Such a finding tests no clause and is not counted under a blank name."""
    entry = dataclasses.replace(_failed(1, "ERR18")[0], id="known failure: clause IO10", clauses=())
    lines = to_terminal(samples.run([entry, *_failed(1, "ERR18")]))
    assert "2 checks with FAIL, by the clauses they test: known failures (1), ERR18 (1)" in lines


def test_a_run_that_decided_nothing_says_so() -> None:
    """Checks that are all UNSUPPORTED end as ERROR, and the last line has the reason."""
    run = samples.run([samples.exact("PEN04", "bad-words", Verdict.UNSUPPORTED)])
    assert to_terminal(run)[-1].endswith(": nothing was decided: 1 UNSUPPORTED")
