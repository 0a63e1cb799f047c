"""docs/processors.md: its examples are the tested files, and the checker says of them what the page says."""

import importlib.util
from pathlib import Path

import pytest

from aliquot.conformance.processor_check.check import CHECKS, check_processor
from aliquot.conformance.processor_check.interface import ACTIVE
from aliquot.conformance.processor_check.params import parse
from aliquot.conformance.processor_check.subject import Subject
from aliquot.reports.results import Verdict

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "processors.md").read_text("utf-8")
EXAMPLES = [
    ("prefer_short", "PreferShort", '{"eos_token_id": 2, "extra_args": {"soft_limit": 1}}', "state-move"),
    ("soft_cap", "SoftCap", '{"extra_args": {"cap": 30}}', "argmax-claim"),
    ("no_repeat", "NoRepeat", '{"extra_args": {"no_repeat": true}}', "state-move"),
]  # fmt: skip


def load(module, cls):
    """A class of one of the example files."""
    spec = importlib.util.spec_from_file_location(module, DOCS / "examples" / f"{module}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, cls)


@pytest.mark.parametrize(("module", "cls", "params", "check_id"), EXAMPLES)
def test_the_page_shows_the_example_and_its_result(module, cls, params, check_id):
    """The source stands on the page, and so does what the checker says of the claim in question."""
    source = (DOCS / "examples" / f"{module}.py").read_text("utf-8")
    subject = Subject(f"{module}:{cls}", load(module, cls), parse(params))
    results = check_processor(subject, [check for check in CHECKS if check.id == check_id])
    (check,) = [check for check in results.checks if check.id == check_id]
    said = f"{check.verdict:11} {check.clauses[0]:7} {check_id}: {check.reason}"
    assert (source in PAGE, said in PAGE) == (True, True)


@pytest.mark.parametrize(
    ("module", "cls", "params", "verdict"),
    [(*example[:3], verdict) for example, verdict in zip(EXAMPLES, ("PASS", "FAIL", "FAIL"), strict=True)],
)  # fmt: skip
def test_one_example_is_right_and_two_are_wrong(module, cls, params, verdict):
    """The correct one passes everything, the others fail."""
    results = check_processor(Subject(f"{module}:{cls}", load(module, cls), parse(params)))
    assert results.verdict is Verdict(verdict)


@pytest.mark.parametrize("check", [ACTIVE, *CHECKS], ids=lambda check: check.id)
def test_the_page_lists_every_check(check):
    """The table of checks is that of the code."""
    assert f"| `{check.id}` | {', '.join(check.clauses)} | {check.title} |" in PAGE
