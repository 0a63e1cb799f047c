"""Run every fault of the library and write what found it into the README and docs/faults.json.

`python benchmarks/kill_table.py [--tier pr]`
"""

import argparse
import json
from pathlib import Path
from typing import Any

from aliquot.conformance.faults import FAULTS, Fault
from aliquot.conformance.run import environment, run

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- faults -->\n", "<!-- /faults -->"


def main() -> None:
    """Run the faults, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tier", default="pr")
    tier = parser.parse_args().tier
    rows = []
    for fault in FAULTS.values():
        rows.append(outcome(fault, tier))
        print(rows[-1]["name"], rows[-1]["failed"], "of", rows[-1]["checks"], flush=True)
    data = {"tier": tier, "seed": 0, "environment": environment(), "faults": rows}
    (ROOT / "docs" / "faults.json").write_text(json.dumps(data, indent=1) + "\n")
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(head + BEGIN + table(rows) + END + rest.partition(END)[2])


def outcome(fault: Fault, tier: str) -> dict[str, Any]:
    """What one fault's run found."""
    results = run(f"fault:{fault.name}", tier=tier, seed=0, workers=2)
    failures = results.failures
    named = [c for c in failures if c.finding and fault.about in (c.finding.likely_cause or "")]
    return {
        "name": fault.name,
        "about": fault.about,
        "report": fault.report,
        "breaks": list(fault.clauses),
        "checks": len(results.checks),
        "failed": len(failures),
        "first": list(failures[0].clauses) if failures else [],
        "cause named": len(named),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| fault | modelled on | red checks | first clause | cause named |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        lines.append(
            f"| {row['about']} | {row['report']} | {row['failed']} of {row['checks']} | "
            f"{' '.join(row['first'])} | in {row['cause named']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
