"""Step 7 for random rows: from logits to a drawn token, on the path that the row's own parameters choose.

narrow: rows with a filter. The largest tokens, as many as the group's reach, decide filters and draw; a row for which
        they do not suffice goes the wide way.
wide:   everything else, over the whole row.

The choice depends on the row alone, so a seeded request draws the same token in any batch (SEED02).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from aliquot.fast.blocks import Candidates
from aliquot.fast.cuts import Rows, masked, min_p_cut, nucleus_cut, top_k_cut
from aliquot.fast.draw import inverse_cdf, pick
from aliquot.fast.select import kth_largest, nucleus_edge


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
    """Draw from the largest tokens; rows for which these do not prove enough are drawn again the wide way."""
    found = rows.source.top(rows.group.reach)
    kept = _narrow_cut(rows, found)
    drawn = Drawn(_draw_found(rows, found, kept, uniform), kept)
    last = found.values[:, -1]
    unproven = (last >= kept) & (last > -torch.inf)
    if found.values.shape[1] == rows.logits.shape[1] or not bool(unproven.any()):
        return drawn
    return _redrawn(rows, uniform, drawn, unproven)


def _narrow_cut(rows: Rows, found: Candidates) -> Tensor:
    group, descending = rows.group, found.values
    base = early = min_p_cut(rows, early=True)
    if group.uses_top_k:
        base = torch.maximum(early, top_k_cut(descending, group.top_k))
    kept = base
    if group.uses_top_p:
        law_base = early if rows.profile.filter_order == "joint" else base
        weights = rows.exact_weights(descending, rows.filter_temperature)
        total = _found_mass(rows, descending, weights, law_base)
        kept = torch.maximum(kept, nucleus_cut(rows, descending, weights, total))
    return torch.maximum(kept, min_p_cut(rows, early=False))


def _found_mass(rows: Rows, descending: Tensor, weights: Tensor, base: Tensor) -> Tensor:
    """Mass from `base` up; over the whole row where tokens that were not found may belong to it."""
    total = (weights * (descending >= base.unsqueeze(1))).sum(1)
    if descending.shape[1] == rows.logits.shape[1]:
        return total
    last = descending[:, -1]
    missing = (last >= base) & (last > -torch.inf)
    return torch.where(missing, rows.mass_above(base), total) if bool(missing.any()) else total


def _draw_found(rows: Rows, found: Candidates, kept: Tensor, uniform: Tensor) -> Tensor:
    ids, order = found.ids.sort(1)
    values = found.values.gather(1, order)
    weights = rows.exact_weights(values, rows.group.temperature)
    chosen = pick(weights * (values >= kept.unsqueeze(1)), uniform)
    return ids.gather(1, chosen.unsqueeze(1)).squeeze(1)


def _redrawn(rows: Rows, uniform: Tensor, drawn: Drawn, unproven: Tensor) -> Drawn:
    members = unproven.nonzero().squeeze(1)
    if len(members) == len(unproven):
        return wide(rows, uniform)
    again = wide(rows.pick(members), uniform[members])
    tokens = drawn.tokens.index_copy(0, members, again.tokens)
    return Drawn(tokens, drawn.kept.index_copy(0, members, again.kept))


def wide(rows: Rows, uniform: Tensor) -> Drawn:
    """Draw from the whole row by inverse distribution function."""
    kept = wide_cut(rows)
    weights = rows.weights
    if rows.group.filtered:
        weights = masked(weights, rows.logits, kept)
    return Drawn(inverse_cdf(weights, uniform), kept)


def wide_cut(rows: Rows) -> Tensor:
    """Least kept logit after min-p, top-k and top-p over whole rows."""
    group = rows.group
    find = _Selected(rows) if rows.logits.device.type == "cpu" else _Sorted(rows)
    base = early = min_p_cut(rows, early=True)
    if group.uses_top_k:
        base = torch.maximum(early, find.top_k())
    kept = base
    if group.uses_top_p:
        joint = rows.profile.filter_order == "joint"
        kept = torch.maximum(kept, find.nucleus(rows.mass_above(early if joint else base)))
    return torch.maximum(kept, min_p_cut(rows, early=False))


class _Selected:
    """Edges by partial selection, row by row on the CPU."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def top_k(self) -> Tensor:
        logits, width = self._rows.logits, self._rows.logits.shape[1]
        ks = self._rows.group.top_k.tolist()
        edges = [
            kth_largest(row, k) if k < width else -torch.inf
            for row, k in zip(logits, ks, strict=True)
        ]
        return torch.tensor(edges)

    def nucleus(self, total: Tensor) -> Tensor:
        rows = self._rows
        inclusive = rows.profile.topp_exact == "one_more"
        numbers = (rows.peak, rows.filter_temperature, rows.group.top_p, total)
        edges = [
            nucleus_edge(row, peak, temperature, top_p, mass, inclusive=inclusive)
            if top_p < 1 and math.isfinite(peak)
            else -torch.inf
            for row, peak, temperature, top_p, mass in zip(
                rows.logits, *(n.tolist() for n in numbers), strict=True
            )
        ]
        return torch.tensor(edges)


class _Sorted:
    """Edges by a full sort, without waiting for the device."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._descending = rows.logits.sort(dim=1, descending=True).values

    def top_k(self) -> Tensor:
        return top_k_cut(self._descending, self._rows.group.top_k)

    def nucleus(self, total: Tensor) -> Tensor:
        rows = self._rows
        weights = rows.exact_weights(self._descending, rows.filter_temperature)
        return nucleus_cut(rows, self._descending, weights, total)
