"""Checks of the sampler on a device, then its times: laws, supports, seeds, no waiting for the device, CUDA graphs.

Exits 1 at the first failed check and writes `sampler_cuda.json`. With `--device cpu` the checks that need CUDA are
left out, which tries the script itself.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from sampler_cases import CASES, Case, P, batch_for, normal_input
from scipy import stats

from aliquot.contract.params import SamplingParams
from aliquot.fast.dispatch import explain
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState

ALPHA = 1e-9
ROWS, WIDTH = 4096, 200
FILTERS = {
    "unfiltered": P(),
    "top-k 20": P(top_k=20),
    "top-p 0.8": P(top_p=0.8),
    "top-k 50, top-p 0.9": P(top_k=50, top_p=0.9),
    "min-p 0.1": P(min_p=0.1),
    "temperature 1.7, top-p 0.95": P(temperature=1.7, top_p=0.95),
}


def require(ok: bool, what: str) -> None:
    """Print a check; leave with status 1 if it failed."""
    print(f"{'ok  ' if ok else 'FAIL'} {what}", flush=True)
    if not ok:
        sys.exit(1)


def law_of(row: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Law of one float64 row on the host, from the definitions of the filters."""
    law = (row / params.temperature).softmax(0)
    law = torch.where(law >= params.min_p * law.max(), law, 0.0)
    if params.top_k > 0:
        law = torch.where(row >= row.sort(descending=True).values[params.top_k - 1], law, 0.0)
    ordered, ids = (law / law.sum()).sort(descending=True)
    stays = ordered.cumsum(0) - ordered < params.top_p
    return torch.zeros_like(law).scatter(0, ids, ordered * stays) / (ordered * stays).sum()


def check_law(name: str, params: SamplingParams, device: torch.device) -> None:
    """Chi-square of many draws from one row of distinct logits, and no token outside its support."""
    row = (torch.arange(WIDTH) * 7919 % WIDTH / 40).float()
    law = law_of(row.double(), params)
    state = BatchState.of(batch_for(Case("law", (params,)), ROWS, WIDTH), device=device)
    drawn = Sampler(seed=1)(row.to(device).repeat(ROWS, 1), state).sampled_token_ids
    require(drawn.dtype == torch.int64, f"{name}: int64 ids")
    counts = torch.bincount(drawn.flatten().cpu(), minlength=WIDTH).double()
    require(bool((counts[law == 0] == 0).all()), f"{name}: support")
    expected = law * ROWS
    rare = expected < 5
    cells = [torch.cat([v[~rare], v[rare].sum().view(1)]).numpy() for v in (counts, expected)]
    kept = cells[1] > 0
    if kept.sum() > 1:
        p_value = stats.chisquare(cells[0][kept], cells[1][kept]).pvalue
        require(p_value > ALPHA, f"{name}: chi-square p = {p_value:.3g}")


def check_seeds(device: torch.device) -> None:
    """A seeded request draws the same token in another row."""
    logits = torch.zeros(3, 50_000, device=device)
    seeded, other = P(seed=5, top_p=0.9), P(top_k=10)
    found = []
    for place in (0, 2):
        params = [other] * 3
        params[place] = seeded
        batch = batch_for(Case("seeds", tuple(params)), 3, 50_000)
        batch.requests[place].params = seeded
        state = BatchState.of(batch, device=device)
        found.append(Sampler()(logits.clone(), state).sampled_token_ids[place].item())
    require(found[0] == found[1], "a seed gives the same token in any row")


def check_no_sync(case: Case, device: torch.device) -> None:
    """A step waits for the device nowhere."""
    logits = normal_input(8, 4096).logits.to(device)
    state, sampler = BatchState.of(batch_for(case, 8, 4096), device=device), Sampler(seed=0)
    sampler(logits.clone(), state)
    torch.cuda.set_sync_debug_mode("error")
    sampler(logits.clone(), state)
    torch.cuda.set_sync_debug_mode("default")
    require(True, f"{case.name}: no synchronisation")


def check_graph(case: Case, device: torch.device) -> None:
    """A captured step replays with tokens in range and, except for greedy rows, with fresh noise."""
    logits, batch = normal_input(8, 4096).logits.to(device), batch_for(case, 8, 4096)
    state, sampler = BatchState.of(batch, device=device), Sampler(seed=0)
    sampler(logits.clone(), state)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(sampler.generator(device))
    with torch.cuda.graph(graph):
        output = sampler(logits, state).sampled_token_ids
    steps = []
    for _ in range(20):
        for request in batch.requests:
            request.output_token_ids.append(0)
        state.count_outputs()
        graph.replay()
        steps.append(tuple(output.flatten().tolist()))
    inside = all(0 <= token < 4096 for step in steps for token in step)
    fresh = batch.all_greedy or len(set(steps)) > 1
    require(inside and fresh, f"{case.name}: replays from a CUDA graph")


def milliseconds(case: Case, device: torch.device) -> float:
    """Median time of a step at [32, 128256], by events on the device."""
    data = normal_input()
    logits = data.logits.to(device)
    state, sampler = BatchState.of(batch_for(case, *logits.shape), device=device), Sampler(seed=0)
    times = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        copy = logits.clone()
        begin.record()
        sampler(copy, state)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[5:])


def main() -> None:
    """Run the checks and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmark"))
    options = parser.parse_args()
    device = torch.device(options.device)
    report: dict[str, Any] = {"torch": torch.__version__, "dispatch": explain()}
    for name, params in FILTERS.items():
        check_law(name, params, device)
    check_seeds(device)
    if device.type == "cuda":
        report["device"] = torch.cuda.get_device_name(device)
        for case in CASES:
            check_no_sync(case, device)
            if not case.histories:
                check_graph(case, device)
        report["median_ms"] = {case.name: milliseconds(case, device) for case in CASES}
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "sampler_cuda.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
