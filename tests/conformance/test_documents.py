"""What the documents say is true: the example backends, the tables of defaults, links, the README's commands."""

import re
from dataclasses import fields
from pathlib import Path

from command import Ended, aliquot

from aliquot.conformance.backend import Capabilities
from aliquot.conformance.tiers import TIERS
from aliquot.contract.accuracy import CLASSES
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import Profile

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "write-a-backend.md").read_text()
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")})


def examples() -> list[str]:
    """The example backends in the guide: the minimal one, then the one that shows logprobs."""
    return re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def example() -> str:
    """The minimal backend in the guide."""
    return examples()[0]


def documented(heading: str) -> dict[str, str]:
    """The defaults in the table under a heading of the guide, by field."""
    table = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0].split("| default |")[1]
    found: dict[str, str] = {}
    for line in table.split("\n\n")[0].splitlines()[2:]:
        names, given = (re.findall(r"`([^`]*)`", cell) for cell in line.split("|")[1:3])
        found |= dict(zip(names, given * len(names) if len(given) == 1 else given, strict=False))
    return found


def defaults(made: Capabilities | SamplingParams) -> dict[str, str]:
    """Every field's value as the guide writes it."""
    values = {f.name: getattr(made, f.name) for f in fields(made)}
    return {name: repr(value).replace("'", '"') for name, value in values.items()}


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


def run_shown(folder: Path, minimal: str, *options: str) -> Ended:
    """How the guide's second example ends in tier smoke, beside this minimal one."""
    (folder / "minimal.py").write_text(minimal)
    (folder / "shown.py").write_text(examples()[1])
    return aliquot("run", "--backend", "shown:Shown", "--tier", "smoke", *options, cwd=folder)


def test_the_example_that_shows_logprobs_passes(tmp_path: Path) -> None:
    """The guide's second adapter, saved beside the first, is green, and its logprobs are judged."""
    ended = run_shown(tmp_path, example(), "--report", "out")
    junit = (tmp_path / "out" / "junit.xml").read_text()
    assert (ended.code, ended.out.splitlines()[-2][:11]) == (0, "PASS: shown")
    assert "processed_logits inside the derived bounds" in junit
    assert "logprobs mode" not in junit


def test_shown_rows_give_a_filter_away(tmp_path: Path) -> None:
    """A top-k that keeps the largest token alone is found in the rows that the second adapter shows."""
    wrong = example().replace("values[-1]", "values[0]")
    ended = run_shown(tmp_path, wrong, "-n", "0", "--only", "TOPK01_the_k")
    assert (ended.code, "wanted processed_logits keeps {" in ended.out) == (1, True)


def test_the_guide_gives_the_defaults_of_capabilities() -> None:
    """The table of what to declare has every field with its default."""
    made = defaults(Capabilities(name="mine")) | {"profile": "Profile()"}
    del made["name"], made["parameters"]
    assert documented("What to declare") == made
    assert Capabilities(name="mine").profile == Profile()


def test_the_guide_gives_the_defaults_of_parameters() -> None:
    """The table of a request's parameters has every field with its default."""
    assert documented("What `sample` gets") == defaults(SamplingParams())


def test_the_guide_has_the_accuracy_classes_in_order() -> None:
    """Every class is named, the strictest first."""
    named = re.findall(r"^- `(float[^`]*)`:", GUIDE, re.MULTILINE)
    assert named == sorted(CLASSES, key=lambda name: CLASSES[name].sum_error(1 << 17))


def test_links_into_the_contract_arrive() -> None:
    """Every anchor of the contract that a page links to is a clause or a heading there."""
    contract = (ROOT / "docs" / "contract.md").read_text()
    headings = {h.replace(" ", "-") for h in re.findall(r"^## (.*)$", contract, re.MULTILINE)}
    anchors = headings | set(re.findall(r'<a id="([^"]*)">', contract))
    linked = {a for page in PAGES for a in re.findall(r"contract\.md#([\w-]+)", page.read_text())}
    assert {"freedoms", "accuracy-classes", "ERR16"} <= linked <= anchors


def test_the_tiers_of_the_ci_guide_draw_as_often_as_it_says() -> None:
    """The table of tiers has every tier, those that end by themselves with their draws of a law; replays follow."""
    text = (ROOT / "docs" / "ci.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([\d,]+|those of `full`)", text, re.MULTILINE)
    drawn = {name: f"{tier.law_draws:,}" for name, tier in TIERS.items()}
    replayed = [f"{TIERS[name].replay_draws:,}" for name in ("smoke", "pr", "full")]
    assert dict(rows) == drawn | {"deep": "those of `full`"}
    assert "{}, {} and {} of them".format(*replayed) in text


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
