"""The oracle's own answers in the form of a program's, as an example and for the test of the format itself."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

import aliquot
from aliquot.conformance.vectors.answers import REFUSED
from aliquot.conformance.vectors.question import DRAWS, GIVEN, IDS, LOGPROBS, REPLAYS
from aliquot.conformance.vectors.recorder import Entry
from aliquot.contract.output import Logprobs


def lines(entries: list[Entry]) -> Iterator[str]:
    """One line for the sampler, then one for each case."""
    yield json.dumps({"sampler": "oracle", "version": aliquot.__version__})
    for entry in entries:
        told: dict[str, Any] = {"case": entry.number}
        if entry.refused:
            told[REFUSED] = entry.refused
        told |= {kind: _answer(kind, entry, value) for kind, value in entry.answers.items()}
        yield json.dumps(told)


def _answer(kind: str, entry: Entry, value: Any) -> Any:
    if kind == IDS:
        return value.tolist()
    if kind in (DRAWS, *REPLAYS):
        return value.T.tolist()
    if kind == GIVEN:
        return {"values": _numbers(value.values[:, 0]), "ranks": value.ranks.tolist()}
    return _columns(entry, value) if kind == LOGPROBS else [_row(row) for row in value.values]


def _columns(entry: Entry, value: Logprobs) -> dict[str, Any]:
    assert entry.ids is not None
    return {
        "sampled": entry.ids.tolist(),
        "ids": value.token_ids.tolist(),
        "values": [_numbers(row) for row in value.values],
        "ranks": value.ranks.tolist(),
    }


def _row(values: Any) -> Any:
    """A whole row: its values, or only those that are not -inf where they are few."""
    kept = np.flatnonzero(values != -np.inf)
    if 2 * kept.size < values.size:
        return {"ids": kept.tolist(), "values": _numbers(values[kept])}
    return _numbers(values)


def _numbers(values: Any) -> list[float | None]:
    """Float32 with the nine digits that tell them apart; null for -inf."""
    return [None if x == -np.inf else float(f"{x:.9g}") for x in values.tolist()]
