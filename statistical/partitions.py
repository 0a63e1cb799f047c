"""Partitions of the vocabulary into cells, each of which makes another kind of fault visible.

A partition is chosen before the draws are seen, so a test on its cell counts is a test on the law.
Mass rank sees temperature and smooth distortions; mass octaves and the tail cuts see a lost or
fattened tail; ids modulo 2, 32 and 128 see lanes and warps; blocks of 16 and 256 ids see tiles and
thread blocks; sixteen slices see shards of the vocabulary; head identity sees single likely tokens.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Order = npt.NDArray[np.intp]

RANK_CELLS = (4, 8, 16)
MODULI = (2, 32, 128)
BLOCK_SIZES = (16, 256)
SLICES = 16
HEAD = 64
OCTAVES = 64
TAIL_CUTS = 24


@dataclass(frozen=True)
class Partition:
    """Named partition of the vocabulary.

    Attributes:
        name: which partition, for reports.
        cells: int32 [vocab], the cell of each token, ``0..cells-1``.
        weight: share in an average of e-values, relative to the other partitions.
    """

    name: str
    cells: npt.NDArray[np.int32]
    weight: float = 1.0

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.cells.max()) + 1


def default_partitions(probs: npt.ArrayLike) -> tuple[Partition, ...]:
    """All partitions of this module for a law, without repeats and without those of one cell.

    Args:
        probs: float64 [vocab]; only its order and sums are used, so a law estimated from draws
            other than the ones under test serves as well.
    """
    law = np.asarray(probs, dtype=np.float64)
    vocab, order = len(law), descending(law)
    made = [mass_rank(law, cells, order) for cells in RANK_CELLS]
    made += [mass_octave(law, order), head_identity(law, HEAD, order), *tail_cuts(law, order)]
    made += [id_modulo(vocab, modulus) for modulus in MODULI]
    made += [id_block(vocab, size) for size in BLOCK_SIZES]
    made.append(id_slice(vocab, SLICES))
    return _distinct(made, law > 0)


def descending(probs: Floats) -> Order:
    """Ids from the likeliest to the least likely, equal ones by id; int64 [vocab].

    The partitions by mass take it as ``order`` to save sorting again.
    """
    return np.argsort(-probs, kind="stable")


def mass_rank(probs: Floats, cells: int, order: Order | None = None) -> Partition:
    """Tokens in order of probability, cut into ``cells`` groups of equal mass."""
    order = descending(probs) if order is None else order
    ranked = probs[order]
    middle = (np.cumsum(ranked) - ranked / 2) / ranked.sum()
    return Partition(f"mass rank {cells}", _scatter(order, (middle * cells).astype(np.int32)))


def mass_octave(probs: Floats, order: Order | None = None) -> Partition:
    """Tokens by the mass of the tail that ends with them, in powers of two (at most `OCTAVES`)."""
    ascending = (descending(probs) if order is None else order)[::-1]
    tail = np.cumsum(probs[ascending]) / probs.sum()
    octave = -np.log2(np.maximum(tail, 2.0**-OCTAVES))
    return Partition("mass octave", _scatter(ascending, np.clip(octave, 0, OCTAVES - 1)))


def tail_cuts(probs: Floats, order: Order | None = None) -> list[Partition]:
    """Two cells each: the least likely tokens of total mass at most ``2**-k``, and the others.

    The cuts ``k = 1..TAIL_CUTS`` share the weight of one partition.
    """
    octave = mass_octave(probs, order).cells
    return [
        Partition(f"tail 2^-{k}", (octave >= k).astype(np.int32), 1 / TAIL_CUTS)
        for k in range(1, TAIL_CUTS + 1)
    ]


def head_identity(probs: Floats, head: int = HEAD, order: Order | None = None) -> Partition:
    """Each of the ``head`` likeliest tokens alone, all others together."""
    order = descending(probs) if order is None else order
    return Partition("head identity", _scatter(order, np.minimum(np.arange(len(probs)), head)))


def id_modulo(vocab: int, modulus: int) -> Partition:
    """Tokens by id modulo ``modulus``."""
    return Partition(f"id mod {modulus}", (np.arange(vocab) % modulus).astype(np.int32))


def id_block(vocab: int, size: int) -> Partition:
    """Tokens by blocks of ``size`` consecutive ids."""
    return Partition(f"id block {size}", (np.arange(vocab) // size).astype(np.int32))


def id_slice(vocab: int, slices: int) -> Partition:
    """Tokens by id, cut into ``slices`` parts of equal length."""
    return Partition(f"id slice {slices}", (np.arange(vocab) * slices // vocab).astype(np.int32))


def _scatter(order: Order, ranked_cells: npt.NDArray[np.generic]) -> npt.NDArray[np.int32]:
    cells = np.empty(len(order), dtype=np.int32)
    cells[order] = ranked_cells
    return cells


def _distinct(made: list[Partition], possible: npt.NDArray[np.bool_]) -> tuple[Partition, ...]:
    kept: dict[bytes, Partition] = {}
    for partition in made:
        first = _first_of_cell(partition.cells[possible])
        if first.any():
            kept.setdefault(first.tobytes(), partition)
    return tuple(kept.values())


def _first_of_cell(cells: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    first = np.zeros(int(cells.max()) + 1, dtype=np.int32)
    first[cells[::-1]] = np.arange(len(cells), dtype=np.int32)[::-1]
    return first[cells]
