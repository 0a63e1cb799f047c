"""Support test: every drawn id must be allowed; one that is not is a fault after one draw.

Signatures that other code may rely on::

    outside(ids, allowed_mask) -> ids drawn although they are not allowed
    check(ids, allowed_mask) -> SupportTest
    minimum_detectable_mass(draws, power=0.99) -> float

No false alarm is possible: under the null a forbidden id has probability 0, so the test spends no
alpha.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class SupportTest:
    """Result of a support test.

    Attributes:
        draws: number of ids looked at.
        outside: int64 [k], the offending ids in the order drawn (ids outside the vocabulary too).
        minimum_detectable_mass: probability on forbidden ids that these draws show with 99 %
            probability; it is also the total-variation distance that this test finds.
    """

    draws: int
    outside: npt.NDArray[np.int64]
    minimum_detectable_mass: float

    @property
    def passed(self) -> bool:
        """Whether every id was allowed."""
        return self.outside.size == 0


def check(ids: npt.ArrayLike, allowed_mask: npt.ArrayLike) -> SupportTest:
    """Support test of drawn ids.

    Args:
        ids: int, any shape; the ids drawn from one row.
        allowed_mask: bool [vocab], True = may be drawn.

    Raises:
        ValueError: ids that are not integers, or a mask that is not bool [vocab].
    """
    drawn = _as_ids(ids)
    return SupportTest(
        drawn.size, outside(drawn, allowed_mask), minimum_detectable_mass(drawn.size)
    )


def outside(ids: npt.ArrayLike, allowed_mask: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Ids drawn although they are not allowed, int64 [k], in the order drawn, repeats included.

    Arguments and errors of `check`. An id outside ``[0, vocab)`` is never allowed.
    """
    drawn, allowed = _as_ids(ids), np.asarray(allowed_mask)
    if allowed.dtype != np.bool_ or allowed.ndim != 1 or not allowed.size:
        raise ValueError(
            f"allowed_mask: bool of shape [vocab] is allowed, got {allowed.dtype} {allowed.shape}"
        )
    inside = (drawn >= 0) & (drawn < allowed.size)
    good = inside & allowed[np.where(inside, drawn, 0)]
    offending: npt.NDArray[np.int64] = drawn[~good]
    return offending


def minimum_detectable_mass(draws: int, power: float = 0.99) -> float:
    """Forbidden mass of which ``draws`` draws show at least one id with probability ``power``."""
    return float(1 - (1 - power) ** (1 / draws)) if draws else 1.0


def _as_ids(ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
    drawn = np.asarray(ids)
    if drawn.size and drawn.dtype.kind not in "iu":
        raise ValueError(f"ids: integers are allowed, got {drawn.dtype}")
    return drawn.astype(np.int64).ravel()
