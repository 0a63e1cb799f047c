"""The draw: from weights or logits and noise to one token a row (DRAW01-DRAW08)."""

import torch
from torch import Tensor

from aliquot.fast.blocks import COARSE, block_sum, take_blocks


def pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """First position whose cumulated weight exceeds `uniform` times the total, int64 `[g]`.

    `weights` float64 `[g, c]`, `uniform` float64 `[g]`. A position of weight 0 is never picked, not even for
    uniform = 0 or 1 (DRAW05).
    """
    cumulated = weights.cumsum(1)
    index = _first_above(cumulated, uniform * cumulated[:, -1])
    return index.squeeze(1)


def _first_above(cumulated: Tensor, goal: Tensor) -> Tensor:
    total = cumulated[:, -1]
    goal = torch.minimum(goal, total.nextafter(torch.zeros_like(total))).unsqueeze(1)
    index = torch.searchsorted(cumulated, goal, right=True)
    return index.clamp(max=cumulated.shape[1] - 1)


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """Token of each row by inverse distribution function in id order, int64 `[g]`.

    `weights` float32 `[g, V]`, not necessarily normalised. The uniform chooses a block by block sums in float64 and
    its remainder, rescaled, a token inside. Each token's probability is right to a few float32 roundings,
    however small it is (DRAW06).
    """
    sums = block_sum(weights).double()
    cumulated = sums.cumsum(1)
    goal = uniform * cumulated[:, -1]
    block = _first_above(cumulated, goal)
    size = sums.gather(1, block)
    before = cumulated.gather(1, block) - size
    inside, ids = take_blocks(weights, block, COARSE, 0.0)
    share = (goal.unsqueeze(1) - before) / size
    chosen = pick(inside.double(), share.squeeze(1).clamp(0, 1))
    return ids.gather(1, chosen.unsqueeze(1)).squeeze(1)


def race(log_weights: Tensor, uniform: Tensor) -> Tensor:
    """Token of each row by the Gumbel race in float64, int64 `[g]`.

    `log_weights` float64 `[g, V]`, -inf where a token may not be drawn; `uniform` float64 `[g, V]`, clamped away from
    0 and 1 to the middle of its grid's outermost steps, so that no noise is infinite.
    """
    edge = 2.0**-53
    gumbel = -(-(uniform.clamp(edge, 1 - edge).log())).log()
    return (log_weights + gumbel).argmax(1)
