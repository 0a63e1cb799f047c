"""Fills the generated parts of docs/processors.md: checks, examples, the library and vLLM's processors."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aliquot.conformance.processor_check.check import CHECKS, check_processor
from aliquot.conformance.processor_check.interface import ACTIVE
from aliquot.conformance.processor_check.library import RIGHT, WRONG, Entry
from aliquot.conformance.processor_check.subject import Subject
from aliquot.reports.results import Verdict

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "processors.md"
EXAMPLES = (
    ("prefer_short", "PreferShort", '{"eos_token_id": 2, "extra_args": {"soft_limit": 1}}'),
    ("soft_cap", "SoftCap", '{"extra_args": {"cap": 30}}'),
    ("no_repeat", "NoRepeat", '{"extra_args": {"no_repeat": true}}'),
)


def checks() -> str:
    """The table of checks."""
    rows = [f"| `{c.id}` | {', '.join(c.clauses)} | {c.title} |" for c in (ACTIVE, *CHECKS)]
    return "\n".join(["| check | clause | claim |", "|---|---|---|", *rows])


def examples() -> str:
    """Each example's source and what the command says of it."""
    return "\n\n".join(example(*entry) for entry in EXAMPLES)


def example(module: str, cls: str, params: str) -> str:
    """One example."""
    source = (ROOT / "docs" / "examples" / f"{module}.py").read_text("utf-8")
    command = ["aliquot", "check-processor", f"{module}:{cls}", "--params", params]
    said = "\n".join(shown(output_of(command[1:])))
    return f"```python\n{source}```\n\n```\n$ {shlex.join(command)}\n{said}\n```"


def output_of(arguments: list[str]) -> str:
    """What the command prints, run beside the examples."""
    main = "from aliquot.conformance.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main, *arguments],
        cwd=ROOT / "docs" / "examples",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def shown(output: str) -> Iterator[str]:
    """The lines of the output but the time and, where something was found, the checks that passed."""
    lines = [line for line in output.splitlines() if not line.startswith("time of a step")]
    found = any(line.startswith("FAIL ") for line in lines)
    for line in lines:
        if not (found and line.startswith("PASS ")):
            yield line


def library() -> str:
    """The table of the twenty."""
    head = ["| processor | what it does | found by |", "|---|---|---|"]
    return "\n".join([*head, *map(library_row, (*WRONG, *RIGHT))])


def library_row(entry: Entry) -> str:
    """One processor: its description and the checks that it fails."""
    results = check_processor(Subject(entry.cls.__name__, entry.cls, entry.requests))
    failed = [f"`{check.id}`" for check in results.checks if check.verdict is not Verdict.PASS]
    about = (entry.cls.__doc__ or "").splitlines()[0]
    return f"| `{entry.cls.__name__}` | {about} | {', '.join(failed) or 'nothing found'} |"


def vllm() -> str:
    """The table of vLLM's processors, as found."""
    data = json.loads((ROOT / "docs" / "processors" / "vllm.json").read_text("utf-8"))
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    told = (
        f"Result of `benchmarks/processors_vllm.py` with {versions}, seed {data['seed']}, as found:"
    )
    rows = [row for subject in data["subjects"] for row in vllm_rows(subject)]
    return "\n".join([told, "", "| processor | check | what was seen |", "|---|---|---|", *rows])


def vllm_rows(subject: dict[str, Any]) -> Iterator[str]:
    """A row for each check that did not pass, and one for those that did."""
    for check in subject["checks"]:
        steps = "; ".join(map(step, check["finding"]["witness"].items()))
        reason = f"{check['reason']}. {steps}"
        yield f"| {subject['name']} | `{check['id']}` ({check['verdict']}) | {reason} |"
    yield f"| {subject['name']} | the others | {subject['counts']['PASS']} PASS |"


def step(item: tuple[str, Any]) -> str:
    """A line of a witness."""
    name, told = item
    return f"{name}: {told if isinstance(told, str) else json.dumps(told)}"


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with the text between `<!-- begin NAME -->` and its end replaced."""
    for name, text in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        page = re.sub(pattern, lambda _, t=text, b=begin, e=end: f"{b}\n{t}\n{e}", page, flags=re.S)
    return page


if __name__ == "__main__":
    made = {"checks": checks(), "examples": examples(), "library": library(), "vllm": vllm()}
    PAGE.write_text(filled(PAGE.read_text("utf-8"), made), encoding="utf-8")
