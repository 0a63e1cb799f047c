"""Rows made to hurt: ties, exact masses, huge gaps, odd sizes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case, row
from aliquot.conformance.corpus import real
from aliquot.contract.params import SamplingParams

SIZES = (1, 2, 31, 32, 33, 1000, 32_000)


WIDE = (128_256, 262_144, 65_537, 151_936, 163_840)
"""Vocabularies of large models, those first that a small tier looks at."""


def normal(vocab: int, seed: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Logits N(0, scale), float32 [V]."""
    values = np.random.default_rng([vocab, seed]).normal(0.0, scale, vocab)
    return values.astype(np.float32)


def tied(vocab: int, seed: int, levels: int = 7) -> npt.NDArray[np.float32]:
    """Logits on few levels, so that most tokens are tied; float32 [V]."""
    chosen = np.random.default_rng([vocab, seed, levels]).integers(0, levels, vocab)
    return chosen.astype(np.float32)


def odd_rows(vocab: int) -> dict[str, npt.NDArray[np.float32]]:
    """Rows whose values are rare and legal, float32 [V] each: subnormals, huge gaps, whole stretches of -inf."""
    plain, quarter, ids = normal(vocab, 91, 2.0), vocab // 4, np.arange(vocab)
    gapped = np.where(ids == vocab - 1, 1e4, plain)
    extreme = np.select([ids == vocab // 2, ids == 1], [3e38, -3e38], plain)
    rows = {
        "subnormal": ids * 2.0**-149,
        "gap of 1e4": gapped,
        "gap of 3e38": extreme,
        "ties at 3e38": np.where(ids % 3, plain, 3e38),
        "first tile masked": np.where(ids < quarter, -np.inf, plain),
        "last tile masked": np.where(ids >= vocab - quarter, -np.inf, plain),
        "all but one masked": np.where(ids == vocab - 2, plain, -np.inf),
        "every other masked": np.where(ids % 2, -np.inf, plain),
        "tail masked": np.where(plain < np.sort(plain)[-8], -np.inf, plain),
        "all equal": np.full(vocab, -3.25),
        "dyadic masses": -np.log(2) * (ids % 11),
    }
    return {name: values.astype(np.float32) for name, values in rows.items()}


POOL: tuple[dict[str, Any], ...] = (
    {},
    {"temperature": 0.0},
    {"temperature": 0.6, "top_k": 5},
    {"top_p": 0.7, "min_p": 0.05},
    {"presence_penalty": 1.5, "frequency_penalty": 0.5},
    {"repetition_penalty": 1.8, "temperature": 0.0},
    {"min_tokens": 3, "eos_token_id": 2, "stop_token_ids": (7,)},
    {"logit_bias": {1: 4.0, 9: -3.0}},
    {"allowed_token_ids": (1, 4, 6, 8)},
    {"bad_words": ((3,), (5, 6))},
)


def request_params(number: int) -> SamplingParams:
    """Parameters of the pool in turn, every request showing its whole row."""
    return SamplingParams(logprobs=-1, **POOL[number % len(POOL)])


def exact_mass_cases(most: int, rule: str = "stop") -> list[Case]:
    """Rows with probabilities n_k 2^-k, exact in float32, and a p that the first levels reach exactly.

    Only rows whose mass in float64 lies at or above p are taken, for the rule `one_more` at or below: there a
    sampler departs from its rule only by rounding.
    """
    found: list[Case] = []
    seen: set[tuple[bytes, float]] = set()
    for counts, levels in _halvings() if rule == "stop" else _halves():
        logits = np.repeat(levels, counts)
        for level in range(1, len(counts)):
            case = _exact(logits, int(counts[:level].sum()), len(found), rule)
            if case is None or (key := (logits.tobytes(), case.requests[0].params.top_p)) in seen:
                continue
            seen.add(key)
            found.append(case)
        if len(found) >= most:
            break
    return found[:most]


def _halvings() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """Random numbers of tokens, each level half as likely as the one before; -k ln 2 rounds down."""
    rng = np.random.default_rng(2)
    while True:
        counts = rng.integers(1, 5, size=rng.integers(2, 6))
        total = int((counts * 2 ** np.arange(len(counts))[::-1]).sum())
        last = len(counts) - 1
        counts[last] += (1 << (total - 1).bit_length()) - total
        yield counts, (-np.log(2) * np.arange(len(counts))).astype(np.float32)


def _halves() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """Two levels, the second just above half as likely as the first: -ln 2 rounded up."""
    up = np.nextafter(np.float32(-np.log(2)), np.float32(0))
    for total in 2 ** np.arange(3, 12):
        for first in range(1, total // 2):
            yield np.array([first, total - 2 * first]), np.array([0, up], dtype=np.float32)


def _exact(logits: npt.NDArray[np.float32], before: int, number: int, rule: str) -> Case | None:
    rounded = np.exp(logits, dtype=np.float32)
    weights = np.exp(logits.astype(np.float64))
    p = float(rounded[:before].sum() / rounded.sum())
    exact = np.log2(rounded) == np.round(np.log2(rounded))
    surplus = weights[:before].sum() - p * weights.sum()
    if not exact.all() or p >= 1 or (surplus < 0 if rule == "stop" else surplus > 0):
        return None
    return row(f"exact mass {number}", logits, top_p=p)


def real_cases(corpus: str, most: int, **params: Any) -> list[Case]:
    """The first `most` rows of a packaged corpus as cases with their own histories."""
    return [
        row(r.name, r.logits, dtype=r.dtype, prompt=r.prompt_token_ids,
            output=r.output_token_ids, **params)
        for r in real.rows(corpus)[:most]
    ]  # fmt: skip
