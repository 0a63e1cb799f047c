"""SEED07: seeds that differ by 2^32 draw the same token."""

import torch
from vllm.platforms import current_platform
from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

current_platform.import_kernels()
draw, flat = TopKTopPSampler(), torch.zeros(1, 4096)
pairs = [[torch.Generator().manual_seed(seed + bit) for bit in (0, 2**32)] for seed in range(8)]
tokens = [[int(draw(flat.clone(), {0: g}, None, None)[0]) for g in pair] for pair in pairs]
equal = sum(a == b for a, b in tokens)
print(f"wanted: different tokens for seeds s and s + 2^32\ngot: {equal} of 8 pairs equal: {tokens}")
raise SystemExit(equal < 8)
