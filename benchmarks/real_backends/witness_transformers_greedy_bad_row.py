"""ERR16: a row with NaN is an error when sampling and gives a token when greedy."""

import torch

logits = torch.tensor([[0.0, float("nan"), 3.0, 1.0]])
greedy = logits.argmax(-1).tolist()
try:
    sampled = str(torch.multinomial(logits.softmax(-1), num_samples=1)[0].tolist())
except RuntimeError:
    sampled = "RuntimeError"
print(
    f"wanted: an error that names the row, in both modes\ngot: greedy {greedy}, sampling {sampled}"
)
raise SystemExit(sampled != "RuntimeError")
