"""Causes by comparing answers: the same calls to the sampler under test and to every known faulty sampler.

Where a failure cannot be told from one row (the noise behind the draws, the batch's state, bad rows, refusals), the
known fault is likely whose sampler gives the same answers.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.backend import one_line
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.causes import (
    Cause,
    Rows,
    error,
    explained,
    merged,
    nearest,
    of_draws,
    of_reported,
)
from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.faults import FAULTS
from aliquot.conformance.faults.fault import Fault
from aliquot.contract.batch import Added, BatchUpdate, MoveDirectionality, Request
from aliquot.contract.output import SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.oracle import batch_state

RAISED = (Exception, SystemExit, GeneratorExit)
Call = Callable[[Any], Any]
FLAT = np.zeros(4096, dtype=np.float32)
SEED = 20_240_229
FEW = 12
MANY = 256
MOST_ROWS = 64
VOCAB = 12


def suspected(backend: Any, clause_ids: Sequence[str], case: Case, r: int) -> Cause | None:
    """The faults that answer as the backend does, asked anew, where a check of these clauses failed at row `r`."""
    found = []
    for prefixes, explain in EXPLAINERS:
        if any(clause.startswith(prefixes) for clause in clause_ids):
            with contextlib.suppress(*RAISED):
                found.append(explain(backend, case, r))
    return merged(*found)


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
    return of_answer(lambda b: _certain(b, part), backend)


def _certain(backend: Any, case: Case) -> Any:
    output = _sampled(backend, case)
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
        of_answer(lambda b: _outside(token_ids(_sampled(b, part)), case.vocab_size), backend),
        of_answer(lambda b: _outside(token_ids(_sampled(b, EVEN)), 5), backend, _drawing()),
    )


EVEN = row("even", np.zeros(5, np.float32)).tiled(len(FLAT))


def _outside(ids: Sequence[int], vocab_size: int) -> set[int]:
    return {t for t in ids if not 0 <= t < vocab_size}


def _drawing() -> list[Fault]:
    return [f for f in FAULTS.values() if f.draw or f.backend]


def of_token(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the id of a greedy row."""
    if not case.requests[r].params.greedy:
        return None
    token = token_ids(_sampled(backend, case))[r]
    return of_draws(case, r, np.array([token]), backend.capabilities, copies=1)


