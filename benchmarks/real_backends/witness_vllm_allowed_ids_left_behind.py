"""STATE04, STATE06: a request added where a restricted one was moved away inherits its allowed ids."""

import torch
from vllm import SamplingParams
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

sizes = {"max_num_reqs": 4, "max_model_len": 16, "max_num_batched_tokens": 16, "vocab_size": 5}
batch = InputBatch(device=torch.device("cpu"), block_sizes=[16], kernel_block_sizes=[16], **sizes)
for name, ids in (("free", None), ("a", [4])):
    params = SamplingParams(allowed_token_ids=ids)
    batch.add_request(CachedRequestState(name, [1], [], params, None, ([],), 0, []))
batch.refresh_metadata()
batch.remove_request("free")
batch.condense()
batch.refresh_metadata()
batch.add_request(CachedRequestState("new", [1], [], SamplingParams(), None, ([],), 0, []))
batch.refresh_metadata()
got = (~batch.sampling_metadata.allowed_token_ids_mask[1]).nonzero().flatten().tolist()
print(f"wanted: all of 0 to 4 allowed for a request without a list\ngot: {got}")
raise SystemExit(got == [0, 1, 2, 3, 4])
