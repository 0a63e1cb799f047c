"""The batch's state: the values that every step of one history of updates shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import OracleBackend
from aliquot.conformance.case import Case, row
from aliquot.conformance.causes import Cause, Rows, error, explained, nearest
from aliquot.conformance.faults import FAULTS
from aliquot.contract.batch import Added, BatchUpdate, MoveDirectionality, Request
from aliquot.contract.params import SamplingParams
from aliquot.oracle import batch_state

VOCAB = 12

SWAP, ONE_WAY = MoveDirectionality.SWAP, MoveDirectionality.UNIDIRECTIONAL
ASKED: tuple[dict[str, Any], ...] = (
    {"presence_penalty": 1.5, "frequency_penalty": 0.5, "repetition_penalty": 1.3},
    {"logit_bias": {1: 4.0, 9: -3.0}, "top_k": 7},
    {"allowed_token_ids": (1, 4, 6, 8)},
    {"temperature": 0.6, "top_k": 5, "bad_words": ((3,), (5, 6))},
)
Update = tuple[Sequence[int], Sequence[tuple[int, int]], Sequence[tuple[int, int, Any]]]
SCRIPT: tuple[Update | None, ...] = (
    ((), ((0, 0), (1, 1), (2, 2)), ()),
    None,
    None,
    ((), (), ((0, 1, SWAP),)),
    None,
    ((), ((1, 0),), ()),
    None,
    ((0,), (), ((2, 0, ONE_WAY),)),
    ((), ((2, 3),), ()),
    ((), ((0, 1),), ()),
    None,
)
"""Removed rows, added (row, place in ASKED) and moves of each step; None for no update."""


def of_state(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the values of every step of one history of updates."""
    if not backend.capabilities.stateful:
        return None
    seen = _history(backend)
    errors = [(_apart(seen, _history(f.make())), f) for f in FAULTS.values() if f.backend]
    contract = _apart(seen, _history(OracleBackend()))
    words = "the values in a history of updates are those that result"
    return explained(words, nearest(errors, contract))


def _history(backend: Any) -> list[Rows]:
    """The processed logits of each step of the script, the tokens appended being the same for every sampler."""
    rng = np.random.default_rng(3)
    rows: dict[int, Request] = {}
    backend.start(VOCAB, "processed_logits")
    shown = []
    for step, told in enumerate(SCRIPT):
        update = None if told is None else _update(rows, *told)
        rows = batch_state.apply_update(rows, update)
        logits = rng.normal(size=(len(rows), VOCAB)).astype(np.float32)
        case = replace(row("step", logits[0]), logits=logits)
        output = backend.step(arrays.logits_for(case, backend.capabilities), update)
        shown.append(arrays.to_numpy(output.logprobs.values).astype(np.float64))
        for place, request in rows.items():
            request.output_token_ids.append((place + step) % VOCAB)
    return shown


def _update(
    rows: Mapping[int, Request],
    removed: Sequence[int],
    added: Sequence[tuple[int, int]],
    moved: Sequence[tuple[int, int, Any]],
) -> BatchUpdate:
    coming: list[Added] = [
        (r, SamplingParams(logprobs=-1, **ASKED[k]), (1, 4), []) for r, k in added
    ]
    left = (set(rows) - set(removed)) | {r for r, _ in added}
    size = len(left)
    return BatchUpdate(batch_size=size, removed=removed, added=coming, moved=moved)


def _apart(some: list[Rows], others: list[Rows]) -> float:
    return max(
        error(a, b) if a.shape == b.shape else math.inf for a, b in zip(some, others, strict=True)
    )
