"""ERR16, ERR17: a row of NaN ends the draw of every row."""

import torch

logits = torch.tensor([[0.0, 0.0, 9.0], [0.0, float("nan"), 1.0]])
try:
    got = str(torch.multinomial(logits.softmax(-1), num_samples=1).tolist())
except RuntimeError as error:
    got = f"RuntimeError: {error}"
print(
    f"wanted: a token of row 0, and for row 1 an error that names it, a mark or a token\ngot: {got}"
)
raise SystemExit("RuntimeError" not in got)
