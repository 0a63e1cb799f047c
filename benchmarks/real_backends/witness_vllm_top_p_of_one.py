"""TOPP06: top_p = 1 cuts a token of underflowed probability when another row has a top_p below 1."""

import torch
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

logits, p = torch.tensor([[0.0, 10000.0], [0.0, 1.0]]), torch.tensor([1.0, 0.5])
alone = apply_top_k_top_p(logits[:1].clone(), None, None)[0].tolist()
got = apply_top_k_top_p(logits.clone(), None, p)[0].tolist()
print(
    f"wanted: {alone} for a row with top_p = 1, as alone\ngot: {got} beside a row with top_p = .5"
)
raise SystemExit(got == alone)
