"""Make docs/real-backends.md and its data from the runs in out/.

`python benchmarks/real_backends/report.py [NAME...]` takes the results that `judge.py` left for these releases, keeps
what the page needs in docs/real-backends/NAME.json and writes the page from all such files.
"""

import datetime
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from aliquot.conformance import known
from aliquot.contract.profile import CANONICAL, FREEDOMS
from aliquot.reports.results import CheckResult, RunResults, Verdict, from_json

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PAGE, DATA = ROOT / "docs" / "real-backends.md", ROOT / "docs" / "real-backends"
NOISE = "float64-noise"
NAMES = (
    "vllm-0.32.0", "vllm-0.32.0-float64-noise", "vllm-0.25.1", "vllm-0.25.1-float64-noise",
    "transformers-5.19.0",
)  # fmt: skip
COUNTED = (Verdict.PASS, Verdict.DIVERGES, Verdict.KNOWN, Verdict.FAIL, Verdict.ERROR,
           Verdict.UNSUPPORTED)  # fmt: skip


def extract(folder: Path) -> dict[str, Any]:
    """What the page needs of one run."""
    results = marked(from_json((folder / "results.json").read_text()), folder.name)
    accuracy = folder / "accuracy.json"
    told = results.backend
    return {
        "backend": told.name, "version": told.version, "tier": results.tier, "seed": results.seed,
        "environment": results.environment, "accuracy": told.accuracy, "noise": told.noise,
        "dtypes": told.dtypes, "freedoms": told.freedoms,
        "counts": {verdict: results.counts[verdict] for verdict in COUNTED},
        "undeclared": dict(_undeclared(results).most_common()),
        "findings": list(_findings(results, json.loads((folder / "witnesses.json").read_text()))),
        "failures": [_shown(check) for check in results.failures],
        "classes": json.loads(accuracy.read_text()) if accuracy.exists() else {},
    }  # fmt: skip


def marked(results: RunResults, name: str) -> RunResults:
    """The results with the failures that are listed today marked as known."""
    listed = name if not name.endswith(NOISE) else f"vllm-{NOISE}"
    path = FOLDER / f"known-{listed}.toml"
    entries = known.read(path, datetime.date.today())
    return replace(results, checks=tuple(entries.mark(check) for check in results.checks))


def _undeclared(results: RunResults) -> Counter[str]:
    found = (c.reason for c in results.checks if c.verdict is Verdict.UNSUPPORTED)
    return Counter(reason.removeprefix("not declared: ") for reason in found)


def _findings(results: RunResults, witnesses: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The known failures by witness: the checks that show each, the first of them in full."""
    for told in witnesses:
        seen = [c for c in results.checks if c.known and c.known.link == told["script"]]
        clauses, _, what = told["told"].partition(": ")
        yield {
            "clauses": clauses.split(", "),
            "what": what,
            "reason": seen[0].known.reason if seen and seen[0].known else "",
            "checks": [check.id for check in seen],
            "first": _shown(seen[0]) if seen else {},
            "witness": {name: told[name] for name in ("script", "wanted", "got")},
        }


def _shown(check: CheckResult) -> dict[str, Any]:
    found = check.finding
    return {"check": check.id, "wanted": found.wanted, "got": found.got} if found else {}


def page(runs: dict[str, dict[str, Any]]) -> str:
    """The page in Markdown."""
    made = Environment(
        loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    made.filters["freedoms"] = freedoms
    text = made.get_template("page.md.j2").render(
        runs=runs,
        counted=COUNTED,
        torch=" and ".join(sorted({run["environment"]["torch"] for run in runs.values()})),
        tier=" and ".join(sorted({run["tier"] for run in runs.values()})),
    )
    return text.rstrip() + "\n"


def freedoms(run: dict[str, Any]) -> list[str]:
    """The choices that are not the canonical ones, with what they are about."""
    about = {freedom.name: freedom.about for freedom in FREEDOMS}
    canonical = CANONICAL.as_dict()
    chosen = ((name, c) for name, c in run["freedoms"].items() if c != canonical[name])
    return [f"{about.get(name, name)}: `{choice}`" for name, choice in chosen]


def stored() -> dict[str, dict[str, Any]]:
    """The data of every release that has been judged."""
    found = {name: DATA / f"{name}.json" for name in NAMES}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}


def main(names: Iterable[str]) -> None:
    """Keep the results of these releases, and write the page."""
    DATA.mkdir(exist_ok=True)
    for name in names:
        found = json.dumps(extract(ROOT / "out" / name), indent=1) + "\n"
        (DATA / f"{name}.json").write_text(found)
    PAGE.write_text(page(stored()))


if __name__ == "__main__":
    main(sys.argv[1:] or NAMES)
