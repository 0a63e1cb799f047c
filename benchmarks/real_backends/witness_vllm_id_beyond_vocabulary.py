"""ERR17, ERR18: a penalised history with an id that no vocabulary has ends the step of every row."""

import torch
from vllm.v1.sample.ops.penalties import apply_all_penalties

logits, prompts = torch.zeros(2, 4), torch.tensor([[1], [1_000_000]])
some = torch.tensor([1.0, 1.0])
try:
    got = str(apply_all_penalties(logits, prompts, some, some, some, [[2], [3]]).tolist())
except RuntimeError as error:
    got = f"RuntimeError: {error}"
print(f"wanted: row 0 with its penalties, and for row 1 an answer or a ValueError\ngot: {got}")
raise SystemExit("RuntimeError" not in got)
