"""Filters as thresholds: each finds the least logit that stays, so equal logits stay or go together (INV09).

Thresholds are logits before temperature, float32 `[g]`; -inf keeps everything. Masses are float64 sums of
exp((logit - peak) / temperature).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from aliquot.contract.profile import Profile
from aliquot.fast.state import Group

OFF = float("-inf")


@dataclass(frozen=True)
class Rows:
    """Logits `[g, V]` float32 before temperature, their peaks `[g]`, and what the group's rows ask for."""

    logits: Tensor
    peak: Tensor
    group: Group
    profile: Profile

    def subset(self, members: Tensor) -> "Rows":
        """The rows at the positions `members`."""
        group = self.group.subset(members)
        return Rows(self.logits[members], self.peak[members], group, self.profile)

    @property
    def filter_temperature(self) -> Tensor:
        """The temperature that top-p sees, float32 `[g]`."""
        temperature = self.group.temperature
        after = self.profile.temperature_order == "after"
        return torch.ones_like(temperature) if after else temperature

    def weights(self, logits: Tensor, temperature: Tensor) -> Tensor:
        """exp((logit - peak) / temperature) in float64 for `[g, c]` logits of these rows."""
        gap = logits.double() - self.peak.double().unsqueeze(1)
        return (gap / temperature.double().unsqueeze(1)).exp()


def min_p_cut(rows: Rows, *, early: bool) -> Tensor:
    """Least logit with min_p times the largest probability (MINP01-MINP04).

    `early` asks for the cut before top-k and top-p, else for the one after them; the profile has one of the two.
    """
    profile = rows.profile
    if not rows.group.uses_min_p or early == (profile.minp_order == "after_filters"):
        return torch.full_like(rows.peak, OFF)
    raw = profile.minp_order == "before_temperature" or profile.temperature_order == "after"
    scale = 1.0 if raw else rows.group.temperature.double()
    return _round_up(rows.peak.double() + rows.group.min_p.double().log() * scale)


def _round_up(cut: Tensor) -> Tensor:
    near = cut.float()
    return torch.where(near < cut, near.nextafter(torch.full_like(near, torch.inf)), near)


def top_k_cut(descending: Tensor, top_k: Tensor) -> Tensor:
    """The k-th largest logit of rows sorted in descending order (TOPK01-TOPK06)."""
    last = (top_k - 1).clamp(max=descending.shape[1] - 1)
    return descending.gather(1, last.unsqueeze(1)).squeeze(1)


def nucleus_cut(rows: Rows, descending: Tensor, weights: Tensor, total: Tensor) -> Tensor:
    """Least logit with less than top_p of `total` strictly above it (TOPP01-TOPP07).

    `weights` belong to the logits `descending`, `[g, c]`; top_p is a share of `total` `[g]`.
    """
    top_p = rows.group.top_p
    before = weights.cumsum(1) - weights
    goal = (top_p.double() * total).unsqueeze(1)
    stays = before <= goal if rows.profile.topp_exact == "one_more" else before < goal
    last = stays.sum(1, keepdim=True).clamp(min=1) - 1
    return torch.where(top_p < 1, descending.gather(1, last).squeeze(1), OFF)
