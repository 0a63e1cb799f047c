"""What the oracle says of one case, in the form that the judge compares with."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case
from aliquot.conformance.memory import Memory, digest
from aliquot.contract.accuracy import AccuracyClass
from aliquot.contract.profile import Profile
from aliquot.oracle import law, pipeline
from aliquot.oracle.bounds import ValueBounds, keep_bounds, value_bounds
from aliquot.oracle.intervals import Interval

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float64]

ANY = "any_ids"
SEEN = Memory()


@dataclass
class Expectation:
    """The oracle's laws and bounds for a case under a profile and a declared arithmetic.

    What was computed once in a process is remembered by the case's content.
    """

    case: Case
    profile: Profile
    accuracy: AccuracyClass

    @cached_property
    def _key(self) -> bytes:
        case, requests = self.case, self.case.requests
        mask = case.grammar_bitmask
        told = (
            case.logits.shape,
            [(r.params, r.prompt_token_ids, r.output_token_ids) for r in requests],
            None if mask is None else mask.tobytes(),
            case.thinking,
            self.profile,
            self.accuracy,
        )
        return digest(told, case.logits)

    @cached_property
    def laws(self) -> Rows:
        """The law of each row's token, float64 [n, V]; certainty for greedy rows."""
        return SEEN.get((self._key, "laws"), self._laws)[0]

    def _laws(self) -> tuple[Rows]:
        dtype = self.accuracy.parameter_dtype
        outcome = pipeline.run(
            self.case.logits, self.case.batch(), profile=self.profile, parameter_dtype=dtype
        )
        return (outcome.law,)

    @cached_property
    def _keep(self) -> tuple[Mask, Mask]:
        def made() -> tuple[Mask, Mask]:
            bounds = keep_bounds(self.case.logits, self.case.batch(), **self._declared)
            return bounds.must, bounds.may

        return SEEN.get((self._key, "keep"), made)

    def _values(self) -> ValueBounds:
        return value_bounds(self.case.logits, self.case.batch(), **self._declared)

    @property
    def _declared(self) -> dict[str, Any]:
        return {"accuracy": self.accuracy, "profile": self.profile}

    @cached_property
    def greedy_rows(self) -> list[int]:
        """The rows that take the maximum."""
        return [r for r, request in enumerate(self.case.requests) if request.params.greedy]

    def fixed_count(self, r: int) -> int | None:
        """How many tokens row `r` keeps when any of the tied ones may stay; None where that is not fixed.

        It is not fixed when the rounding leaves tokens undecided even with ties cut by id, nor in raw modes.
        """
        if ANY not in (self.profile.topk_ties, self.profile.topp_ties) or self.case.mode.startswith(
            "raw"
        ):
            return None
        by_id = {
            name: "lowest_ids"
            if getattr(self.profile, name) == ANY
            else getattr(self.profile, name)
            for name in ("topk_ties", "topp_ties")
        }
        profile = replace(self.profile, topk_ties=by_id["topk_ties"], topp_ties=by_id["topp_ties"])
        shown = replace(self, profile=profile).shown
        must, may = (int(np.count_nonzero(end[r] != -np.inf)) for end in (shown.lo, shown.hi))
        return must if must == may else None

    def drawable(self, r: int) -> Mask:
        """Tokens [V] that row `r` may return: its argmax, or what the filters may keep."""
        return np.asarray(self._keep[1][r])

    def surely_kept(self, r: int) -> Mask:
        """Tokens [V] that every correct sampler of the declared arithmetic keeps in row `r`."""
        return np.asarray(self._keep[0][r])

    def log_error(self, r: int) -> Rows:
        """Largest error of each token's log probability [V] in the draw; infinite where its stay is undecided."""
        return SEEN.get((self._key, "log error", r), lambda: (self._log_error(r),))[0]

    def _log_error(self, r: int) -> Rows:
        processed = replace(self, case=replace(self.case.only([r]), mode="processed_logprobs"))
        exact = processed._values().logprobs
        with np.errstate(invalid="ignore"):
            width = exact.hi[0] - exact.lo[0]
        return np.where(exact.hi[0] == -np.inf, 0.0, width)

    @cached_property
    def shown(self) -> Interval:
        """Intervals [n, V] of the values that the case's logprobs mode shows.

        Values are returned in float32 (IO09); as rounding is monotone, so are the ends.
        """
        low, high, _, _ = self._reported
        return Interval(low.astype(np.float64), high.astype(np.float64))

    @property
    def ranks(self) -> Interval:
        """Intervals int32 [n, V] of the ranks in the case's logprobs mode."""
        return Interval(*self._reported[2:])

    @cached_property
    def _reported(self) -> tuple[npt.NDArray[Any], ...]:
        return SEEN.get((self._key, self.case.mode), self._shown_and_ranks)

    def _shown_and_ranks(self) -> tuple[npt.NDArray[Any], ...]:
        values = self._values()
        shown = values.logits if self.case.mode.endswith("logits") else values.logprobs
        with np.errstate(over="ignore", under="ignore"):
            low, high = shown.lo.astype(np.float32), shown.hi.astype(np.float32)
        return low, high, values.ranks.lo.astype(np.int32), values.ranks.hi.astype(np.int32)

    def draws(self, draws: int, rng: np.random.Generator) -> Ids:
        """The oracle's own draws, int64 [draws, n]."""
        drawn = [law.draw_row(probs, rng.random(draws)) for probs in self.laws]
        return np.stack(drawn, axis=1)
