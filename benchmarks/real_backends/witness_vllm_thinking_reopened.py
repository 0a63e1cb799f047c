"""THINK08: a section opened after a forced end gets a budget of its own."""

from types import SimpleNamespace

import torch
from vllm.v1.sample.logits_processor import BatchUpdate
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

markers = SimpleNamespace(reasoning_start_token_ids=[10, 11], reasoning_end_token_ids=[12, 13])
holder = ThinkingBudgetStateHolder(markers, 1, 0, torch.device("cpu"), False)
params, output = SimpleNamespace(thinking_token_budget=2), []
holder.sync_batch(BatchUpdate(1, removed=[], added=[(0, params, [1], output)], moved=[]))
for token in (10, 11, 5, 6, 12, 13, 7, 10, 11):
    holder.update_state([output], [[]])
    output.append(token)
holder.update_state([output], [[]])
logits = holder.apply_to_logits(torch.zeros(1, 16), False, [[]])
got = (logits[0] == 1e9).nonzero().flatten().tolist()
print(f"wanted: [12] forced after 10 11 5 6 12 13 7 10 11, the end 12 13 forced\ngot: {got} forced")
raise SystemExit(got == [12])
