"""Step 8: logprobs, their ids and ranks (LOGP01-LOGP13, RANK01-RANK03)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from aliquot.contract.output import Logprobs
from aliquot.fast.blocks import block_sum, top_candidates


class Values:
    """Logits `[n, V]` float32 and the shift `[n]` that makes them the values to report.

    The order of tokens is that of the logits; the reported value is logit minus shift, rounded once.
    """

    def __init__(self, logits: Tensor, *, normalise: bool) -> None:
        self.logits = logits
        self._shift = log_mass(logits) if normalise else None

    def at(self, ids: Tensor) -> Tensor:
        """Values of `[n, c]` token ids, float32."""
        return self.shifted(self.logits.gather(1, ids))

    def shifted(self, logits: Tensor) -> Tensor:
        """Values of `[n, c]` logits of these rows, float32."""
        if self._shift is None:
            return logits
        return (logits.double() - self._shift.unsqueeze(1)).float()

    def ranks(self, tokens: Tensor) -> Tensor:
        """How many tokens are at least as large as each given one, int64 `[n]` (RANK01, RANK02)."""
        return (self.logits >= self.logits.gather(1, tokens)).sum(1)


def log_mass(logits: Tensor) -> Tensor:
    """log of the sum of exp of each row, float64 `[n]`; sums of float32 exponentials, blocks in float64."""
    peak = logits.amax(1, keepdim=True)
    scaled = (logits - peak).exp_()
    mass = block_sum(scaled).double().sum(1)
    return mass.log() + peak.squeeze(1).double()


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
    width = values.logits.shape[1]
    if explicit is None and count == -1:
        ids = torch.arange(width, device=own.device).expand(len(own), -1)
        return Logprobs(token_ids=ids.clone(), values=values.shifted(values.logits), ranks=ranks)
    most = 0 if count is None else width if count == -1 else min(count, width)
    parts = [(own, values.at(own))]
    if explicit is not None:
        parts.append(_explicit(values, explicit, most))
    elif most:
        found = top_candidates(values.logits, most)
        parts.append((found.ids, values.shifted(found.values)))
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
    ids, used = padded.view(-1, columns).to(values.logits.device), used.view(-1, columns)
    at = torch.where(used.to(ids.device), values.at(ids), float("-inf"))
    others = torch.tensor([i for i, row in enumerate(explicit) if row is None], device=ids.device)
    if most and len(others):
        found = top_candidates(values.logits, most)
        ids[others, :most] = found.ids[others]
        at[others, :most] = values.shifted(found.values)[others]
    return ids, at
