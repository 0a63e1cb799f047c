"""Step 8: logprobs, their ids and ranks (LOGP01-LOGP13, RANK01-RANK03)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from aliquot.contract.output import Logprobs
from aliquot.fast.blocks import Logits, block_sum
from aliquot.fast.compiled import fused_count_at_least


class Values:
    """The values to report: logits minus a shift `[n]`, rounded once; their order is that of the logits."""

    def __init__(self, source: Logits, *, normalise: bool) -> None:
        self.source = source
        self._shift = source.mass.log() + source.peak.value.double() if normalise else None

    def at(self, ids: Tensor) -> Tensor:
        """Values of `[n, c]` token ids, float32."""
        return self.shifted(self.source.logits.gather(1, ids))

    def shifted(self, logits: Tensor) -> Tensor:
        """Values of `[n, c]` logits of these rows, float32."""
        if self._shift is None:
            return logits
        return (logits.double() - self._shift.unsqueeze(1)).float()

    def largest(self, count: int) -> tuple[Tensor, Tensor]:
        """Ids and values of the `count` largest, descending."""
        found = self.source.top(count)
        return found.ids, self.shifted(found.values)

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


def gather(
    values: Values,
    tokens: Tensor,
    count: int | None,
    explicit: Sequence[Sequence[int] | None] | None = None,
) -> Logprobs:
    """Logprobs of the given tokens `[n]`, of the `count` largest, and of `explicit` ids.

    `count` -1 returns whole rows in id order. With `explicit` a row that has ids gets them instead of the largest;
    shorter rows are padded with id 0 and -inf.
    """
    own = tokens.clamp(min=0).unsqueeze(1)
    ranks = values.ranks(own)
    width = values.source.logits.shape[1]
    if explicit is None and count == -1:
        ids = torch.arange(width, device=own.device).expand(len(own), -1)
        return Logprobs(
            token_ids=ids.clone(), values=values.shifted(values.source.logits), ranks=ranks
        )
    most = 0 if count is None else width if count == -1 else min(count, width)
    parts = [(own, values.at(own))]
    if explicit is not None:
        parts.append(_explicit(values, explicit, most))
    elif most:
        parts.append(values.largest(most))
    return Logprobs(
        token_ids=torch.cat([ids for ids, _ in parts], dim=1),
        values=torch.cat([at for _, at in parts], dim=1),
        ranks=ranks,
    )


def _explicit(
    values: Values, explicit: Sequence[Sequence[int] | None], most: int
) -> tuple[Tensor, Tensor]:
    longest = max(len(ids) for ids in explicit if ids is not None)
    columns = max(longest, most)
    lists = [list(ids or ()) for ids in explicit]
    padded = torch.tensor([row + [0] * (columns - len(row)) for row in lists], dtype=torch.int64)
    used = torch.tensor([[i < len(row) for i in range(columns)] for row in lists])
    ids, used = padded.view(-1, columns).to(values.source.logits.device), used.view(-1, columns)
    at = torch.where(used.to(ids.device), values.at(ids), float("-inf"))
    others = torch.tensor([i for i, row in enumerate(explicit) if row is None], device=ids.device)
    if most and len(others):
        top_ids, top_values = values.largest(most)
        ids[others, :most], at[others, :most] = top_ids[others], top_values[others]
    return ids, at
