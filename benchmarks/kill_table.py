"""Run the self-test and write its kill table: docs/faults.json, docs/faults.md and a summary in the README.

`python benchmarks/kill_table.py [--tier pr] [--workers 2] [--from docs/faults.json]`
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aliquot.conformance.run import environment
from aliquot.conformance.selftest.outcome import KNOWN, Outcome, outcomes
from aliquot.conformance.selftest.table import Summary, as_data, from_data, ordered

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- faults -->\n", "<!-- /faults -->"
CLASSES = {
    "F1": "order of the steps",
    "F2": "top-p",
    "F3": "top-k",
    "F4": "min-p",
    "F5": "temperature, greedy rows",
    "F6": "NaN, infinities, empty rows",
    "F7": "the random draw",
    "F8": "seeds and generators",
    "F9": "batch state",
    "F10": "penalties",
    "F11": "masks, bias, budget",
    "F12": "logprobs and ranks",
    "F14": "index width, dtype, layout",
    "F15": "backends that diverge",
}


def main() -> None:
    """Run the self-test, or read its last result, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", default="pr")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--from", dest="given", type=Path)
    asked = parser.parse_args()
    data = json.loads(asked.given.read_text()) if asked.given else _run(asked.tier, asked.workers)
    found = from_data(data["samplers"])
    (ROOT / "docs" / "faults.json").write_text(json.dumps(data, indent=1) + "\n")
    (ROOT / "docs" / "faults.md").write_text(document(data, found))
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(head + BEGIN + summary(found) + END + rest.partition(END)[2])


def _run(tier: str, workers: int) -> dict[str, Any]:
    start, found = time.perf_counter(), []
    for o in outcomes(list(KNOWN), tier=tier, seed=0, workers=workers):
        found.append(o)
        print(f"{len(found)}/{len(KNOWN)} {o.name}: {o.failed} of {o.checks} red", flush=True)
    seconds = round(time.perf_counter() - start)
    return {
        "tier": tier, "seed": 0, "seconds": seconds, "environment": environment(),
        "samplers": as_data(found),
    }  # fmt: skip


def summary(found: Sequence[Outcome]) -> str:
    """One line a class of faults, in Markdown."""
    lines = [
        "| class | faults | killed | by | first red clause its own | likely cause right |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for group, words in CLASSES.items():
        own = [o for o in found if o.group == group]
        kinds = Counter(kind for o in own for kind in o.killed_by)
        by = ", ".join(f"{kind} ({n})" for kind, n in kinds.most_common(4))
        counted = Summary.of(own)
        lines.append(
            f"| {group} {words} | {counted.faults} | {counted.killed} | {by} | {counted.own_clause} "
            f"| {counted.right_cause} |"
        )
    return "\n".join(lines) + f"\n\n{Summary.of(found)}.\n"


def document(data: dict[str, Any], found: Sequence[Outcome]) -> str:
    """The whole table in Markdown."""
    lines = [
        "# Faults that the suite catches",
        "",
        "Samplers that are wrong in one known way, each modelled on a public report, and some that only look wrong.",
        f"Made by `nox -s faults` (tier {data['tier']}, seed {data['seed']}); `aliquot selftest --only NAME` runs one.",
        "Draws are the fewest after which some evidence decided, 0 for evidence without draws. The longest checks",
        "(large vocabularies, searches) run for a fault only when no other has failed.",
        "",
        f"{Summary.of(found)}.",
        "",
        "| fault | class | what is wrong | modelled on | killed by | draws | red | first clause | likely cause |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_line(o) for o in ordered(found) if not o.equivalent),
        "",
        "## Equivalent samplers",
        "",
        "They do something else and draw the same law; no check may flag them.",
        "",
        "| sampler | what it does | modelled on | red checks |",
        "| --- | --- | --- | --- |",
        *(
            f"| {o.name} | {o.about} | {o.report} | {o.failed} of {o.checks} |"
            for o in ordered(found)
            if o.equivalent
        ),
    ]
    return "\n".join(lines) + "\n"


def _line(o: Outcome) -> str:
    cause = "right" if o.right_cause else o.cause or "none given"
    return (
        f"| {o.name} | {o.group} | {o.about} | {o.report} | {', '.join(o.killed_by) or 'SURVIVES'} | {o.draws} "
        f"| {o.failed} of {o.checks} | {' '.join(o.first)} | {cause} |"
    )


if __name__ == "__main__":
    main()
