"""Independence of draws: rows, steps, seeds, draft and residual, by e-values on pair tables.

Signatures that other code may rely on::

    PairTest(first_law, second_law).observe(first_ids, second_ids) -> log_e
    Independence(law).observe(ids) -> log_e            ids int [steps, rows], all rows of one law
    match_test(first_law, second_law).observe(first_ids == second_ids) -> log_e
    lagged(ids, lag) -> (first_ids, second_ids)

Marginal tests cannot see shared noise: two rows that use the same noise both have the right law.
A pair test looks at where the two draws fall together. Its null is independence whatever the
two marginal laws are, so a wrong temperature does not make it red; `match_test` also takes the laws
as given and is far sharper when only a few draws share their noise.

Pairs must be independent of each other under the null: give each draw to one pair only.

Source: universal inference (Wasserman, Ramdas, Balakrishnan 2020): the mixture likelihood of the
pair table over its largest likelihood under independence is at most the ratio at the true law.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import special

from aliquot.statistical.eprocess import (
    PRIORS,
    Counts,
    EProcess,
    Floats,
    KnownLaw,
    Mixture,
    Prior,
    as_law,
    cell_masses,
)
from aliquot.statistical.partitions import Partition, id_modulo, mass_rank

TABLE_SIDES = (4, 16)
ROW_DISTANCES = (1, 2, 4, 8, 16, 32)
LAGS = (1, 2, 4, 8)
SMOOTHING = 0.01

Ids = npt.NDArray[np.int64]


class PairTest(EProcess):
    """E-process that two ids drawn together are independent, whatever their laws.

    Args:
        first_law: float64 [vocab], about the law of the first id; shapes the cells and the prior,
            not the null.
        second_law: float64 [vocab], of the second; the first's by default.
        sides: cells a side of the pair tables.
        priors: Dirichlet mixtures over the pair table, relative to the product of the laws.

    Tables: ids by rank of mass (seen by noise shared in order of probability), by cumulated mass
    in id order (by a shared uniform number) and modulo the side (by noise shared id for id).
    """

    def __init__(
        self,
        first_law: npt.ArrayLike,
        second_law: npt.ArrayLike | None = None,
        sides: Sequence[int] = TABLE_SIDES,
        priors: Sequence[Prior] = PRIORS,
    ) -> None:
        laws = [as_law(first_law, "first_law")]
        if second_law is not None:
            laws.append(as_law(second_law, "second_law"))
        self.names = tuple(f"{name} {side}" for name in CELLS for side in sides)
        by_law = [[make(law, side) for make in CELLS.values() for side in sides] for law in laws]
        self.cells = list(zip(by_law[0], by_law[-1], strict=True))
        self.bases = [_base(pair, (laws[0], laws[-1])) for pair in self.cells]
        self.mixtures = [Mixture(base.ravel(), priors) for base in self.bases]
        self.counts: list[Counts] = [np.zeros(base.shape, np.int64) for base in self.bases]

    def fresh(self) -> Self:
        """Test of the same laws that has seen no draws; it shares the cells of this one."""
        other = copy.copy(self)
        other.counts = [np.zeros_like(table) for table in self.counts]
        other.draws = 0
        return other

    def observe(self, first_ids: npt.ArrayLike, second_ids: npt.ArrayLike) -> float:
        """Add pairs, int of equal shapes, and return the log e-value.

        Raises:
            ValueError: shapes that differ, or ids outside the vocabulary.
        """
        first, second = _checked_pairs(first_ids, second_ids, self.cells[0])
        self.draws += first.size
        for table, (left, right) in zip(self.counts, self.cells, strict=True):
            flat = left.cells[first] * table.shape[1] + right.cells[second]
            table += np.bincount(flat, minlength=table.size).reshape(table.shape)
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the e-value on each pair table."""
        log_es = [
            float(mixture.dense(table.ravel())[0]) - _log_best_independent(table, base)
            for table, base, mixture in zip(self.counts, self.bases, self.mixtures, strict=True)
        ]
        return dict(zip(self.names, log_es, strict=True))

    def weights(self) -> Sequence[float]:
        """Equal weights."""
        return [1.0] * len(self.names)

    def merge(self, other: Self) -> None:
        """Add the pair tables of another shard."""
        if self.names != other.names or not all(map(np.array_equal, self.bases, other.bases)):
            raise ValueError("merge: the other shard has other laws or tables")
        self.draws += other.draws
        for mine, theirs in zip(self.counts, other.counts, strict=True):
            mine += theirs


