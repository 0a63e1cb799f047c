"""LOGP05, TEMP01: logprobs are NaN where a logit overflows over the temperature."""

import torch
from vllm.v1.sample.sampler import Sampler

logits = torch.tensor([[0.0, 3e38, 1.0]])
processed = Sampler.apply_temperature(logits, torch.tensor([0.5]), all_random=True)
got = Sampler.compute_logprobs(processed)[0].tolist()
print(f"wanted: processed_logprobs 0.0 of token 1, the largest by 6e38\ngot: {got}")
raise SystemExit(got[1] == 0.0)
