"""Step 8: logprobs, their ids and ranks (LOGP01-LOGP13, RANK01-RANK03)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from aliquot.contract.output import Logprobs
from aliquot.fast.blocks import Logits, block_sum
from aliquot.fast.compiled import fused_count_at_least
from aliquot.fast.upload import upload


class Values:
    """The values to report: logits, normalised or not, rounded once; their order is that of the logits."""

    def __init__(self, source: Logits, *, normalise: bool) -> None:
        self.source = source
        self._log_mass = source.mass.log().unsqueeze(1) if normalise else None

    def at(self, ids: Tensor) -> Tensor:
        """Values of `[n, c]` token ids, float32."""
        return self.reported(self.source.logits.gather(1, ids))

    def reported(self, logits: Tensor) -> Tensor:
        """Values of `[n, c]` logits of these rows, float32."""
        if self._log_mass is None:
            return logits
        gap = logits.double().sub_(self.source.peak.value.unsqueeze(1))
        return gap.sub_(self._log_mass).float()

    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        """Ids and values of the `count` largest, descending."""
        found = self.source.top(count)
        return found.ids, self.reported(found.values)

    def ranks(self, tokens: Tensor) -> Tensor:
        """How many tokens are at least as large as each given one `[n, 1]`, int64 `[n]` (RANK01, RANK02)."""
        logits = self.source.logits
        bounds = logits.gather(1, tokens)
        if logits.device.type != "cpu":
            return fused_count_at_least()(logits, bounds)
        found = self.source.found
        if found is not None and bool((bounds > found.values[:, -1:]).all()):
            return (found.values >= bounds).sum(1)
        mask = torch.empty_like(logits)
        torch.ge(logits, bounds, out=mask)
        return block_sum(mask).long().sum(1)


def columns(count: int | None, width: int) -> int:
    """How many of the largest are returned where `count` are asked for: -1 is all of `width`, None is none."""
    return 0 if count is None else width if count == -1 else min(count, width)


@dataclass(frozen=True, eq=False)
class Explicit:
    """Ids asked for by name, on the device.

    `ids` int64 `[n, c]` are real where `listed`; `others` int64 `[m]` are the rows without a list.
    """

    ids: Tensor
    listed: Tensor
    others: Tensor

    @classmethod
    def of(
        cls, lists: Sequence[Sequence[int] | None], least: int, device: torch.device
    ) -> "Explicit | None":
        """The lists with room for `least` columns; None where no row has a list."""
        lengths = [len(ids) for ids in lists if ids is not None]
        if not lengths:
            return None
        ids = np.zeros((len(lists), max(least, *lengths)), dtype=np.int64)
        listed = np.zeros(ids.shape, dtype=bool)
        for row, given in enumerate(lists):
            if given is not None:
                ids[row, : len(given)], listed[row, : len(given)] = given, True
        others = np.asarray([row for row, given in enumerate(lists) if given is None], np.int64)
        return cls(upload(ids, device), upload(listed, device), upload(others, device))


def gather(
    values: Values, tokens: Tensor, count: int | None, explicit: Explicit | None = None
) -> Logprobs:
    """Logprobs of the given tokens `[n]`, of the `count` largest, and of `explicit` ids.

    `count` -1 returns whole rows in id order. With `explicit` a row that has ids gets them instead of the largest;
    shorter rows are padded with id 0 and -inf.
    """
    own = tokens.clamp(min=0).unsqueeze(1)
    ranks = values.ranks(own)
    logits = values.source.logits
    if explicit is None and count == -1:
        ids = torch.arange(logits.shape[1], device=own.device).repeat(len(own), 1)
        return Logprobs(token_ids=ids, values=values.reported(logits), ranks=ranks)
    parts = [(own, values.at(own))]
    most = columns(count, logits.shape[1])
    if explicit is not None:
        parts.append(_explicit(values, explicit, most))
    elif most:
        parts.append(values.largest(most))
    return Logprobs(
        token_ids=torch.cat([ids for ids, _ in parts], dim=1),
        values=torch.cat([at for _, at in parts], dim=1),
        ranks=ranks,
    )


def _explicit(values: Values, explicit: Explicit, most: int) -> tuple[Tensor, Tensor]:
    ids, others = explicit.ids, explicit.others
    at = torch.where(explicit.listed, values.at(ids), float("-inf"))
    if most and len(others):
        top_ids, top_values = values.largest(most)
        ids = ids.clone()
        ids[others, :most], at[others, :most] = top_ids[others], top_values[others]
    return ids, at
