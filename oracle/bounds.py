"""Must, may and must-not: what any correct sampler of a declared accuracy class keeps, may keep and drops.

A token must stay when it stays under every rounding that the class allows, and may stay when it
does under one. The filters are those of min_p (MINP01), top_k (TOPK01) and top_p (TOPP01), in the
profile's order, each on what the one before may have left. Their quantity is monotone in what
precedes a token t, the tokens ranked before it:

* top-k keeps t iff fewer than k tokens precede it; * top-p keeps t iff the mass that precedes it,
over the mass of the row, is below p; * both are bounded by the tokens that surely precede t, at
their least, and those that possibly do, at their most.

Equal logits do not precede each other when ties are kept; by position, lower or higher ids precede;
for any ids an equal token may precede or not, so that tied tokens at an edge are never must and
always may. The mass has the error of the sums on top: that of the row's total, that of the running
sum, and one division, relative to the mass or, for samplers that sum from the smallest, to its
complement.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from aliquot.contract.accuracy import AccuracyClass
from aliquot.contract.batch import Batch
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import pipeline
from aliquot.oracle.context import Context
from aliquot.oracle.intervals import (
    OWN_UNIT,
    Arithmetic,
    Held,
    Interval,
    Mask,
    heated,
    penalised,
)
from aliquot.oracle.rows import Rows
from aliquot.oracle.softmax import prefix_sums


@dataclass(frozen=True)
class KeepBounds:
    """Which tokens surely and possibly stay, bool `[n, V]` each; must is a part of may."""

    must: Mask
    may: Mask

    @property
    def undecided(self) -> Mask:
        """Tokens that may stay or not, bool `[n, V]`."""
        return self.may & ~self.must


@dataclass(frozen=True)
class ValueBounds:
    """What a sampler may report beside its tokens: intervals `[n, V]`.

    `logits` and `logprobs` are float64, `ranks` int64; all of the row that the batch's logprobs
    mode shows.
    """

    logits: Interval
    logprobs: Interval
    ranks: Interval


def keep_bounds(
    logits: npt.ArrayLike, batch: Batch, *, accuracy: AccuracyClass, profile: Profile = CANONICAL
) -> KeepBounds:
    """The tokens that each row surely and possibly keeps after all filters.

    For a greedy row: the tokens that surely or possibly are its argmax. Raises RowError as
    `pipeline.run` does.
    """
    rows = map(_last, _processed(logits, batch, accuracy, profile, range(len(batch))))
    shape = (len(batch), batch.vocab_size)
    ends = [
        _argmax(held, profile) if request.params.greedy else (held.must, held.may)
        for held, request in zip(rows, batch.requests, strict=True)
    ]
    must = np.array([must for must, _ in ends], dtype=bool).reshape(shape)
    may = np.array([may for _, may in ends], dtype=bool).reshape(shape)
    return KeepBounds(must, may)


def value_bounds(
    logits: npt.ArrayLike, batch: Batch, *, accuracy: AccuracyClass, profile: Profile = CANONICAL
) -> ValueBounds:
    """The logits, logprobs and ranks of every token that a correct sampler may report in the batch's mode."""
    raw = batch.logprobs_mode.startswith("raw") and profile.logprobs == "raw"
    if raw:
        exact = pipeline.run(logits, batch, profile=profile).raw
        rows = [Held.around(row, np.zeros(row.size)) for row in exact]
    else:
        rows = list(map(_last, _processed(logits, batch, accuracy, profile, range(len(batch)))))
    arithmetic = Arithmetic(accuracy)
    by_logprob = batch.logprobs_mode.endswith("logprobs")
    logprobs = [_logprobs(held, arithmetic) for held in rows]
    ranks = [_ranks(held, arithmetic, by_logprob) for held in rows]
    shape = (len(batch), batch.vocab_size)
    return ValueBounds(
        logits=_stacked([_logits(held) for held in rows], shape),
        logprobs=_stacked(logprobs, shape),
        ranks=_stacked(ranks, shape, np.int64),
    )


