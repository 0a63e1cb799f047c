"""Top-p, the nucleus (Holtzman et al., arXiv 1904.09751).

TOPP01: a token stays iff the mass of strictly larger tokens is below p. TOPP02: when the mass
reaches p exactly nothing further stays (freedom topp_exact: one more). TOPP03: the token that
crosses p stays. TOPP04: equal logits stay or go together (freedom topp_ties: cut by position,
lowest or highest ids first). TOPP05: the largest always stays. TOPP06: p = 1 is off. TOPP07: the
mass is that of what top-k left, scaled to 1. TOPP08: each row has its own p.
"""

import numpy as np
import numpy.typing as npt

from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows
from aliquot.oracle.softmax import prefix_sums, weights

CLAUSES = ("TOPP01", "TOPP02", "TOPP03", "TOPP04", "TOPP05", "TOPP06", "TOPP07", "TOPP08")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf outside the nucleus."""
    out = rows.copy()
    for row, params in zip(out, context.params, strict=True):
        if params.top_p < 1:  # TOPP06 TOPP08
            row[~keep(row, params.top_p, context.profile)] = -np.inf
    return out


def keep(row: Rows, p: float, profile: Profile = CANONICAL) -> npt.NDArray[np.bool_]:
    """Which tokens of a row `[V]` stay for a p in (0, 1)."""
    alive = row[row > -np.inf]  # TOPP07
    descending = np.sort(alive)[::-1]
    count = nucleus_size(descending, p, profile.topp_exact)
    if profile.topp_ties == "keep_all":
        stays: npt.NDArray[np.bool_] = row >= descending[count - 1]  # TOPP01 TOPP04
        return stays
    stays = np.zeros(row.size, dtype=bool)
    stays[_by_position(row, profile.topp_ties)[:count]] = True
    return stays


def nucleus_size(descending: Rows, p: float, exact: str = "stop") -> int:
    """How many of the sorted finite logits `[m]` have less than p of the mass before them."""
    mass = prefix_sums(weights(descending))
    before = np.concatenate([[0.0], mass[:-1]])  # TOPP05: nothing precedes the largest
    reached = p * mass[-1]
    inside = before <= reached if exact == "one_more" else before < reached  # TOPP01 TOPP02 TOPP03
    return int(inside.sum())


def _by_position(row: Rows, ties: str) -> npt.NDArray[np.int64]:
    """Token ids by descending logit, equal ones by ascending or descending id."""
    ids = np.arange(row.size)
    return np.lexsort((-ids if ties == "highest_ids" else ids, -row))