class Independence(EProcess):
    """E-process that all draws of a batch, over steps and rows of one law, are independent.

    Args:
        law: float64 [vocab], about the law of every row (a flat one shows the most).
        rows: rows of the batch.

    Pairs: rows a power of two apart at one step; one row at two steps, 1 to 8 apart; and
    neighbouring rows at neighbouring steps, which noise keyed by a running position shares.
    """

    def __init__(self, law: npt.ArrayLike, rows: int) -> None:
        apart = [distance for distance in ROW_DISTANCES if distance < rows]
        self.rows = rows
        self.pairings: dict[str, Callable[[Ids], tuple[Ids, Ids]]] = {
            f"rows {distance} apart": _rows_apart(distance) for distance in apart
        }
        self.pairings |= {f"steps {lag} apart": _steps_apart(lag) for lag in LAGS}
        if rows > 1:
            self.pairings["position"] = _diagonal
        unused = PairTest(law)
        self.tests = {name: unused.fresh() for name in self.pairings}

    def observe(self, ids: npt.ArrayLike) -> float:
        """Add draws, int [steps, rows] with steps in order, and return the log e-value."""
        drawn = np.asarray(ids)
        if drawn.ndim != 2 or drawn.shape[1] != self.rows:
            raise ValueError(f"ids: shape [steps, {self.rows}] is allowed, got {drawn.shape}")
        self.draws += drawn.size
        for name, pairs_of in self.pairings.items():
            self.tests[name].observe(*pairs_of(drawn))
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the e-value of each way to pair."""
        return {name: test.log_e for name, test in self.tests.items()}

    def weights(self) -> Sequence[float]:
        """Equal weights."""
        return [1.0] * len(self.tests)

    def merge(self, other: Self) -> None:
        """Add the pair tables of another shard."""
        if self.rows != other.rows:
            raise ValueError(f"merge: the other shard has {other.rows} rows, this {self.rows}")
        self.draws += other.draws
        for name, test in self.tests.items():
            test.merge(other.tests[name])


def match_test(first_law: npt.ArrayLike, second_law: npt.ArrayLike) -> KnownLaw:
    """E-process of how often two ids are equal: observe ``first_ids == second_ids`` as 0 or 1.

    Its null is independence and the two laws, float64 [vocab]: the match has probability
    ``sum p q``.
    """
    first, second = as_law(first_law, "first_law"), as_law(second_law, "second_law")
    match = min(float(first @ second), 1.0)
    outcomes = Partition("equal ids", np.arange(2, dtype=np.int32))
    return KnownLaw([1 - match, match], [outcomes])


def lagged(ids: npt.ArrayLike, lag: int) -> tuple[Ids, Ids]:
    """Disjoint pairs of draws ``lag`` steps apart; ids int [steps, ...], steps in order."""
    drawn = np.asarray(ids)
    blocks = len(drawn) // (2 * lag)
    halves = drawn[: blocks * 2 * lag].reshape(blocks, 2, lag, *drawn.shape[1:])
    return halves[:, 0].ravel(), halves[:, 1].ravel()


def _steps_apart(lag: int) -> Callable[[Ids], tuple[Ids, Ids]]:
    return lambda ids: lagged(ids, lag)


def _rows_apart(distance: int) -> Callable[[Ids], tuple[Ids, Ids]]:
    return lambda ids: lagged(ids.T, distance)


def _diagonal(ids: Ids) -> tuple[Ids, Ids]:
    steps, rows = (count // 2 * 2 for count in ids.shape)
    even = ids[0:steps:2, :rows].reshape(-1, rows // 2, 2)
    odd = ids[1:steps:2, :rows].reshape(-1, rows // 2, 2)
    return even.ravel(), odd[:, :, ::-1].ravel()


def _order_quantile(law: Floats, cells: int) -> Partition:
    middle = np.cumsum(law) - law / 2
    return Partition("id order", np.minimum(middle * cells, cells - 1).astype(np.int32))


CELLS: dict[str, Callable[[Floats, int], Partition]] = {
    "mass rank": mass_rank,
    "id order": _order_quantile,
    "id mod": lambda law, cells: id_modulo(len(law), cells),
}


def _base(pair: tuple[Partition, Partition], laws: Sequence[Floats]) -> Floats:
    sides = [cell_masses(part, law) for part, law in zip(pair, laws, strict=True)]
    first, second = ((1 - SMOOTHING) * side + SMOOTHING / len(side) for side in sides)
    return np.outer(first, second)


def _log_best_independent(table: Counts, base: Floats) -> float:
    sides = table.sum(axis=0), table.sum(axis=1)
    fitted = [float(special.xlogy(side, side / max(table.sum(), 1)).sum()) for side in sides]
    return sum(fitted) - float((table * np.log(base)).sum())


def _checked_pairs(
    first_ids: npt.ArrayLike, second_ids: npt.ArrayLike, pair: tuple[Partition, Partition]
) -> tuple[Ids, Ids]:
    drawn = [np.asarray(ids) for ids in (first_ids, second_ids)]
    if drawn[0].shape != drawn[1].shape:
        raise ValueError(f"ids: shapes {drawn[0].shape} and {drawn[1].shape} of the pairs differ")
    for ids, part, name in zip(drawn, pair, ("first_ids", "second_ids"), strict=True):
        vocab = len(part.cells)
        if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= vocab):
            raise ValueError(f"{name}: integers in [0, {vocab}) are allowed")
    return drawn[0].ravel(), drawn[1].ravel()