def _stacked(
    rows: list[Interval], shape: tuple[int, int], dtype: npt.DTypeLike = np.float64
) -> Interval:
    lo = np.array([row.lo for row in rows], dtype=dtype).reshape(shape)
    hi = np.array([row.hi for row in rows], dtype=dtype).reshape(shape)
    return Interval(lo, hi)


def trace(
    logits: npt.ArrayLike,
    batch: Batch,
    row: int,
    *,
    accuracy: AccuracyClass,
    profile: Profile = CANONICAL,
) -> dict[str, int]:
    """How many tokens of one row are undecided after the temperature and each filter, by step name."""
    held = _processed(logits, batch, accuracy, profile, [row])[0]
    return {name: int((state.may & ~state.must).sum()) for name, state in held.items()}


# From logits to what each row keeps


def _processed(
    logits: npt.ArrayLike,
    batch: Batch,
    accuracy: AccuracyClass,
    profile: Profile,
    rows: Sequence[int],
) -> list[dict[str, Held]]:
    """For each row what it holds after the thinking budget, the temperature and each filter, in order."""
    dtype = accuracy.parameter_dtype
    traced = pipeline.run(logits, batch, profile=profile, parameter_dtype=dtype, trace=True)
    context, trace = Context(batch, profile, dtype), dict(traced.trace)
    arithmetic = Arithmetic(accuracy)
    return [
        _filtered(penalised(trace, row, context, arithmetic), row, context, arithmetic)
        for row in rows
    ]


def _filtered(held: Held, row: int, context: Context, arithmetic: Arithmetic) -> dict[str, Held]:
    """One row through the temperature and the filters, in the profile's order.

    Once a value may overflow, nothing of the row is sure.
    """
    states = {"thinking_budget": held}
    names = [step.name for step in pipeline.steps_for(context.profile)]
    params = context.params[row]
    for name in names[names.index("thinking_budget") + 1 :]:
        if name == "temperature":
            held = heated(held, row, context, arithmetic)
        else:
            held = FILTERS[name](held, params, context.profile, arithmetic)
        if np.abs(held.hi[held.may]).max() > arithmetic.accuracy.largest:
            held = held.kept(np.zeros_like(held.must), held.may)
            return {**states, name: held}
        states[name] = held
    return states


def _last(states: dict[str, Held]) -> Held:
    return list(states.values())[-1]


def _min_p(held: Held, params: SamplingParams, profile: Profile, arithmetic: Arithmetic) -> Held:
    """`exp(l - max) >= min_p`, with three more roundings: two probabilities and their product with min_p."""
    if params.min_p == 0:
        return held
    wanted = math.log(params.min_p)
    least, most = held.lo - held.reference, held.hi - held.lo[held.may].max()
    own = 3 * arithmetic.unit + arithmetic.exp_error - OWN_UNIT * wanted
    error = own + arithmetic.unit * np.abs(np.where(held.may, least, 0.0))
    return held.kept((least - error >= wanted) | _largest(held), most + error >= wanted)


def _largest(held: Held) -> Mask:
    """Tokens that no other can exceed, bool `[V]`."""
    top = np.where(held.may, held.order_hi, -np.inf)
    first = int(top.argmax())
    others = np.partition(top, top.size - 2)[top.size - 2] if top.size > 1 else -np.inf
    rival = np.full(top.size, top[first])
    rival[first] = others
    largest: Mask = held.must & (held.order_lo >= rival)
    return largest


def _top_k(held: Held, params: SamplingParams, profile: Profile, arithmetic: Arithmetic) -> Held:
    """Fewer than k tokens precede."""
    k = params.top_k
    if not 0 < k < held.may.size:
        return held
    before = Preceding(held, profile.topk_ties)
    ones = np.ones(held.may.size)
    return held.kept(
        before.possibly(np.where(held.may, ones, 0.0)) < k,
        before.surely(np.where(held.must, ones, 0.0)) < k,
    )


