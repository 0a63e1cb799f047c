"""Causes by comparing answers: the same calls to the sampler under test and to every known faulty sampler.

Where a failure cannot be told from one row (the noise behind the draws, the batch's state, bad rows, refusals), the
known fault is likely whose sampler gives the same answers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import OracleBackend
from aliquot.conformance.backend import one_line
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.causes import Cause, Rows, error, explained, nearest
from aliquot.conformance.faults import FAULTS
from aliquot.conformance.faults.fault import Fault
from aliquot.contract.batch import BatchUpdate, LogprobsMode, Request
from aliquot.contract.output import SamplerOutput
from aliquot.oracle import batch_state

Call = Callable[[Any], Any]
FLAT = np.zeros(4096, dtype=np.float32)
SEED = 20_240_229
FEW = 12
MANY = 256


def of_answer(call: Call, seen: Any, faults: Iterable[Fault] | None = None) -> Cause | None:
    """The faults whose samplers answer the call as was seen."""
    chosen = FAULTS.values() if faults is None else faults
    same = [fault for fault in chosen if _answer(call, fault) == seen]
    return explained("the answer is the one that results", same)


def _answer(call: Call, fault: Fault) -> Any:
    try:
        return call(fault.make())
    except Exception as error:
        return one_line(error)


def of_sample(case: Case, seen: Any, read: Callable[[Any], Any]) -> Cause | None:
    """The faults whose samplers answer a case as was seen; `read` makes an output comparable."""
    return of_answer(lambda backend: read(_sampled(backend, case)), seen)


def token_ids(output: SamplerOutput) -> list[int]:
    """The sampled ids of an output."""
    return [int(t) for t in arrays.to_numpy(output.sampled_token_ids)[:, 0]]


def of_noise(case: Case, kind: str, noise: Any, ids: Sequence[int]) -> Cause | None:
    """The faults whose samplers draw the same tokens with the same noise."""

    def call(backend: OracleBackend) -> Any:
        backend.inject(np.asarray(noise, dtype=np.float64))
        drawn = token_ids(_sampled(backend, case))
        return (backend.last_noise()[0], drawn)

    drawing = [f for f in FAULTS.values() if f.draw or f.backend]
    return of_answer(call, (kind, list(ids)), drawing)


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
    "beside a filter": lambda b: _ids(b, _flat(seed=SEED), _flat(seed=5, top_k=1))[0] == _seeded(b),
    "equal seeds, first and second": lambda b: _agree(_ids(b, *[_flat(seed=SEED)] * 3)[:2]),
    "equal seeds, second and third": lambda b: _agree(_ids(b, *[_flat(seed=SEED)] * 3)[1:]),
    "unseeded beside seeded repeat": lambda b: _repeats(
        [_ids(b, _flat(seed=SEED), _flat())[1] for _ in range(FEW)]
    ),
}


def _seeded(backend: Any) -> int:
    return _ids(backend, _flat(seed=SEED))[0]


def _agree(ids: Sequence[int]) -> bool:
    return len(set(ids)) == 1


def of_probes(backend: Any) -> Cause | None:
    """The faults whose noise repeats where the backend's does, on rows where chance hardly repeats a token."""
    probes = PROBES | (SEED_PROBES if "seed" in backend.capabilities.parameters else {})
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
    return {name: probe(backend) for name, probe in (PROBES | SEED_PROBES).items()}


# The batch's state


@dataclass(frozen=True)
class Step:
    """One step of an engine: its logits [n, V], the update, the added output lists as they were, the tokens drawn."""

    logits: Any
    update: BatchUpdate | None
    added: tuple[list[int], ...]
    tokens: list[int]

    @staticmethod
    def of(logits: Any, update: BatchUpdate | None) -> "Step":
        """A step that begins; its tokens are appended as they are drawn."""
        added = () if update is None else tuple(list(out) for *_, out in update.added)
        return Step(logits, update, added, [])


def of_history(
    vocab: int, mode: LogprobsMode, steps: Sequence[Step], r: int, values: Rows
) -> Cause | None:
    """The stateful faults that, after the same history, show the values [V] seen in row `r` of the last step."""
    stateful = [fault for fault in FAULTS.values() if fault.backend]
    errors = [(_apart(f.make(), vocab, mode, steps, r, values), f) for f in stateful]
    contract = _apart(OracleBackend(), vocab, mode, steps, r, values)
    return explained(
        "the values after this history are those that result", nearest(errors, contract)
    )


def _apart(
    backend: Any, vocab: int, mode: LogprobsMode, steps: Sequence[Step], r: int, values: Rows
) -> float:
    shown = _replayed(backend, vocab, mode, steps)
    return error(shown[r].astype(np.float64), values) if shown.shape[1] == values.size else math.inf


def _replayed(backend: Any, vocab: int, mode: LogprobsMode, steps: Sequence[Step]) -> Any:
    """The values [n, V] of the last step, the tokens appended to output lists of the replay's own."""
    lists: dict[int, list[int]] = {}
    rows: dict[int, Request] = {}
    backend.start(vocab, mode)
    for step in steps:
        update = step.update
        if update is not None:
            added = [
                (row, params, prompt, lists.setdefault(id(out), list(before)))
                for (row, params, prompt, out), before in zip(update.added, step.added, strict=True)
            ]
            update = replace(update, added=added)
        rows = batch_state.apply_update(rows, update)
        output = backend.step(step.logits, update)
        for place, token in enumerate(step.tokens):
            rows[place].output_token_ids.append(token)
    return output.logprobs.values
