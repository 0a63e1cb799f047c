"""Time the state machine on the oracle and on fast, shrink planted faults, write docs/state-machine.md and .json.

`python benchmarks/state_machine.py [--tier deep]`
"""

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

from aliquot.conformance.backend import load
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.run import environment, run
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
SEEDS = range(3)
STEPS = 20_000


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", default="deep")
    tier = parser.parse_args().tier
    data = {
        "tier": tier,
        "environment": environment(),
        "speed": [speed(name, tier) for name in ("oracle", "fast")],
        "planted": [shrunk(name, seed) for name in PLANTED for seed in SEEDS],
    }
    (DOCS / "state-machine.json").write_text(json.dumps(data, indent=1) + "\n")
    page = DOCS / "state-machine.md"
    head, _, rest = page.read_text().partition(BEGIN)
    page.write_text(head + BEGIN + tables(data) + END + rest.partition(END)[2])


def speed(name: str, tier: str) -> dict[str, Any]:
    """Seconds of a run of the state machine alone on two workers, start of the processes included."""
    start, cpu = time.perf_counter(), processor_seconds()
    results = run(name, tier=tier, seed=0, workers=2, only=CHECK)
    seconds = time.perf_counter() - start
    words = [check.reason.split() for check in results.checks]
    found = {
        "backend": name,
        "verdict": results.verdict,
        "steps": sum(int(w[0]) for w in words),
        "histories": sum(int(w[3]) for w in words),
        "seconds": round(seconds, 1),
        "processor seconds": round(processor_seconds() - cpu, 1),
    }
    print(found, flush=True)
    return found


def processor_seconds() -> float:
    """What the processes that this one started and that ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shrunk(name: str, seed: int) -> dict[str, Any]:
    """The size of the smallest history found for a planted fault, and the seconds that finding it took."""
    session = Session(f"fault:{name}", load(f"fault:{name}"), TIERS["deep"], seed)
    search = HistorySearch(Judge(session, CHECK, ("STATE06",), "", ""), STEPS)
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
        "| backend | steps | histories | seconds | processor seconds | steps a processor second |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in data["speed"]:
        rate = row["steps"] / row["processor seconds"]
        lines.append(
            f"| {row['backend']} | {row['steps']:,} | {row['histories']:,} | {row['seconds']} | "
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