def _top_p(held: Held, params: SamplingParams, profile: Profile, arithmetic: Arithmetic) -> Held:
    """The mass that precedes is below p."""
    p = params.top_p
    if p >= 1:
        return held
    mass = preceding_mass(held, profile.topp_ties, arithmetic)
    slack = arithmetic.unit * (1 - p) if p < 0.5 else 0.0  # the rounding of 1 - p
    reaches = np.less_equal if profile.topp_exact == "one_more" else np.less
    must, may = reaches(mass.hi + slack, p), reaches(mass.lo - slack, p)
    return held.kept(must | (mass.hi == 0), may | (mass.lo == 0))  # TOPP05


def preceding_mass(held: Held, ties: str, arithmetic: Arithmetic) -> Interval:
    """The mass `[V]` that precedes each token as a sampler may compute it, exactly 0 where nothing does."""
    least, most, relative = _mass(held, Preceding(held, ties), arithmetic)
    top = most + relative * np.maximum(most, 1 - most)
    bottom = least - relative * np.maximum(least, 1 - least)
    return Interval(np.where(least == 0, 0.0, bottom), np.where(most == 0, 0.0, top))


def _mass(held: Held, before: "Preceding", arithmetic: Arithmetic) -> tuple[Rows, Rows, float]:
    """The least and the most exact mass `[V]` that precedes each token, and the relative error of the sums."""
    alive = int(held.may.sum())
    if _is_flat(held) and alive.bit_count() == 1:  # weights 1, a power of two of them: exact
        lo = hi = held.may.astype(np.float64)
        relative = 0.0
    else:
        lo, hi = arithmetic.weights(held)
        relative = 2 * arithmetic.sum_error(alive) + arithmetic.unit
    kept = np.where(held.must, lo, 0.0)
    sure_lo, sure_hi = before.surely(kept), before.surely(np.where(held.must, hi, 0.0))
    maybe_hi, maybe_lo = before.possibly(hi), before.possibly(kept)
    after_hi = np.maximum(hi.sum() - sure_hi, hi)
    after_lo = np.maximum(kept.sum() - maybe_lo, lo)
    with np.errstate(invalid="ignore"):
        least, most = sure_lo / (sure_lo + after_hi), maybe_hi / (maybe_hi + after_lo)
    first = before.possibly(held.may.astype(np.float64)) == 0  # counted, as sums cancel inexactly
    return np.nan_to_num(least), np.where(first, 0.0, np.nan_to_num(most, nan=1.0)), relative


def _is_flat(held: Held) -> bool:
    value = held.order_lo[held.may][0]
    alive = held.may & (held.order_lo == value) & (held.order_hi == value)
    return bool((alive == held.may).all() and (held.must == held.may).all())


FILTERS: dict[str, Callable[[Held, SamplingParams, Profile, Arithmetic], Held]] = {
    "min_p": _min_p,
    "top_k": _top_k,
    "top_p": _top_p,
}


class Above:
    """For each query the keys above it, or equal to it as well: sums of weights over them."""

    def __init__(self, keys: Rows, queries: Rows, equal: bool = False) -> None:
        self.order = np.argsort(-keys)
        side: Literal["left", "right"] = "right" if equal else "left"
        self.place = np.empty(keys.size, dtype=np.int64)
        ranked = -queries[self.order]  # nearly sorted, which searchsorted likes
        self.place[self.order] = np.searchsorted(-keys[self.order], ranked, side=side)

    def sum(self, weights: Rows) -> Rows:
        """The sums `[V]`."""
        sums: Rows = np.concatenate([[0.0], prefix_sums(weights[self.order])])[self.place]
        return sums


