"""Complete runs of right samplers with many seeds: none may be red.

The result goes to docs/statistics/complete_runs.json:
`python benchmarks/complete_runs.py [--backend fast --backend oracle] [--tier pr] [--runs 200] [--processes 2]`
goes on where an interrupted call left off; `--fresh` begins again.
"""

import argparse
import itertools
import json
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import track

from aliquot.conformance.run import environment, run
from aliquot.reports.results import Verdict

PLACE = Path(__file__).resolve().parents[1] / "docs" / "statistics" / "complete_runs.json"
RED = (Verdict.FAIL, Verdict.ERROR)


def main() -> int:
    """Make the runs that are missing, each in one process; exit code 1 when one is red."""
    options = arguments()
    done = [] if options.fresh or not PLACE.exists() else json.loads(PLACE.read_text())["runs"]
    made = {_kind_and_seed(one) for one in done}
    wanted = [
        (backend, options.tier, seed)
        for seed in range(options.runs)
        for backend in options.backend
        if (backend, options.tier, seed) not in made
    ]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=spawn) as pool:
        futures = [pool.submit(one_run, *key) for key in wanted]
        for future in track(as_completed(futures), "complete runs", total=len(futures)):
            done.append(future.result())
            save(done)
    red = [one for one in done if one["red"]]
    print(f"{len(done)} complete runs, {len(red)} red")
    return 1 if red else 0


def arguments() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", action="append")
    parser.add_argument("--tier", default="pr")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    options.backend = options.backend or ["fast", "oracle"]
    return options


def one_run(backend: str, tier: str, seed: int) -> dict[str, Any]:
    """Verdicts of one complete run, and the ids of the checks that are red."""
    begun = time.monotonic()
    results = run(backend, tier=tier, seed=seed, workers=0)
    return {
        "backend": backend,
        "tier": tier,
        "seed": seed,
        "checks": len(results.checks),
        "verdicts": dict(sorted(Counter(str(check.verdict) for check in results.checks).items())),
        "red": [f"{c.id}: {c.reason}" for c in results.checks if c.verdict in RED],
        "seconds": round(time.monotonic() - begun, 1),
    }


def save(runs: list[dict[str, Any]]) -> None:
    """Write what was found so far."""
    runs.sort(key=_kind_and_seed)
    kinds = itertools.groupby(runs, key=lambda one: _kind_and_seed(one)[:2])
    content = {
        "summary": [_summary(*kind, list(group)) for kind, group in kinds],
        "environment": environment(),
        "runs": runs,
    }
    PLACE.write_text(json.dumps(content, indent=1) + "\n")


def _kind_and_seed(one: dict[str, Any]) -> tuple[str, str, int]:
    return one["backend"], one["tier"], one["seed"]


def _summary(backend: str, tier: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "backend": backend,
        "tier": tier,
        "runs": len(runs),
        "checks judged": sum(one["checks"] for one in runs),
        "red runs": sum(bool(one["red"]) for one in runs),
    }


if __name__ == "__main__":
    raise SystemExit(main())
