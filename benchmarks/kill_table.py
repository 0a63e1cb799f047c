"""Run the self-test and write its kill table: docs/faults.json, docs/faults.md and a summary in the README.

`python benchmarks/kill_table.py [--workers 2] [--write]` runs tier pr, every check. With `--run full` it runs tier full
and a faulty sampler ends at its first red check, with `--run ids-only` so in tier pr on samplers that show neither
values nor noise; these results go to docs/faults-full.json and docs/faults-ids-only.json. `--missing` runs only the
samplers that the results lack and keeps the others as they were. `--write` only writes the pages anew.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aliquot.conformance.run import environment
from aliquot.conformance.selftest.outcome import KNOWN, Conditions, Outcome, outcomes
from aliquot.conformance.selftest.table import Summary, as_data, from_data, ordered

ROOT = Path(__file__).parents[1]
PLACES = {
    "pr": ROOT / "docs" / "faults.json",
    "full": ROOT / "docs" / "faults-full.json",
    "ids-only": ROOT / "docs" / "faults-ids-only.json",
}
NOTHING: dict[str, Any] = {"samplers": [], "seconds": 0}
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
    """Run the self-test, or read its last results, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", choices=PLACES, default="pr")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if not asked.write:
        place = PLACES[asked.run]
        before = json.loads(place.read_text()) if asked.missing else NOTHING
        place.write_text(json.dumps(_run(asked.run, asked.workers, before), indent=1) + "\n")
    runs = [json.loads(place.read_text()) for place in PLACES.values() if place.exists()]
    (ROOT / "docs" / "faults.md").write_text(document(runs))
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(head + BEGIN + in_short(runs) + END + rest.partition(END)[2])


def _run(name: str, workers: int, before: dict[str, Any]) -> dict[str, Any]:
    start, found = time.perf_counter(), from_data(before["samplers"])
    names = set(KNOWN) - {o.name for o in found}
    tier, hidden = ("pr", True) if name == "ids-only" else (name, False)
    conditions = Conditions(tier, quick=name != "pr", ids_only=hidden)
    for o in outcomes(sorted(names), conditions, workers=workers):
        found.append(o)
        print(f"{len(found)}/{len(KNOWN)} {o.name}: {o.failed} of {o.checks} red", flush=True)
    seconds = before["seconds"] + round(time.perf_counter() - start)
    return {
        "tier": tier, "ids_only": hidden, "seed": conditions.seed, "seconds": seconds, "environment": environment(),
        "samplers": as_data(found),
    }  # fmt: skip


def in_short(runs: Sequence[dict[str, Any]]) -> str:
    """The first run by class, in Markdown, and every run in one line."""
    return summary(from_data(runs[0]["samplers"])) + "\n" + "\n".join(map(_in_words, runs)) + "\n"


def _in_words(run: dict[str, Any]) -> str:
    counted = Summary.of(from_data(run["samplers"]))
    return (
        f"- {_kind(run)}: {counted.killed} of {counted.faults} faults killed, "
        f"{counted.flagged} of {counted.equivalents} equivalent samplers flagged."
    )


def _kind(run: dict[str, Any]) -> str:
    return f"Tier {run['tier']}" + (", token ids alone shown" if run["ids_only"] else "")


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
    return "\n".join(lines) + "\n"


def document(runs: Sequence[dict[str, Any]]) -> str:
    """The whole table of the first run in Markdown, and what the others came to."""
    found = from_data(runs[0]["samplers"])
    lines = [
        "# Faults that the suite catches",
        "",
        "Samplers that are wrong in one known way, each modelled on a public report, and some that only look wrong.",
        f"Made by `nox -s faults` (seed {runs[0]['seed']}); `aliquot selftest --only NAME` runs one. Draws are the",
        "fewest after which some evidence decided, 0 for evidence without draws. The longest checks (large",
        "vocabularies, searches) run for a fault only when no other has failed. The table is that of tier",
        f"{runs[0]['tier']}; in the other runs a fault's first red check is its last. Samplers that show ids alone,",
        "neither values nor noise, hide what is wrong with their logprobs and what only injected noise brings out.",
        "",
        *(f"- {_kind(run)}: {Summary.of(from_data(run['samplers']))}." for run in runs),
        *(f"- {_kind(run)}, not killed: {_alive(run)}." for run in runs if _alive(run)),
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


def _alive(run: dict[str, Any]) -> str:
    found = ordered(from_data(run["samplers"]))
    return ", ".join(o.name for o in found if not (o.equivalent or o.as_wanted))


def _line(o: Outcome) -> str:
    cause = "right" if o.right_cause else o.cause or "none given"
    return (
        f"| {o.name} | {o.group} | {o.about} | {o.report} | {', '.join(o.killed_by) or 'SURVIVES'} | {o.draws} "
        f"| {o.failed} of {o.checks} | {' '.join(o.first)} | {cause} |"
    )


if __name__ == "__main__":
    main()
