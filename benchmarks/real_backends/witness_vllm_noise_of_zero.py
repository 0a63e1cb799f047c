"""DRAW05: noise of exactly 0 draws a masked token."""

import torch
from vllm.v1.sample.ops.topk_topp_sampler import sample_with_exponential_noise

probs = torch.tensor([[0.0, 0.5, 0.5]])
noise = torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64)
got = int(sample_with_exponential_noise(probs, noise)[0])
print(f"wanted: token 1 or 2, token 0 has probability 0\ngot: token {got}")
raise SystemExit(got != 0)