def of_logprobs(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the logprobs and the rank beside the sampled token."""
    output = _sampled(backend, case)
    answer = arrays.read(output, case, backend.capabilities)
    if answer.logprobs is None:
        return None
    return of_reported(case, r, answer, backend.capabilities)


def of_noise(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the tokens that the same noise draws, from an even law, a steep one and one with masked ends."""
    if backend.capabilities.noise != "replayable":
        return None
    kind = _kind(backend)

    def draws(b: Any) -> Any:
        if _kind(b) != kind:
            return None
        return [_injected(b, probe, values) for probe in NOISE_CASES for values in NOISES[kind]]

    return of_answer(draws, backend, _drawing())


NOISE_CASES = (
    row("even", np.zeros(6, np.float32)),
    row("steep", [-19.0, -25.0, 0.0, -600.0, 0.5, 1.0]),
    row("masked ends", np.zeros(6, np.float32), allowed_token_ids=[2, 3]),
    row("rounded", [0.0, 5.0, 4.0, 0.0, 0.0, 0.0], top_k=2),
)
NOISES: dict[str, list[list[float]]] = {
    "inverse_cdf": [[u] for u in (0.0, 2.0**-40, 0.3, 0.5, 0.7, 0.9995, 1 - 2.0**-24, 1.0)],
    "gumbel": [
        [0.3, 1.1, -0.2, 2.0, 0.5, 0.1],
        [22.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 28.0, 0.0, 0.0, 0.0, 0.0],
        [np.inf, 1.0, 2.0, 0.0, 1.5, np.inf],
    ],
    "exponential_race": [
        [0.3, 1.1, 0.2, 2.0, 0.5, 0.1],
        [2.0**-32, 0.4, 1.0, 1.0, 1.0, 1.0],
        [0.0, 1.0, 2.0, 0.0, 1.5, 0.0],
    ],
}


def _kind(backend: Any) -> str:
    _sampled(backend, NOISE_CASES[0])
    return str(backend.last_noise()[0])


def _injected(backend: Any, case: Case, values: list[float]) -> int:
    noise = np.array(values, dtype=np.float64)
    backend.inject(noise if noise.size == 1 else noise[None])
    return token_ids(_sampled(backend, case))[0]


def token_ids(output: SamplerOutput) -> list[int]:
    """The sampled ids of an output."""
    return [int(t) for t in arrays.to_numpy(output.sampled_token_ids)[:, 0]]


def _sampled(backend: Any, case: Case) -> SamplerOutput:
    output: SamplerOutput = backend.sample(
        arrays.logits_for(case, backend.capabilities), case.batch()
    )
    return output


# The noise behind the draws


def _ids(backend: Any, *cases: Case) -> list[int]:
    case = cases[0] if len(cases) == 1 else stacked("probe", *cases)
    return token_ids(_sampled(backend, case))


def _flat(**params: Any) -> Case:
    return row("flat", FLAT, **params)


def _repeats(ids: Sequence[int]) -> bool:
    """Whether most of the ids are equal to another."""
    return len(set(ids)) <= len(ids) // 2


RISING = row("rising", np.linspace(0.0, 0.01, FLAT.size), seed=SEED)
PROBES: dict[str, Call] = {
    "rows repeat": lambda b: _repeats(_ids(b, *[_flat()] * FEW)),
    "many rows repeat": lambda b: _repeats(_ids(b, *[_flat()] * MANY)),
    "steps repeat": lambda b: _repeats([_ids(b, _flat())[0] for _ in range(FEW)]),
    "growing outputs repeat": lambda b: _repeats(
        [_ids(b, _flat(output=[0] * n))[0] for n in range(FEW)]
    ),
}
SEED_PROBES: dict[str, Call] = {
    "equal calls agree": lambda b: len({_seeded(b) for _ in range(4)}) == 1,
    "seeds repeat": lambda b: _repeats([_ids(b, _flat(seed=s))[0] for s in range(FEW)]),
    "seeds in one batch repeat": lambda b: _repeats(_ids(b, *(_flat(seed=s) for s in range(FEW)))),
    "high bits count": lambda b: _seeded(b) != _ids(b, _flat(seed=SEED + 2**40))[0],
    "steps of a seed repeat": lambda b: _repeats(
        [_ids(b, _flat(seed=SEED, output=[0] * n))[0] for n in range(FEW)]
    ),
    "first beside none": lambda b: _ids(b, _flat(seed=SEED), _flat())[0] == _seeded(b),
    "first beside seeded": lambda b: _ids(b, _flat(seed=SEED), _flat(seed=5))[0] == _seeded(b),
    "last beside seeded": lambda b: _ids(b, _flat(seed=5), _flat(seed=SEED))[1] == _seeded(b),
    "beside a filter": lambda b: _ids(b, RISING, _flat(seed=5, top_p=0.5))[0] == _ids(b, RISING)[0],
    "equal seeds, first and second": lambda b: _agree(_ids(b, *[_flat(seed=SEED)] * 3)[:2]),
    "equal seeds, second and third": lambda b: _agree(_ids(b, *[_flat(seed=SEED)] * 3)[1:]),
    "unseeded beside seeded repeat": lambda b: _repeats(
        [_ids(b, _flat(seed=SEED), _flat())[1] for _ in range(FEW)]
    ),
}


STATE_PROBES: dict[str, Call] = {
    "back after a pause": lambda b: _running(b, (1, (1,), ((1, 0),), ())),
    "moved to another row": lambda b: _running(
        b, (0, (0,), (), ((1, 0, MoveDirectionality.UNIDIRECTIONAL),))
    ),
}


def _running(backend: Any, change: tuple[int, Any, Any, Any]) -> bool:
    """Whether a seeded request, first in row 1, draws as alone after a change of the running batch."""
    place, removed, back, moved = change
    backend.start(FLAT.size, "raw_logprobs")
    outputs: list[list[int]] = [[], []]
    params = [SamplingParams(seed=s) for s in (5, SEED)]
    added: list[Added] = [(r, params[r], (), outputs[r]) for r in (0, 1)]
    _flat_step(backend, 2, BatchUpdate(batch_size=2, added=added))
    for output in outputs:
        output.append(0)
    if back:
        _flat_step(backend, 1, BatchUpdate(batch_size=1, removed=removed))
        outputs[0].append(0)
        update = BatchUpdate(batch_size=2, added=[added[1]])
    else:
        update = BatchUpdate(batch_size=1, removed=removed, moved=moved)
    drawn = _flat_step(backend, update.batch_size, update)[place]
    return drawn == _ids(backend, _flat(seed=SEED, output=[0]))[0]


def _flat_step(backend: Any, rows: int, update: BatchUpdate) -> list[int]:
    flat = stacked("probe", *[_flat()] * rows)
    return token_ids(backend.step(arrays.logits_for(flat, backend.capabilities), update))


def _seeded(backend: Any) -> int:
    return _ids(backend, _flat(seed=SEED))[0]


def _agree(ids: Sequence[int]) -> bool:
    return len(set(ids)) == 1


def of_probes(backend: Any, case: Case, r: int) -> Cause | None:
    """The faults whose noise repeats where the backend's does, on rows where chance hardly repeats a token."""
    declared, probes = backend.capabilities, dict(PROBES)
    if "seed" in declared.parameters:
        probes |= SEED_PROBES | (STATE_PROBES if declared.stateful else {})
    seen = {name: probe(backend) for name, probe in probes.items()}
    if all(seen[name] == answer for name, answer in _right().items() if name in seen):
        return None
    same = [
        fault
        for fault in FAULTS.values()
        if (own := _probed(fault.name)) and all(own[name] == seen[name] for name in seen)
    ]
    return explained("tokens repeat where they then do", same)


@cache
def _right() -> dict[str, Any]:
    return _all_probes(OracleBackend())


@cache
def _probed(name: str) -> dict[str, Any] | None:
    """What the probes show of a fault; None for one that leaves noise alone."""
    fault = FAULTS[name]
    if not (fault.noise or fault.requests or fault.backend):
        return None
    return _all_probes(fault.make())


def _all_probes(backend: Any) -> dict[str, Any]:
    backend.reseed(1)
    return {name: probe(backend) for name, probe in (PROBES | SEED_PROBES | STATE_PROBES).items()}


# Rows in a batch

FILTERS: tuple[dict[str, Any], ...] = (
    {"top_k": 20},
    {"top_p": 0.7},
    {"min_p": 0.1, "temperature": 0.8},
    {"top_k": 50, "top_p": 0.8},
    {},
    {"temperature": 0.0},
)
CROWD = stacked(
    "crowd",
    *(
        row("row", np.round(normal(200, 900 + i), i % 3), **FILTERS[i % len(FILTERS)])
        for i in range(MOST_ROWS)
    ),
).asking("processed_logits", logprobs=-1)
"""Rows of many kinds, some with ties, whose values one call shows."""


def of_crowd(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares which tokens the rows of one large batch keep."""
    seen = _kept(backend)
    changing = [f for f in FAULTS.values() if f.requests or f.logits or f.profile or f.backend]
    if seen == _kept(OracleBackend()):
        return None
    words = "the rows of a batch keep what they then keep"
    return explained(words, [f for f in changing if _kept_by(f.name) == seen])


def _kept(backend: Any) -> bytes:
    shown = _sampled(backend, CROWD).logprobs
    values = np.zeros(0) if shown is None else arrays.to_numpy(shown.values)
    return np.packbits(values > -np.inf).tobytes()


@cache
def _kept_by(name: str) -> bytes:
    return _kept(FAULTS[name].make())


# The batch's state

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


Explainer = Callable[[Any, Case, int], Cause | None]
EXPLAINERS: tuple[tuple[tuple[str, ...], Explainer], ...] = (
    (("ERR", "IO06", "IO07", "IO09", "IO10"), of_call),
    (("IO08",), of_id),
    (("DRAW03", "DRAW04", "SEED"), of_probes),
    (("DRAW05", "DRAW06", "DRAW08", "DRAW09"), of_noise),
    (("INV03", "INV08"), of_crowd),
    (("STATE", "SEED"), of_state),
    (("LOGP", "RANK", "IO04"), of_logprobs),
    (("GREEDY", "MINP", "IO", "ALLOW", "BADW", "MINTOK", "BIAS", "GRAM", "PEN", "THINK"), of_token),
)


KINDS = {
    "independence": ("DRAW03", "DRAW04", "SEED"),
    "injected noise": ("DRAW05", "DRAW06", "DRAW08"),
    "state": ("STATE",),
    "bad input": ("ERR",),
    "form": ("IO06", "IO07", "IO08", "IO09", "IO10"),
    "relations": ("INV",),
}


def evidence_of(clause_ids: Sequence[str]) -> str:
    """The kind of evidence that the checks of these clauses go by, unless they say otherwise."""
    chosen = (kind for kind, prefixes in KINDS.items() if clause_ids[0].startswith(prefixes))
    return next(chosen, "exact")
