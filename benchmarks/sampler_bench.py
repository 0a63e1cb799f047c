"""Times samplers beside each other: same process, same inputs, interleaved, medians.

Writes `sampler.json`; with `--docs` the table and the plots too (see sampler_report.py).
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sampler_cases import CASES, Case, Input, batch_for, normal_input, real_input
from sampler_contenders import Step, Unsupported, contenders
from torch import Tensor

from aliquot.contract.batch import Batch

FLOOR = "one read"
CALLS = 3

# `cpu` counts the calling thread alone: for one thread on a machine that is not quiet.
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}


@dataclass(frozen=True)
class Timing:
    """How to time: the clock and the number of rounds."""

    clock: str
    repeats: int

    def milliseconds(self, step: Step, logits: Tensor, buffer: Tensor) -> float:
        """One call on a fresh copy of the logits; the copy is not timed."""
        now = CLOCKS[self.clock]
        buffer.copy_(logits)
        begin = now()
        step(buffer)
        return (now() - begin) * 1e3

    def interleaved(self, steps: dict[str, Step], logits: Tensor) -> dict[str, list[float]]:
        """Times of each step; the steps take turns of `CALLS` calls, the first round warms up.

        Each round starts with another step, so that none always follows the same neighbour.
        """
        buffer = torch.empty_like(logits)
        names = list(steps)
        found: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(self.repeats + 1):
            for place in range(len(steps)):
                name = names[(turn + place) % len(steps)]
                times = [self.milliseconds(steps[name], logits, buffer) for _ in range(CALLS)]
                found[name] += times if turn else []
        return found


def steps_for(batch: Batch, makers: dict[str, Callable[[Batch], Step]]) -> dict[str, Step]:
    """The step of each contender that supports the batch."""
    steps = {}
    for name, make in makers.items():
        try:
            steps[name] = make(batch)
        except Unsupported:
            continue
    return steps


def peak_memory(step: Step, logits: Tensor) -> float:
    """Peak of memory that a call allocates beyond its input, in units of the logits' size."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        step(logits.clone())
    level = peak = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            level += event.nbytes()
            peak = max(peak, level)
    return peak / logits.nbytes - 1


def run_case(case: Case, data: Input, timing: Timing, makers: dict[str, Any]) -> dict[str, Any]:
    """Medians of one case on one input, with our peak memory."""
    batch = batch_for(case, *data.logits.shape)
    steps = steps_for(batch, makers)
    times = timing.interleaved({**steps, FLOOR: lambda x: x.amax(-1)}, data.logits)
    floor = times.pop(FLOOR)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "case": case.name,
        "input": data.name,
        "median_ms": medians,
        "fastest_ms": {name: min(values) for name, values in times.items()},
        "floor_ms": statistics.median(floor),
        "extra_memory": peak_memory(steps["aliquot"], data.logits),
    }


def environment(timing: Timing) -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "torch": torch.__version__,
        "clock": timing.clock,
        "rounds": timing.repeats,
        "calls a round": CALLS,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "vector": torch.backends.cpu.get_cpu_capability(),
    }


def growth(timing: Timing) -> list[dict[str, Any]]:
    """Our cost as n, V, k and p grow, one at a time from [32, 128256], k = 50, p = .9."""
    from sampler_cases import P
    from sampler_contenders import aliquot_step

    points: list[tuple[str, float, int, int, Any]] = []
    points += [("n", n, n, 128_256, P(top_k=50, top_p=0.9)) for n in (1, 4, 16, 64)]
    points += [("V", v, 32, v, P(top_k=50, top_p=0.9)) for v in (8192, 32_768, 131_072, 262_144)]
    points += [("k", k, 32, 128_256, P(top_k=k)) for k in (1, 10, 50, 200, 256, 1000, 10_000)]
    points += [("p", p, 32, 128_256, P(top_p=p)) for p in (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)]
    found = []
    for axis, value, rows, width, params in points:
        logits = normal_input(rows, width).logits
        step = aliquot_step(batch_for(Case("growth", (params,)), rows, width))
        times = timing.interleaved({"aliquot": step}, logits)["aliquot"]
        found.append({"axis": axis, "value": value, "median_ms": statistics.median(times)})
    return found


def show(result: dict[str, Any]) -> None:
    """One line for a finished case."""
    ours = result["median_ms"]["aliquot"]
    others = ", ".join(
        f"{name} {ms:.2f} ({ms / ours:.1f}x)"
        for name, ms in result["median_ms"].items()
        if name != "aliquot"
    )
    print(f"{result['input']}  {result['case']}: {ours:.2f} ms; {others}", flush=True)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("conformance/corpus"))
    parser.add_argument("--out", type=Path, default=Path("out/benchmark"))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument("--docs", action="store_true", help="write the table and the plots as well")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    timing, makers = Timing(options.clock, options.repeats), contenders()
    results = []
    for data in (normal_input(), real_input(options.corpus)):
        for case in CASES:
            if options.only in case.name:
                results.append(run_case(case, data, timing, makers))
                show(results[-1])
    report = {"environment": environment(timing), "results": results}
    if options.docs:
        report["growth"] = growth(timing)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "sampler.json").write_text(json.dumps(report, indent=1) + "\n")
    if options.docs:
        from sampler_report import write

        write(report, options.out)


if __name__ == "__main__":
    main()
