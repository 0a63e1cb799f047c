"""SEED02, SEED04: a seeded row draws other tokens when a row without a seed is beside it."""

import torch
from vllm.platforms import current_platform
from vllm.v1.sample.ops.topk_topp_sampler import TopKTopPSampler

current_platform.import_kernels()
draw, flat = TopKTopPSampler(), torch.zeros(2, 4096)
seeds = range(8)
alone = [
    int(draw(flat[:1].clone(), {0: torch.Generator().manual_seed(s)}, None, None)[0]) for s in seeds
]
beside = [
    int(draw(flat.clone(), {0: torch.Generator().manual_seed(s)}, None, None)[0][0]) for s in seeds
]
print(f"wanted: {alone}, as alone, for seeds 0 to 7\ngot: {beside} beside a row without a seed")
raise SystemExit(alone == beside)
