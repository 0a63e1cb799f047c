"""Filters as thresholds: each finds the least logit that stays, so equal logits stay or go together (INV09).

Thresholds are logits before temperature, float32 `[g]`; -inf keeps everything. Masses are float64 sums of
exp((logit - peak) / temperature).
"""

from functools import cached_property

import torch
from torch import Tensor

from aliquot.contract.profile import Profile
from aliquot.fast.blocks import Logits, mass_of
from aliquot.fast.state import Group

OFF = float("-inf")


class Rows:
    """The logits of one group before temperature and what its rows ask for."""

    def __init__(self, source: Logits, group: Group, profile: Profile) -> None:
        self.source, self.group, self.profile = source, group, profile

    @property
    def logits(self) -> Tensor:
        """Float32 `[g, V]`."""
        return self.source.logits

    @property
    def peak(self) -> Tensor:
        """The largest logit of each row, float32 `[g]`."""
        return self.source.peak.value

    def pick(self, members: Tensor | None) -> "Rows":
        """The rows at the positions `members`, int64 `[m]`; None for all. Weights already known go along."""
        if members is None:
            return self
        part = Rows(self.source.pick(members), self.group.subset(members), self.profile)
        if "weights" in self.__dict__:
            part.__dict__["weights"] = self.weights.index_select(0, members)
        return part

    @property
    def filters_untempered(self) -> bool:
        """Whether the profile applies temperature only after the filters."""
        return self.profile.temperature_order == "after"

    @property
    def filter_temperature(self) -> Tensor:
        """The temperature that top-p sees, float32 `[g]`."""
        temperature = self.group.temperature
        return torch.ones_like(temperature) if self.filters_untempered else temperature

    @cached_property
    def weights(self) -> Tensor:
        """Softmax `[g, V]` over temperature, float32; not to be written."""
        if self.group.unit_temperature:
            return self.source.weights
        scaled = self.without_overflow() / self.group.temperature.unsqueeze(1)
        return torch.softmax(scaled, 1, out=scaled)

    def without_overflow(self) -> Tensor:
        """The logits `[g, V]`; a row whose largest would overflow over its temperature is moved to 0."""
        over = self.peak.isfinite() & ~(self.peak / self.group.temperature).isfinite()
        if self.logits.device.type == "cpu" and not bool(over.any()):
            return self.logits
        return self.logits - torch.where(over, self.peak, 0.0).unsqueeze(1)

    @property
    def filter_weights(self) -> Tensor:
        """Softmax `[g, V]` as top-p sees it, float32."""
        return self.source.weights if self.filters_untempered else self.weights

    def exact_weights(self, logits: Tensor, temperature: Tensor) -> Tensor:
        """exp((logit - peak) / temperature) in float64 for `[g, c]` logits of these rows."""
        gap = logits.double() - self.peak.double().unsqueeze(1)
        return gap.div_(temperature.double().unsqueeze(1)).exp_()

    def mass_above(self, cut: Tensor) -> Tensor:
        """Mass of the tokens from `cut` `[g]` up as top-p sees it, float64 `[g]`."""
        weights = self.filter_weights
        if self.group.uses_min_p or self.group.uses_top_k:
            weights = masked(weights, self.logits, cut)
        return mass_of(weights, self.source.peak)


def masked(weights: Tensor, logits: Tensor, cut: Tensor) -> Tensor:
    """The weights `[g, V]` with 0 where the logit is below `cut` `[g]`, in new memory.

    Through a float mask, which on the CPU is many times quicker than a bool one.
    """
    mask = torch.empty_like(weights)
    torch.ge(logits, cut.unsqueeze(1), out=mask)
    return mask.mul_(weights)


def min_p_cut(rows: Rows, *, early: bool) -> Tensor:
    """Least logit with min_p times the largest probability (MINP01-MINP04).

    `early` asks for the cut before top-k and top-p, else for the one after them; the profile has one of the two.
    Where temperature comes after the filters, so does a min-p after temperature.
    """
    order, tempered_late = rows.profile.minp_order, rows.filters_untempered
    late = order == "after_filters" or (tempered_late and order == "after_temperature")
    if not rows.group.uses_min_p or early == late:
        return torch.full_like(rows.peak, OFF)
    untempered = order == "before_temperature" or (tempered_late and order == "after_filters")
    scale = 1.0 if untempered else rows.group.temperature.double()
    return _round_up(rows.peak.double() + rows.group.min_p.double().log() * scale)


def _round_up(cut: Tensor) -> Tensor:
    near = cut.float()
    return torch.where(near < cut, near.nextafter(torch.full_like(near, torch.inf)), near)


def top_k_cut(descending: Tensor, top_k: Tensor) -> Tensor:
    """The k-th largest logit of rows sorted in descending order, -inf where k exceeds their number (TOPK01-TOPK06).

    The rows may be the largest tokens only: where k is off it exceeds what was found.
    """
    found = descending.shape[1]
    kth = descending.gather(1, (top_k - 1).clamp(max=found - 1).unsqueeze(1)).squeeze(1)
    return kth.masked_fill(top_k > found, -torch.inf)


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
