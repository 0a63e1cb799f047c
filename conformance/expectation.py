"""What the oracle says of one case, in the form that the judge compares with."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case
from aliquot.contract.accuracy import AccuracyClass
from aliquot.contract.profile import Profile
from aliquot.oracle import law, pipeline
from aliquot.oracle.bounds import KeepBounds, ValueBounds, keep_bounds, value_bounds
from aliquot.oracle.intervals import Interval

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float64]


ANY = "any_ids"


@dataclass
class Expectation:
    """The oracle's outcome and bounds for a case under a profile and a declared arithmetic."""

    case: Case
    profile: Profile
    accuracy: AccuracyClass

    @cached_property
    def outcome(self) -> pipeline.Outcome:
        """The rows after the contract's steps and the exact laws."""
        return pipeline.run(
            self.case.logits,
            self.case.batch(),
            profile=self.profile,
            parameter_dtype=self.accuracy.parameter_dtype,
        )

    @cached_property
    def _keep(self) -> KeepBounds:
        return keep_bounds(
            self.case.logits, self.case.batch(), accuracy=self.accuracy, profile=self.profile
        )

    @cached_property
    def _values(self) -> ValueBounds:
        return value_bounds(
            self.case.logits, self.case.batch(), accuracy=self.accuracy, profile=self.profile
        )

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
        return np.asarray(self._keep.may[r])

    def surely_kept(self, r: int) -> Mask:
        """Tokens [V] that every correct sampler of the declared arithmetic keeps in row `r`."""
        return np.asarray(self._keep.must[r])

    @property
    def exact_logprobs(self) -> Interval:
        """Intervals [n, V] of the logprobs in the case's mode, before they are returned in float32."""
        return self._values.logprobs

    @cached_property
    def shown(self) -> Interval:
        """Intervals [n, V] of the values that the case's logprobs mode shows.

        Values are returned in float32 (IO09); as rounding is monotone, so are the ends.
        """
        logits = self.case.mode.endswith("logits")
        values = self._values.logits if logits else self._values.logprobs
        with np.errstate(over="ignore", under="ignore"):
            low, high = values.lo.astype(np.float32), values.hi.astype(np.float32)
        return Interval(low.astype(np.float64), high.astype(np.float64))

    @property
    def ranks(self) -> Interval:
        """Intervals int64 [n, V] of the ranks in the case's logprobs mode."""
        return self._values.ranks

    def draws(self, draws: int, rng: np.random.Generator) -> Ids:
        """The oracle's own draws, int64 [draws, n]."""
        drawn = [law.draw_row(probs, rng.random(draws)) for probs in self.outcome.law]
        return np.stack(drawn, axis=1)
