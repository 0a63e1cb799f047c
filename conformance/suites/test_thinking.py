"""THINK: the limit on the tokens of a thinking section."""

from dataclasses import replace

import pytest

from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.judge import Judge
from aliquot.conformance.suites.test_masks import both
from aliquot.contract.batch import ThinkingMarkers

START, END = (10, 11), (12, 13)
MARKERS = ThinkingMarkers(start=START, end=END)
LOGITS = normal(16, 3)


def thinking(
    name: str, output: tuple[int, ...], budget: int | None = 2, prompt: tuple[int, ...] = ()
) -> Case:
    """A row in the middle of thinking, with two-token markers."""
    case = row(name, LOGITS, prompt=prompt, output=output, thinking_token_budget=budget)
    return replace(case, thinking=MARKERS)


@pytest.mark.parametrize(
    "output",
    [START, (*START, 5), (*START, 5, 6), (*START, 5, 6, 12), (*START, 5, 6, *END, 7)],
    ids=["opened", "one used", "used up", "half closed", "closed"],
)
def test_THINK01_THINK02_the_forced_end(judge: Judge, output: tuple[int, ...]) -> None:
    """Once the budget is used up the end marker is forced, one token a step, then nothing more."""
    both(judge, thinking("budget 2", output))


@pytest.mark.parametrize("output", [(), (10,), START, (*START, 12), (*START, *END)], ids=str)
def test_THINK03_budget_0(judge: Judge, output: tuple[int, ...]) -> None:
    """With budget 0 the end marker follows the start marker directly."""
    both(judge, thinking("budget 0", output, budget=0))


@pytest.mark.parametrize("output", [(), (6,), (6, 12)], ids=str)
def test_THINK04_a_section_that_begins_in_the_prompt(judge: Judge, output: tuple[int, ...]) -> None:
    """Tokens of the section in the prompt count against the budget."""
    both(judge, thinking("begun in the prompt", output, prompt=(1, *START, 5)))
    both(judge, thinking("marker across", (11, *output), prompt=(1, 10)))


@pytest.mark.parametrize("output", [(10, 5, 6, 7), (11, 10, 5, 6), (11, 5, 6, 7)], ids=str)
def test_THINK05_half_a_start_marker_opens_nothing(judge: Judge, output: tuple[int, ...]) -> None:
    """Markers match as whole sequences only."""
    both(judge, thinking("no start marker", output))


def test_THINK06_a_begun_end_marker_goes_on(judge: Judge) -> None:
    """When the budget runs out in the middle of an end marker, the rest of it is forced."""
    both(judge, thinking("end marker begun", (*START, 5, 12)))


def test_THINK07_a_natural_end_gives_the_budget_back(judge: Judge) -> None:
    """The section after one that ended by itself has the whole budget."""
    first = (*START, 5, *END, 7)
    both(judge, thinking("second section, two of three used", (*first, *START, 5, 6), budget=3))
    both(judge, thinking("second section, used up", (*first, *START, 5, 6, 7), budget=3))


def test_THINK08_reopening_after_a_forced_end(judge: Judge) -> None:
    """A section opened after a forced end is closed at once."""
    both(judge, thinking("reopened", (*START, 5, 6, *END, 7, *START)))


def test_THINK09_no_end_marker(judge: Judge) -> None:
    """Without an end marker the budget has no effect."""
    case = thinking("no end marker", (*START, 5, 6, 7))
    both(judge, replace(case, thinking=ThinkingMarkers(start=START)))


def test_THINK10_the_latest_marker_decides(judge: Judge) -> None:
    """An end marker before the start marker, also in the prompt, does not close the section."""
    both(judge, thinking("stale end", (*START, 5, 6), prompt=(3, *END)))


def test_THINK01_a_neighbour_without_a_budget(judge: Judge) -> None:
    """Rows without a budget think as long as they like, also beside one that is closed."""
    used, free = (*START, 5, 6), None
    rows = thinking("budget", used), thinking("none", used, budget=free)
    both(judge, stacked("budget beside none", *rows, thinking=MARKERS))
