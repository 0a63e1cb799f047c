"""IO08, TEMP01, ERR18: a logit that overflows over the temperature ends the draw of every row."""

import torch
from transformers import TemperatureLogitsWarper

logits = torch.tensor([[0.0, 3e38, 1.0], [0.0, 2.0, 1.0]])
probs = TemperatureLogitsWarper(0.5)(torch.tensor([[1], [1]]), logits).softmax(-1)
try:
    got = str(torch.multinomial(probs, num_samples=1).tolist())
except RuntimeError as error:
    got = f"RuntimeError: {error}"
print(f"wanted: token 1 for the first row, a token for the second\ngot: {got}")
raise SystemExit("RuntimeError" not in got)
