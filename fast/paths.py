"""Step 7 for random rows: from logits to a drawn token, on the path that the row's own parameters choose.

narrow: top_k up to 256. The k largest tokens and a margin decide all filters; a row whose ties reach past the margin
        goes the wide way.
wide:   everything else, over the whole row.
ranked: profiles that cut ties by position; a full sort.

A path depends on the row alone, so a seeded request gives the same token in any batch (SEED02).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from aliquot.fast.blocks import block_sum, top_candidates
from aliquot.fast.cuts import OFF, Rows, min_p_cut, nucleus_cut, top_k_cut
from aliquot.fast.draw import inverse_cdf, pick
from aliquot.fast.select import guess_count, largest

MARGIN = 16
_LEAST = torch.finfo(torch.float32).min


@dataclass(frozen=True)
class Drawn:
    """Tokens int64 `[g]` and what the filters left.

    `kept` is the least kept logit `[g]` or, where ties are cut by position, a mask `[g, V]`.
    """

    tokens: Tensor
    kept: Tensor

    def mask(self, logits: Tensor) -> Tensor:
        """True where the token stays, bool `[g, V]`."""
        return self.kept if self.kept.dim() == 2 else logits >= self.kept.unsqueeze(1)


def narrow(rows: Rows, uniform: Tensor) -> Drawn:
    """Draw from the largest tokens only; rows with more ties at the edge than the margin go the wide way."""
    group = rows.group
    found = top_candidates(rows.logits, group.max_k + MARGIN)
    base = torch.maximum(top_k_cut(found.values, group.top_k), min_p_cut(rows, early=True))
    kept = _narrow_cut(rows, found.values, base)
    by_id = found.ids.sort(1)
    values = found.values.gather(1, by_id.indices)
    weights = rows.weights(values, group.temperature)
    weights = torch.where(values >= kept.unsqueeze(1), weights, 0.0)
    chosen = pick(weights, uniform).unsqueeze(1)
    drawn = Drawn(by_id.values.gather(1, chosen).squeeze(1), kept)
    if found.values.shape[1] == rows.logits.shape[1]:
        return drawn
    return _repair(rows, uniform, drawn, found.values[:, -1] >= base.clamp(min=_LEAST))


def _narrow_cut(rows: Rows, descending: Tensor, base: Tensor) -> Tensor:
    kept = base
    if rows.group.uses_top_p:
        weights = rows.weights(descending, rows.filter_temperature)
        total = torch.where(descending >= base.unsqueeze(1), weights, 0.0).sum(1)
        kept = torch.maximum(kept, nucleus_cut(rows, descending, weights, total))
    return torch.maximum(kept, min_p_cut(rows, early=False))


def _repair(rows: Rows, uniform: Tensor, drawn: Drawn, unproven: Tensor) -> Drawn:
    if not bool(unproven.any()):
        return drawn
    members = unproven.nonzero().squeeze(1)
    again = wide(rows.subset(members), uniform[members])
    tokens = drawn.tokens.index_copy(0, members, again.tokens)
    return Drawn(tokens, drawn.kept.index_copy(0, members, again.kept))


def wide(rows: Rows, uniform: Tensor) -> Drawn:
    """Draw from the whole row by inverse distribution function."""
    kept = wide_cut(rows)
    weights = full_weights(rows.logits, rows.group.temperature, rows.group.unit_temperature)
    if rows.group.filtered:
        weights *= rows.logits >= kept.unsqueeze(1)
    return Drawn(inverse_cdf(weights, uniform), kept)


def full_weights(logits: Tensor, temperature: Tensor, unit: bool) -> Tensor:
    """Softmax of `[g, V]` logits over temperature, float32; the scale of a row may be off by its sum's rounding."""
    if unit:
        return logits.softmax(1)
    scaled = logits / temperature.unsqueeze(1)
    return torch.softmax(scaled, 1, out=scaled)


def wide_cut(rows: Rows) -> Tensor:
    """Least kept logit after min-p, top-k and top-p over whole rows."""
    group, profile = rows.group, rows.profile
    early = min_p_cut(rows, early=True)
    base = torch.maximum(early, _kth_largest(rows)) if group.uses_top_k else early
    kept = base
    if group.uses_top_p:
        joint = profile.filter_order == "joint"
        kept = torch.maximum(kept, _wide_nucleus(rows, early if joint else base))
    return torch.maximum(kept, min_p_cut(rows, early=False))


def _kth_largest(rows: Rows) -> Tensor:
    width = rows.logits.shape[1]
    cuts = [
        largest(row, k)[-1] if k < width else row.new_tensor(OFF)
        for row, k in zip(rows.logits, rows.group.top_k.tolist(), strict=True)
    ]
    return torch.stack(cuts)


def _wide_nucleus(rows: Rows, base: Tensor) -> Tensor:
    temperature = rows.filter_temperature
    total = _total_mass(rows, temperature, base)
    cuts = []
    for i in range(len(base)):
        one = rows.subset(torch.tensor([i]))
        cuts.append(_row_nucleus(one, temperature[i : i + 1], total[i : i + 1]))
    return torch.cat(cuts)


def _total_mass(rows: Rows, temperature: Tensor, base: Tensor) -> Tensor:
    weights = full_weights(rows.logits, temperature, unit=False)
    unit = weights.amax(1).double()
    weights *= rows.logits >= base.unsqueeze(1)
    return block_sum(weights).double().sum(1) / unit


def _row_nucleus(one: Rows, temperature: Tensor, total: Tensor) -> Tensor:
    row, top_p = one.logits[0], one.group.top_p
    if float(top_p) >= 1:
        return row.new_full((1,), OFF)
    count = guess_count(row, one.peak[0], temperature[0], top_p[0])
    while True:
        descending = largest(row, count).unsqueeze(0)
        weights = one.weights(descending, temperature)
        if count == len(row) or bool(weights.sum() > top_p.double() * total):
            return nucleus_cut(one, descending, weights, total)
        count = min(len(row), 4 * count)
