"""The requests of histories: single parameters first, then random combinations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case
from aliquot.conformance.corpus.crafted import POOL
from aliquot.contract.batch import LogprobsMode, Request
from aliquot.contract.params import SamplingParams

VOCAB = 12
KINDS = 48
SHARE, SEEDED = 0.3, 0.85
POSITIONS = 5
FLAT = 4.0
"""A temperature at which different noise rarely gives the same token."""

SINGLES: tuple[dict[str, Any], ...] = (
    *POOL,
    {"seed": 7, "temperature": FLAT},
    {"seed": -3, "temperature": FLAT},
    {"seed": 11, "bad_words": ((4, 5), (8, 9))},
)
PROMPTS = ((1, 4), (), (3, 3, 9), (5, 6))
Key = tuple[int, tuple[int, ...]]
"""What decides a request's row: the number of its kind, and its output."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of request: parameters and prompt."""

    params: SamplingParams
    prompt: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Requests:
    """KINDS kinds of request, and the logits that they meet, float32 [POSITIONS, VOCAB].

    A request's logits depend on the length of its output alone, so that equal keys have equal rows. With `shown`
    every request asks for its whole row in `mode`.
    """

    kinds: tuple[Kind, ...]
    logits: npt.NDArray[np.float32]
    mode: LogprobsMode
    shown: bool

    @classmethod
    def made(
        cls,
        rng: np.random.Generator,
        declared: frozenset[str],
        mode: LogprobsMode,
        shown: bool,
    ) -> "Requests":
        """Requests of declared parameters only, the simple kinds first."""
        asked = [*SINGLES, *(_combination(rng) for _ in range(KINDS - len(SINGLES)))]
        whole = {"logprobs": -1} if shown else {}
        kinds = tuple(
            Kind(_params({**params, **whole}, declared), PROMPTS[number % len(PROMPTS)])
            for number, params in enumerate(asked)
        )
        logits = rng.normal(0.0, 2.0, (POSITIONS, VOCAB)).astype(np.float32)
        return cls(kinds, logits, mode, shown)

    def case(self, name: str, keys: Sequence[Key]) -> Case:
        """A fresh batch of the requests with these keys, one row each."""
        requests = (
            Request(
                id=f"row {row}",
                params=self.kinds[kind].params,
                prompt_token_ids=self.kinds[kind].prompt,
                output_token_ids=list(output),
            )
            for row, (kind, output) in enumerate(keys)
        )
        return Case(
            name=name, logits=self.logits_of(keys), requests=tuple(requests), mode=self.mode
        )

    def logits_of(self, keys: Sequence[Key]) -> npt.NDArray[np.float32]:
        """Logits float32 [n, VOCAB] of the rows with these keys."""
        return self.logits[[len(output) % POSITIONS for _, output in keys]].reshape(-1, VOCAB)


def _params(params: Mapping[str, Any], declared: frozenset[str]) -> SamplingParams:
    return SamplingParams(**{name: value for name, value in params.items() if name in declared})


def _combination(rng: np.random.Generator) -> dict[str, Any]:
    """Each part with probability SHARE; token 0 is never masked, so that no row is left empty.

    Most have a seed: their tokens, and so what the oracle is asked, repeat from history to history.
    """
    made: dict[str, Any] = {}
    for part in PARTS:
        if rng.random() < SHARE:
            made |= part(rng)
    return made | ({"seed": int(rng.integers(-(2**40), 2**40))} if rng.random() < SEEDED else {})


def _real(rng: np.random.Generator, low: float, high: float) -> float:
    return round(float(rng.uniform(low, high)), 2)


def _tokens(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    """Distinct tokens other than 0."""
    return tuple(int(t) for t in rng.choice(np.arange(1, VOCAB), count, replace=False))


def _length(rng: np.random.Generator) -> dict[str, Any]:
    eos, *stops = _tokens(rng, 3)
    least = int(rng.integers(1, 6))
    return {"min_tokens": least, "eos_token_id": eos, "stop_token_ids": tuple(stops)}


def _words(rng: np.random.Generator) -> dict[str, Any]:
    single, *rest = _tokens(rng, 7)
    return {"bad_words": ((single,), *zip(rest[::2], rest[1::2], strict=True))}


PARTS: tuple[Callable[[np.random.Generator], dict[str, Any]], ...] = (
    lambda rng: {"temperature": (0.0, 0.5, 2.0)[int(rng.integers(3))]},
    lambda rng: {"top_k": int(rng.integers(1, 7))},
    lambda rng: {"top_p": _real(rng, 0.3, 0.95)},
    lambda rng: {"min_p": _real(rng, 0.01, 0.4)},
    lambda rng: {"presence_penalty": _real(rng, -2, 2)},
    lambda rng: {"frequency_penalty": _real(rng, -2, 2)},
    lambda rng: {"repetition_penalty": _real(rng, 0.5, 2)},
    lambda rng: {"logit_bias": {t: _real(rng, -5, 5) for t in _tokens(rng, 3)}},
    lambda rng: {"allowed_token_ids": (0, *_tokens(rng, 6))},
    _length,
    _words,
)
