"""The persistent batch, recomputed from scratch.

STATE01: an update is applied in the order removed, added, moved. STATE02: output ids are the
caller's own list. STATE03: an add replaces what stood there. STATE04: a unidirectional move empties
its source and overwrites its target. STATE05: a swap exchanges two rows, emptiness included.
STATE06: what a request gets depends on the rows alone, not on how they came about; STATE07: without
an update they stay. STATE08: a processor without an active request does nothing.
"""

from collections.abc import Mapping
from typing import Any

from aliquot.contract.batch import Batch, BatchError, BatchUpdate, MoveDirectionality, Request

CLAUSES = tuple(f"STATE{i:02d}" for i in range(1, 9))


def apply_update(rows: Mapping[int, Request], update: BatchUpdate | None) -> dict[int, Request]:
    """The requests by row after an update; the mapping given stays as it was.

    An added request takes its row's number as id.
    """
    out = dict(rows)
    if update is None:  # STATE07
        return out
    for index in update.removed:  # STATE01
        out.pop(index, None)
    for index, params, prompt, output in update.added:
        out[index] = Request(  # STATE03
            id=str(index),
            params=params,
            prompt_token_ids=prompt,
            output_token_ids=output,  # STATE02
        )
    for source, target, direction in update.moved:
        _move(out, source, target, direction)
    return out


def _move(rows: dict[int, Request], a: int, b: int, direction: MoveDirectionality) -> None:
    from_a, from_b = rows.pop(a, None), rows.pop(b, None)
    if from_a is not None:
        rows[b] = from_a  # STATE04
    if from_b is not None and direction is MoveDirectionality.SWAP:
        rows[a] = from_b  # STATE05


def batch_of(rows: Mapping[int, Request], vocab_size: int, **fields: Any) -> Batch:
    """A fresh batch of the requests by row (STATE06); `fields` are Batch's others.

    Raises BatchError unless the rows are 0 to n-1.
    """
    if sorted(rows) != list(range(len(rows))):
        raise BatchError(f"batch: rows are {sorted(rows)}, allowed is 0 to n-1 without gaps")
    requests = [rows[row] for row in range(len(rows))]  # STATE06 STATE08
    return Batch(requests=requests, vocab_size=vocab_size, **fields)
