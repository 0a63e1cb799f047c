"""STATE05: a swap leaves both rows with the allowed ids of the second."""

import torch
from vllm import SamplingParams
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

sizes = {"max_num_reqs": 4, "max_model_len": 16, "max_num_batched_tokens": 16, "vocab_size": 5}
batch = InputBatch(device=torch.device("cpu"), block_sizes=[16], kernel_block_sizes=[16], **sizes)
for name, ids in (("a", [0]), ("b", [4])):
    params = SamplingParams(allowed_token_ids=ids)
    batch.add_request(CachedRequestState(name, [1], [], params, None, ([],), 0, []))
batch.refresh_metadata()
batch.swap_states(0, 1)
batch.refresh_metadata()
got = [
    (~row).nonzero().flatten().tolist() for row in batch.sampling_metadata.allowed_token_ids_mask
]
print(f"wanted: allowed ids [[4], [0]] after the swap\ngot: {got}")
raise SystemExit(got == [[4], [0]])
