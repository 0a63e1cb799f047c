"""What the page on reading the oracle says is so."""

import contextlib
import io
import json
import re
from pathlib import Path

from aliquot.contract.clauses import groups
from aliquot.oracle import pipeline

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reading-the-oracle.md").read_text("utf-8")
TABLE = re.findall(r"^\| ([a-z, -]+) \| (`.*`) \| (\w*) ?\|$", PAGE, re.M)


def test_the_example_prints_what_the_page_shows():
    """The code block runs and prints the block after it."""
    code, printed = re.search(r"```python\n(.*?)```.*?```\n(.*?)```", PAGE, re.S).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "reading-the-oracle.md", "exec"), {})
    assert out.getvalue() == printed


def test_the_table_names_every_chapter_and_step():
    """Chapters but the invariants, steps in order, and files that exist."""
    chapters = [name for cell, _, _ in TABLE for name in cell.split(", ")]
    steps = [step for _, _, step in TABLE if step]
    files = [name for _, cell, _ in TABLE for name in re.findall(r"`(.*?)`", cell)]
    missing = [f for f in files if not (ROOT / f if "/" in f else ROOT / "oracle" / f).exists()]
    assert chapters == [group.name for group in groups() if group.prefix != "INV"]
    assert (steps, missing) == ([step.name for step in pipeline.CONTRACT], [])


def test_the_measured_loss_is_the_benchmarks():
    """The figure on the page is the one in sharpness.json."""
    found = json.loads((ROOT / "docs" / "certificate" / "sharpness.json").read_text("utf-8"))
    assert f"up to\n{found['torch error on real rows, largest']:g} units" in PAGE


def test_the_bounds_are_as_sharp_as_stated():
    """The committed measurement has at most 3 undecided tokens and a ratio of at most 8, for each p."""
    found = json.loads((ROOT / "docs" / "certificate" / "sharpness.json").read_text("utf-8"))
    cells = [found[f"p = {p}"] for p in (0.5, 0.9, 0.99)]
    assert all(cell["undecided"] <= 3 and cell["ratio"] <= 8 for cell in cells)
