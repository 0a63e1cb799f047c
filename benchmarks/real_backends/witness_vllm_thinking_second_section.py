"""THINK07: after a section that ended by itself, the next one has no limit."""

from types import SimpleNamespace

import torch
from vllm.v1.sample.logits_processor import BatchUpdate
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

markers = SimpleNamespace(reasoning_start_token_ids=[10], reasoning_end_token_ids=[12])
holder = ThinkingBudgetStateHolder(markers, 1, 0, torch.device("cpu"), False)
params, output = SimpleNamespace(thinking_token_budget=3), []
holder.sync_batch(BatchUpdate(1, removed=[], added=[(0, params, [1], output)], moved=[]))
for token in (10, 5, 12, 7, 10, 5, 6, 7):
    holder.update_state([output], [[]])
    output.append(token)
holder.update_state([output], [[]])
logits = holder.apply_to_logits(torch.zeros(1, 16), False, [[]])
got = (logits[0] == 1e9).nonzero().flatten().tolist()
print(f"wanted: [12] forced after 10 5 12 7 10 5 6 7, budget 3\ngot: {got} forced")
raise SystemExit(got == [12])
