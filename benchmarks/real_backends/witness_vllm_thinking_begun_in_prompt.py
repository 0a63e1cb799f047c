"""THINK04: a two-token start marker in the prompt gives one token more than the budget."""

from types import SimpleNamespace

import torch
from vllm.v1.sample.logits_processor import BatchUpdate
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

markers = SimpleNamespace(reasoning_start_token_ids=[10, 11], reasoning_end_token_ids=[12, 13])
holder = ThinkingBudgetStateHolder(markers, 1, 0, torch.device("cpu"), False)
params, prompt, output = SimpleNamespace(thinking_token_budget=2), [1, 10, 11, 5], []
holder.sync_batch(BatchUpdate(1, removed=[], added=[(0, params, prompt, output)], moved=[]))
holder.update_state([output], [[]])
output.append(6)
holder.update_state([output], [[]])
logits = holder.apply_to_logits(torch.zeros(1, 16), False, [[]])
got = (logits[0] == 1e9).nonzero().flatten().tolist()
print(f"wanted: [12] forced after 5 in the prompt and 6 in the output, budget 2\ngot: {got} forced")
raise SystemExit(got == [12])
