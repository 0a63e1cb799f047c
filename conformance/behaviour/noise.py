"""The noise behind the draws: given the same, or seen in where tokens repeat."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import OracleBackend
from aliquot.conformance.behaviour.answers import Call, drawing, of_answer, sampled, token_ids
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.causes import Cause, explained
from aliquot.conformance.faults import FAULTS
from aliquot.contract.batch import Added, BatchUpdate, MoveDirectionality
from aliquot.contract.params import SamplingParams

FLAT = np.zeros(4096, dtype=np.float32)
SEED = 20_240_229
FEW = 12
MANY = 256


def of_noise(backend: Any, case: Case, r: int) -> Cause | None:
    """Compares the tokens that the same noise draws, from an even law, a steep one and one with masked ends."""
    if backend.capabilities.noise != "replayable":
        return None
    kind = _kind(backend)

    def draws(b: Any) -> Any:
        if _kind(b) != kind:
            return None
        return [_injected(b, probe, values) for probe in NOISE_CASES for values in NOISES[kind]]

    return of_answer(draws, backend, drawing())


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
    sampled(backend, NOISE_CASES[0])
    return str(backend.last_noise()[0])


def _injected(backend: Any, case: Case, values: list[float]) -> int:
    noise = np.array(values, dtype=np.float64)
    backend.inject(noise if noise.size == 1 else noise[None])
    return token_ids(sampled(backend, case))[0]


def _ids(backend: Any, *cases: Case) -> list[int]:
    case = cases[0] if len(cases) == 1 else stacked("probe", *cases)
    return token_ids(sampled(backend, case))


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
