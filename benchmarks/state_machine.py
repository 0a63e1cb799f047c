"""Time the state machine on the oracle and on fast, shrink planted faults, write docs/state-machine.md and .json.

`python benchmarks/state_machine.py [--tier deep] [--seeds 3]`
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from aliquot.conformance.backend import load
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.run import environment
from aliquot.conformance.state_machine.machine import HistorySearch
from aliquot.conformance.state_machine.witness import told
from aliquot.conformance.tiers import TIERS

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"
CHECK = "STATE06_history_does_not_matter"
PLANTED = (
    "swap-alias", "output-copied", "condense-leak", "counts-of-slots", "bias-lags",
    "params-sorted-by-kind", "first-request-for-all", "seed-stays-in-slot", "seed-restarts",
)  # fmt: skip
STEPS, PARTS = 20_000, 4


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", default="deep")
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    write(
        {
            "tier": chosen.tier,
            "environment": environment(),
            "speed": [speed(name, chosen.tier) for name in ("oracle", "fast")],
            "planted": [shrunk(name, seed) for name in PLANTED for seed in range(chosen.seeds)],
        }
    )


def write(data: dict[str, Any]) -> None:
    """Write the figures as JSON, and as tables between the marks of the page."""
    (DOCS / "state-machine.json").write_text(json.dumps(data, indent=1) + "\n")
    page = DOCS / "state-machine.md"
    head, _, rest = page.read_text().partition(BEGIN)
    page.write_text(head + BEGIN + tables(data) + END + rest.partition(END)[2])


def search_of(name: str, tier: str, seed: int, steps: int) -> HistorySearch:
    """A search on the backend of that name."""
    session = Session(name, load(name), TIERS[tier], seed)
    return HistorySearch(Judge(session, CHECK, ("STATE06",), "", ""), steps)


def speed(name: str, tier: str) -> dict[str, Any]:
    """Processor seconds of one of the parts that the tier's steps are searched in."""
    search = search_of(name, tier, 0, TIERS[tier].state_steps // PARTS)
    start = time.process_time()
    if search.run() is not None:
        raise SystemExit(f"{name}: a row departs")
    seconds = round(time.process_time() - start, 1)
    found = {
        "backend": name,
        "steps": search.done,
        "histories": search.histories,
        "processor seconds": seconds,
    }
    print(found, flush=True)
    return found


def shrunk(name: str, seed: int) -> dict[str, Any]:
    """The size of the smallest history found for a planted fault, and the seconds that finding it took."""
    search = search_of(f"fault:{name}", "deep", seed, STEPS)
    start = time.perf_counter()
    found = search.run()
    if found is None:
        raise SystemExit(f"{name}: not found in {STEPS} steps")
    made = {
        "fault": name,
        "seed": seed,
        "requests": found.requests,
        "steps": len(found.steps),
        "histories tried": search.histories,
        "seconds": round(time.perf_counter() - start, 1),
        "history": told(found.steps, search.asked),
    }
    print({key: value for key, value in made.items() if key != "history"}, flush=True)
    return made


def tables(data: dict[str, Any]) -> str:
    """The figures in Markdown."""
    lines = [
        "| backend | steps | histories | processor seconds | steps a processor second |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in data["speed"]:
        rate = row["steps"] / row["processor seconds"]
        lines.append(
            f"| {row['backend']} | {row['steps']:,} | {row['histories']:,} | "
            f"{row['processor seconds']} | {rate:,.0f} |"
        )
    lines += ["", "| planted fault | requests | steps | history, first seed |"]
    lines += ["| --- | --- | --- | --- |"]
    for name in PLANTED:
        rows = [row for row in data["planted"] if row["fault"] == name]
        requests, steps = (
            ", ".join(str(row[key]) for row in rows) for key in ("requests", "steps")
        )
        history = "<br>".join(f"{i}. {text}" for i, text in enumerate(rows[0]["history"], 1))
        lines.append(f"| {name} | {requests} | {steps} | {history} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
