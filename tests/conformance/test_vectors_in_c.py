"""The sampler in C of the guide to vectors: it compiles, it passes, and with a fault it does not."""

import shutil
import subprocess
from pathlib import Path

import pytest
from command import Ended, aliquot

pytestmark = pytest.mark.compiler
SOURCE = Path(__file__).parents[2] / "docs" / "vectors" / "example.c"
FILTERS = "TOPP"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an export of the checks of top-p."""
    folder = tmp_path_factory.mktemp("c")
    ended = aliquot("vectors", "export", "dir", "--only", FILTERS, cwd=folder)
    assert ended.code == 0, ended.err
    return folder


def judged(folder: Path, name: str, was: str = "", now: str = "", only: str = FILTERS) -> Ended:
    """How the judge ends on the program's answers, one piece of its source replaced."""
    compiler = shutil.which("cc")
    assert compiler, "no C compiler: cc is not on the path"
    text = SOURCE.read_text()
    assert text.count(was) == 1 or not was
    (folder / f"{name}.c").write_text(text.replace(was, now) if was else text)
    options = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *options, "-o", name, f"{name}.c", "-lm"], cwd=folder, check=True)
    subprocess.run([folder / name, "dir", f"{name}.jsonl"], cwd=folder, check=True)
    return aliquot("vectors", "judge", "dir", f"{name}.jsonl", "--only", only, cwd=folder)


def test_the_example_passes(exported: Path) -> None:
    """The guide's program compiles without a warning and every check of top-p that it answers is green."""
    ended = judged(exported, "example")
    assert (ended.code, ended.out.splitlines()[-1][:15]) == (0, "PASS: example.c")


FAULTS = [
    (
        "p_before_k",
        "    alive = top_k(tokens, alive, row->top_k);\n    alive = top_p(tokens, alive, row->top_p);\n",
        "    alive = top_p(tokens, alive, row->top_p);\n    alive = top_k(tokens, alive, row->top_k);\n",
        "TOPP07",
    ),
    (
        "no_crossing",
        "before / sum < p)) before",
        "(before + tokens[kept].weight) / sum < p)) before",
        "TOPP03",
    ),
    ("ties_cut", "    return with_ties(tokens, kept, count);\n", "    return kept;\n", "TOPP04"),
]


@pytest.mark.parametrize(("name", "was", "now", "clause"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_fault_in_the_example_is_red(
    exported: Path, name: str, was: str, now: str, clause: str
) -> None:
    """Top-p before top-k, the crossing token dropped and ties cut each fail at their clause."""
    ended = judged(exported, name, was, now, only=clause)
    assert ended.code == 1
    assert ended.out.startswith(f"FAIL {clause} ")