class Preceding:
    """Sums over the tokens that are ranked before each token, under a choice of ties."""

    def __init__(self, held: Held, ties: str) -> None:
        self.keep_all, self.by_id = ties == "keep_all", ties in ("lowest_ids", "highest_ids")
        self.exact = held.order_lo == held.order_hi
        self.values = held.order_lo
        self.sure = Above(held.lo, held.hi)
        if self.keep_all:
            self.maybe = Above(held.order_hi, held.order_lo)
        else:
            self.maybe = Above(held.hi, held.lo, equal=True)
        ids = np.arange(held.may.size)
        self.ids = -ids if ties == "highest_ids" else ids

    def surely(self, weights: Rows) -> Rows:
        """The weights `[V]` summed over what precedes each token under every rounding."""
        above = self.sure.sum(weights)
        return above + self._equals(weights, self.ids) if self.by_id else above

    def possibly(self, weights: Rows) -> Rows:
        """The weights `[V]` summed over what precedes each token under some rounding."""
        itself = np.where(self.exact, 0.0, weights) if self.keep_all else weights
        above = self.maybe.sum(weights) - itself
        if self.by_id:
            above = above - self._equals(weights, -self.ids)
        return np.maximum(above, 0.0)

    def _equals(self, weights: Rows, ids: npt.NDArray[np.int64]) -> Rows:
        """The weights `[V]` summed over exactly equal tokens with a smaller id."""
        order = np.lexsort((ids, self.values))
        order = order[self.exact[order]]
        values, sums = self.values[order], np.concatenate([[0.0], prefix_sums(weights[order])])
        start = np.searchsorted(values, values, side="left")
        equals = np.zeros(weights.size)
        equals[order] = sums[:-1] - sums[start]
        return equals


# From what a row keeps to what may be reported


def _argmax(held: Held, profile: Profile) -> tuple[Mask, Mask]:
    """Which tokens surely and possibly are a greedy row's argmax, bool `[V]` each (GREEDY02)."""
    floor = held.order_lo.max()
    may = held.may & (held.order_hi >= floor)
    if profile.greedy_ties == "lowest_id":
        tied = np.flatnonzero(may & (held.order_lo == held.order_hi))
        may[tied[1:]] = False
    return may & (may.sum() == 1), may


def _logits(held: Held) -> Interval:
    lo, hi = np.where(held.must, held.lo, -np.inf), np.where(held.may, held.hi, -np.inf)
    return Interval(lo, hi)


def _logprobs(held: Held, arithmetic: Arithmetic) -> Interval:
    """`(l - max) - log(sum)` of one row, each operation with its rounding (LOGP02, LOGP05)."""
    weight_lo, weight_hi = arithmetic.weights(held)
    sums = arithmetic.sum_error(int(held.may.sum()))
    largest = float(held.lo[held.may].max()) - held.reference
    surely = float(weight_lo[held.must].sum())
    log_least = max(largest, math.log(surely) if surely > 0 else -math.inf) - 2 * sums
    log_most = math.log(weight_hi.sum()) + sums
    gap_lo = np.where(held.may, held.lo, held.reference) - held.reference
    gap_hi = np.where(held.may, held.hi, held.reference) - held.reference
    lo, hi = gap_lo - log_most, gap_hi - log_least
    logs = arithmetic.exp_error * max(abs(log_most), abs(log_least))
    rounding = arithmetic.unit * (np.abs(gap_lo) + np.abs(lo)) + logs
    lo, hi = lo - rounding, np.minimum(hi + rounding, 0.0)
    return Interval(np.where(held.must, lo, -np.inf), np.where(held.may, hi, -np.inf))


def _ranks(held: Held, arithmetic: Arithmetic, by_logprob: bool) -> Interval:
    """How many tokens are at least as large (RANK01), where logprobs may round distinct logits to equal ones."""
    size = held.may.size
    rounding = np.zeros(size)
    if by_logprob:
        lowest = _logprobs(held.kept(held.may, held.may), arithmetic).lo
        rounding = 2 * arithmetic.unit * np.abs(np.where(held.may, lowest, 0.0))
    ones, exact = np.ones(size), held.order_lo == held.order_hi
    sure = Above(held.order_lo, held.order_hi, equal=True).sum(np.where(held.must, ones, 0.0))
    maybe = Above(held.hi + rounding, held.lo - rounding, equal=True).sum(
        np.where(held.may, ones, 0.0)
    )
    lo = np.where(held.may, sure - (held.must & exact) + 1, size)
    return Interval(lo.astype(np.int64), np.where(held.must, maybe, size).astype(np.int64))
