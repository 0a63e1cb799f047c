"""Filters of profiles that cut ties by position: a full sort in which equal logits stand in id order."""

import torch
from torch import Tensor

from aliquot.fast.cuts import OFF, Rows, min_p_cut, nucleus_cut, top_k_cut
from aliquot.fast.draw import inverse_cdf
from aliquot.fast.paths import Drawn


def ranked(rows: Rows, uniform: Tensor) -> Drawn:
    """Draw from what the position-wise filters leave."""
    mask = ranked_mask(rows)
    return Drawn(inverse_cdf(rows.weights * mask, uniform), mask)


def ranked_mask(rows: Rows) -> Tensor:
    """True where a token stays, bool `[g, V]`.

    A joint nucleus is taken on the full law, then top-k of what it left: filters that cut ties differently still
    leave one.
    """
    stays = _above(rows.logits, min_p_cut(rows, early=True))
    joint = rows.profile.filter_order == "joint"
    for cut in (_nucleus, _top_k) if joint else (_top_k, _nucleus):
        stays = cut(rows, stays)
    late = min_p_cut(rows, early=False)
    return (stays > OFF) & (rows.logits >= late.unsqueeze(1))


def _above(logits: Tensor, cut: Tensor) -> Tensor:
    return torch.where(logits >= cut.unsqueeze(1), logits, OFF)


def _order(logits: Tensor, ties: str) -> tuple[Tensor, Tensor]:
    """Descending values and ids; equal values by ascending id, by descending id for `highest_ids`."""
    if ties != "highest_ids":
        values, ids = logits.sort(dim=1, descending=True, stable=True)
        return values, ids
    values, ids = logits.flip(1).sort(dim=1, descending=True, stable=True)
    return values, logits.shape[1] - 1 - ids


def _keep(logits: Tensor, ids: Tensor, stays: Tensor) -> Tensor:
    mask = torch.zeros_like(stays).scatter(1, ids, stays)
    return torch.where(mask, logits, OFF)


def _top_k(rows: Rows, logits: Tensor) -> Tensor:
    ties, k = rows.profile.topk_ties, rows.group.top_k
    values, ids = _order(logits, ties)
    if ties == "keep_all":
        return _above(logits, top_k_cut(values, k))
    position = torch.arange(logits.shape[1], device=logits.device)
    return _keep(logits, ids, position < k.unsqueeze(1))


def _nucleus(rows: Rows, logits: Tensor) -> Tensor:
    ties, top_p = rows.profile.topp_ties, rows.group.top_p.double().unsqueeze(1)
    values, ids = _order(logits, ties)
    weights = rows.exact_weights(values, rows.filter_temperature)
    total = weights.sum(1)
    if ties == "keep_all":
        return _above(logits, nucleus_cut(rows, values, weights, total))
    before = weights.cumsum(1) - weights
    goal = top_p * total.unsqueeze(1)
    stays = before <= goal if rows.profile.topp_exact == "one_more" else before < goal
    return _keep(logits, ids, stays | (top_p >= 1))
