"""BADW04: a bad word whose beginning stands in the prompt masks its last token."""

import torch
from transformers import NoBadWordsLogitsProcessor

prompt = torch.tensor([[1, 2]])
scores = NoBadWordsLogitsProcessor([[1, 2, 0]])(prompt, torch.zeros(1, 4))
got = scores.isneginf().nonzero()[:, 1].tolist()
print(f"wanted: nothing masked, no output yet\ngot: {got} masked")
raise SystemExit(got == [])
