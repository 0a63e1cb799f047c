"""THINK06: an end marker begun as the budget runs out is begun anew instead of continued."""

from types import SimpleNamespace

import torch
from vllm.v1.sample.logits_processor import BatchUpdate
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

markers = SimpleNamespace(reasoning_start_token_ids=[10, 11], reasoning_end_token_ids=[12, 13])
holder = ThinkingBudgetStateHolder(markers, 1, 0, torch.device("cpu"), False)
params, output = SimpleNamespace(thinking_token_budget=2), []
holder.sync_batch(BatchUpdate(1, removed=[], added=[(0, params, [1], output)], moved=[]))
for token in (10, 11, 5, 12):
    holder.update_state([output], [[]])
    output.append(token)
holder.update_state([output], [[]])
logits = holder.apply_to_logits(torch.zeros(1, 16), False, [[]])
got = (logits[0] == 1e9).nonzero().flatten().tolist()
print(f"wanted: [13] forced after 10 11 5 12, end marker 12 13, budget 2\ngot: {got} forced")
raise SystemExit(got == [13])
