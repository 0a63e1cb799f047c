"""One question: a batch as a file holds it, with what else a program needs to answer for it."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays
from aliquot.conformance.case import Case, changed, plain
from aliquot.contract.batch import LOGPROBS_MODES, Batch, BatchUpdate, Request

IDS, DRAWS, KEPT, LOGPROBS, GIVEN = "ids", "draws", "kept", "logprobs", "given"
REPLAYS = ("inverse_cdf", "exponential_race")
KINDS = (IDS, DRAWS, *REPLAYS, KEPT, *LOGPROBS_MODES, LOGPROBS, GIVEN)
"""What may be asked of a case. The four logprobs modes ask for whole rows in that mode."""

RANDOM = frozenset({IDS, LOGPROBS, *REPLAYS})
"""Kinds that ask for new draws each time that a check asks."""

Values = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """A case, and for some kinds its noise, the tokens given, or the change since the step before.

    `noise` is float64 [draws, n] for `inverse_cdf` and float32 [draws, n, V] for `exponential_race`; `tokens`
    int64 [n]. `step` counts a history's steps from 0; `update` is None where nothing changed.
    """

    case: Case
    noise: Values | None = None
    tokens: npt.NDArray[np.int64] | None = None
    step: int | None = None
    update: BatchUpdate | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that a program is given."""
        case = self.case
        told = {
            "logits": _sha(case.logits),
            "dtype": case.dtype,
            "rows": [request_of(request) for request in case.requests],
            "mode": case.mode if _asks(case) else None,
            "grammar": _sha(case.grammar_bitmask),
            "thinking": None if case.thinking is None else plain(asdict(case.thinking)),
            "noise": _sha(self.noise),
            "tokens": _sha(self.tokens),
            "step": self.step,
            "update": update_of(self.update),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def of_call(logits: Any, batch: Batch, **more: Any) -> Question:
    """The question that a call of a torch backend asks; output lists are copied as they are now."""
    requests = [replace(r, output_token_ids=list(r.output_token_ids)) for r in batch.requests]
    case = Case(
        name="",
        logits=arrays.to_numpy(logits.float()),
        requests=tuple(requests),
        dtype=str(logits.dtype).removeprefix("torch."),
        mode=batch.logprobs_mode,
        grammar_bitmask=batch.grammar_bitmask,
        thinking=batch.thinking,
    )
    return Question(case=case, **more)


def without_whole_rows(question: Question) -> Question:
    """The question with no logprobs asked for, where every row asks for its whole row."""
    requests = [replace(r, params=replace(r.params, logprobs=None)) for r in question.case.requests]
    return replace(question, case=replace(question.case, requests=tuple(requests)))


def request_of(request: Request) -> dict[str, Any]:
    """A request as JSON values: the parameters that are set, prompt and output."""
    return {
        "params": plain(changed(request.params)),
        "prompt_token_ids": [int(t) for t in request.prompt_token_ids or ()],
        "output_token_ids": [int(t) for t in request.output_token_ids],
    }


def update_of(update: BatchUpdate | None) -> dict[str, Any] | None:
    """A change of the batch as JSON values."""
    if update is None:
        return None
    return {
        "batch_size": update.batch_size,
        "removed": [int(r) for r in update.removed],
        "added": [int(added[0]) for added in update.added],
        "moved": [[int(a), int(b), how.value] for a, b, how in update.moved],
    }


def _asks(case: Case) -> bool:
    return case.batch().wants_logprobs


def _sha(values: Values | None) -> str | None:
    if values is None:
        return None
    digest = hashlib.sha256(f"{values.dtype} {values.shape} ".encode())
    digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()
