"""Run the same tier with no worker, one and two: the files of results must be the same, byte for byte.

`python benchmarks/same_results.py [--backend fast] [--tier smoke] [--seed 0]`; exit code 1 when they differ.
"""

import argparse
import tempfile
from pathlib import Path

from aliquot.conformance.run import run
from aliquot.reports.write import write_all

WORKERS = (0, 1, 2)


def main() -> int:
    """Make the runs and compare what they wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="fast")
    parser.add_argument("--tier", default="smoke")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        written = [
            files(options.backend, options.tier, options.seed, workers, Path(folder) / str(workers))
            for workers in WORKERS
        ]
    differ = sorted(
        name for name in written[0] if any(other[name] != written[0][name] for other in written)
    )
    for name in differ:
        print(f"{name}: differs between runs with {', '.join(map(str, WORKERS))} workers")
    if not differ:
        print(f"{', '.join(sorted(written[0]))}: the same bytes with {WORKERS} workers")
    return 1 if differ else 0


def files(backend: str, tier: str, seed: int, workers: int, folder: Path) -> dict[str, bytes]:
    """The bytes of a run's report, by name of the file."""
    results = run(backend, tier=tier, seed=seed, workers=workers)
    print(f"{workers} workers: {results.verdict}, {len(results.checks)} checks", flush=True)
    return {name: path.read_bytes() for name, path in write_all(results, folder).items()}


if __name__ == "__main__":
    raise SystemExit(main())
