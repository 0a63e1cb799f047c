"""BIAS02: a bias beyond 100 is not clipped."""

import torch
from transformers import SequenceBiasLogitsProcessor

bias = SequenceBiasLogitsProcessor([[[0], 1000.0], [[2], -1000.0]])
got = bias(torch.tensor([[1]]), torch.zeros(1, 3))[0].tolist()
print(f"wanted: [100.0, 0.0, -100.0]\ngot: {got}")
raise SystemExit(got == [100.0, 0.0, -100.0])
