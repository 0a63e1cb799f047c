"""A bounded memory of what the oracle said, so that a second run in one process need not ask again."""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Arrays = tuple[npt.NDArray[np.generic], ...]
T = TypeVar("T", bound=Arrays)

LIMIT = 300_000_000
ENTRY = 1_000


def digest(told: object, array: npt.NDArray[Any]) -> bytes:
    """A key of 16 bytes for values that pickle tells apart and the numbers of an array."""
    made = blake2b(pickle.dumps(told), digest_size=16)
    made.update(array.tobytes())
    return made.digest()


class Memory:
    """Tuples of arrays by key; beyond `limit` bytes the entry that was used longest ago goes first."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.size = limit, 0
        self.entries: OrderedDict[Hashable, Arrays] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returned for this key; its arrays must not be written to."""
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = make()
            self.size += _bytes(found)
        self.entries.move_to_end(key)
        while self.size > self.limit and len(self.entries) > 1:
            self.size -= _bytes(self.entries.popitem(last=False)[1])
        return found  # type: ignore[return-value]


def _bytes(arrays: Arrays) -> int:
    return ENTRY + sum(array.nbytes for array in arrays)
