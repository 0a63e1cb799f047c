"""GRAM05: a cleared bit at V masks token 0 of the next row."""

import torch
import xgrammar

logits = torch.zeros(3, 70)
bitmask = torch.full((3, 3), -1, dtype=torch.int32)
bitmask[0, 2] = -1 & ~(1 << 6)
xgrammar.apply_token_bitmask_inplace(logits, bitmask)
got = logits.isneginf().nonzero().tolist()
print(
    f"wanted: nothing masked, bit 70 of row 0 is cleared and V = 70\ngot: {got} masked as (row, token)"
)
raise SystemExit(got == [])
