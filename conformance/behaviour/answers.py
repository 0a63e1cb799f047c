"""Single answers: errors, wrong forms, ids that chance does not decide, and logprobs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.backend import one_line
from aliquot.conformance.case import Case, row
from aliquot.conformance.causes import Cause, explained, merged, of_draws, of_reported
from aliquot.conformance.faults import FAULTS
from aliquot.conformance.faults.fault import Fault
from aliquot.contract.output import SamplerOutput

Call = Callable[[Any], Any]
MOST_ROWS = 64
MANY = 4096


def of_answer(call: Call, backend: Any, faults: Iterable[Fault] | None = None) -> Cause | None:
    """The faults whose samplers answer a call as the backend does and the oracle does not."""
    seen = _answer(call, backend)
    if seen == _answer(call, OracleBackend()):
        return None
    chosen = FAULTS.values() if faults is None else faults
    same = [fault for fault in chosen if _answer(call, fault.make()) == seen]
    return explained("the answer is the one that results", same)


def _answer(call: Call, backend: Any) -> Any:
    try:
        return call(backend)
    except Exception as error:
        return one_line(error)


def of_call(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares errors, wrong forms, and the ids of rows that leave no choice."""
    part = case.only(list(range(min(len(case.requests), MOST_ROWS))))
    return of_answer(
        lambda b: (_answer(lambda x: _certain(x, part), b), [_bad_id(b, bad) for bad in BAD]),
        backend,
    )


BAD = (
    row("NaN beside a steep row", [0.0, np.nan, 40.0, 1.0]),
    row("NaN above negative logits", [np.nan, -40.0, -80.0, -90.0]),
    row("NaN beside nothing", [-np.inf, np.nan, -np.inf]),
    row("nothing", [-np.inf] * 4),
    row("masks that leave nothing", [3.0, 2.0, 1.0], allowed_token_ids=[2], bad_words=((2,),)),
)


def _bad_id(backend: Any, bad: Case) -> Any:
    return _answer(lambda b: token_ids(sampled(b, bad)), backend)


def _certain(backend: Any, case: Case) -> Any:
    output = sampled(backend, case)
    form = replace(DECLARED, profile=replace(DECLARED.profile, id_dtype="int64"))
    everything = frozenset(range(len(case.requests)))
    try:
        arrays.read(output, case, form, everything)
    except arrays.FormError as error:
        return error.clause, error.got
    ids = token_ids(output)
    return [t for t, q in zip(ids, case.requests, strict=True) if q.params.top_k == 1 or t < 0]


def of_id(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares where many draws leave the vocabulary, or rows are marked that need not be."""

    part = case.only(list(range(min(len(case.requests), MOST_ROWS))))
    return merged(
        of_answer(lambda b: _outside(token_ids(sampled(b, part)), case.vocab_size), backend),
        of_answer(lambda b: _outside(token_ids(sampled(b, EVEN)), 5), backend, drawing()),
    )


EVEN = row("even", np.zeros(5, np.float32)).tiled(MANY)


def _outside(ids: Sequence[int], vocab_size: int) -> set[int]:
    return {t for t in ids if not 0 <= t < vocab_size}


def drawing() -> list[Fault]:
    """The faults that draw in another way."""
    return [f for f in FAULTS.values() if f.draw or f.backend]


def of_token(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the id of a greedy row."""
    if not case.requests[r].params.greedy:
        return None
    token = token_ids(sampled(backend, case))[r]
    return of_draws(case, r, np.array([token]), backend.capabilities, copies=1)


def of_logprobs(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the logprobs and the rank beside the sampled token."""
    output = sampled(backend, case)
    answer = arrays.read(output, case, backend.capabilities)
    if answer.logprobs is None:
        return None
    return of_reported(case, r, answer, backend.capabilities)


def token_ids(output: SamplerOutput) -> list[int]:
    """The sampled ids of an output."""
    return [int(t) for t in arrays.to_numpy(output.sampled_token_ids)[:, 0]]


def sampled(backend: Any, case: Case) -> SamplerOutput:
    """A backend's output for a case, as it comes."""
    output: SamplerOutput = backend.sample(
        arrays.logits_for(case, backend.capabilities), case.batch()
    )
    return output
