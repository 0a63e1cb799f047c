"""What the documents say is true: the example backend, the README's commands."""

import re
from pathlib import Path

from command import aliquot

ROOT = Path(__file__).parents[2]


def example() -> str:
    """The example backend in the guide."""
    text = (ROOT / "docs" / "write-a-backend.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]


def test_the_example_backend_is_short() -> None:
    """The guide's adapter has at most 30 lines of code."""
    lines = [line for line in example().splitlines() if line.strip()]
    assert len(lines) <= 30


def test_the_example_backend_passes(tmp_path: Path) -> None:
    """The guide's adapter, saved and run as the guide says, is green."""
    (tmp_path / "minimal.py").write_text(example())
    ended = aliquot(
        "run", "--backend", "minimal:Minimal", "--tier", "smoke", "--report", "out", cwd=tmp_path
    )
    assert (ended.code, ended.out.splitlines()[-2][:13]) == (0, "PASS: minimal")


def test_an_undeclared_parameter_is_named(tmp_path: Path) -> None:
    """A check of what the adapter does not declare ends as UNSUPPORTED with the parameter's name."""
    (tmp_path / "minimal.py").write_text(example())
    aliquot(
        "run", "--backend", "minimal:Minimal", "--tier", "smoke", "-n", "0", "--only", "TOP",
        "--report", "out", cwd=tmp_path,
    )  # fmt: skip
    junit = (tmp_path / "out" / "junit.xml").read_text()
    assert "not declared: top_p" in junit
    assert "not declared: top_k" not in junit


def test_a_declared_parameter_that_is_not_honoured_fails(tmp_path: Path) -> None:
    """The same adapter claiming top_p, which it ignores, is red at top-p clauses."""
    claimed = example().replace('"top_k", "seed"', '"top_k", "top_p", "seed"')
    (tmp_path / "minimal.py").write_text(claimed)
    ended = aliquot(
        "run", "--backend", "minimal:Minimal", "--tier", "smoke", "-n", "0", "--only", "TOPP01",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.code == 1
    assert ended.out.startswith("FAIL TOPP01 ")


def test_the_readme_commands_are_one_line_each() -> None:
    """README gives the main job and the tests as one line each."""
    text = (ROOT / "README.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("python3 -m venv .venv")]
    assert len(lines) == 2
    assert "aliquot run --backend fast --tier pr --report out" in lines[0]
    assert "nox -s tests" in lines[1]
