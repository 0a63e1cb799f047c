"""IO10: the metadata of a batch without rows says all greedy and all random, and the sampler asserts."""

import inspect

import torch
from vllm.platforms import current_platform
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu_input_batch import InputBatch

current_platform.import_kernels()
sizes = {"max_num_reqs": 4, "max_model_len": 16, "max_num_batched_tokens": 16, "vocab_size": 5,
         "block_sizes": [16], "kernel_block_sizes": [16], "max_num_blocks_per_req": [1]}  # fmt: skip
taken = inspect.signature(InputBatch).parameters
batch = InputBatch(device=torch.device("cpu"), **{k: v for k, v in sizes.items() if k in taken})
try:
    got = str(Sampler()(torch.zeros(0, 5), batch.sampling_metadata).sampled_token_ids.shape)
except AssertionError:
    flags = batch.sampling_metadata.all_greedy, batch.sampling_metadata.all_random
    got = f"AssertionError, all_greedy and all_random are {flags}"
print(f"wanted: sampled ids of shape [0, 1]\ngot: {got}")
raise SystemExit("AssertionError" not in got)
