"""Rows made to hurt: ties, exact masses, huge gaps, odd sizes."""

from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case, row
from aliquot.conformance.corpus import real

SIZES = (1, 2, 31, 32, 33, 1000, 32_000)


def normal(vocab: int, seed: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Logits N(0, scale), float32 [V]."""
    values = np.random.default_rng([vocab, seed]).normal(0.0, scale, vocab)
    return values.astype(np.float32)


def tied(vocab: int, seed: int, levels: int = 7) -> npt.NDArray[np.float32]:
    """Logits on few levels, so that most tokens are tied; float32 [V]."""
    chosen = np.random.default_rng([vocab, seed, levels]).integers(0, levels, vocab)
    return chosen.astype(np.float32)


def exact_mass_cases(most: int) -> list[Case]:
    """Rows with probabilities n_k 2^-k, exact in float32, and a p that the first levels reach exactly.

    Only rows whose mass in float64 lies at or above p are taken: there a sampler that stops at p keeps one
    more only by rounding.
    """
    rng = np.random.default_rng(2)
    found: list[Case] = []
    seen: set[tuple[bytes, float]] = set()
    while len(found) < most:
        counts = rng.integers(1, 5, size=rng.integers(2, 6))
        total = int((counts * 2 ** np.arange(len(counts))[::-1]).sum())
        last = len(counts) - 1
        counts[last] += (1 << (total - 1).bit_length()) - total
        levels = (-np.log(2) * np.arange(len(counts))).astype(np.float32)
        logits = np.repeat(levels, counts)
        for level in range(1, len(counts)):
            case = _exact(logits, int(counts[:level].sum()), len(found))
            if case is None or (key := (logits.tobytes(), case.requests[0].params.top_p)) in seen:
                continue
            seen.add(key)
            found.append(case)
    return found[:most]


def _exact(logits: npt.NDArray[np.float32], before: int, number: int) -> Case | None:
    rounded = np.exp(logits, dtype=np.float32)
    weights = np.exp(logits.astype(np.float64))
    p = float(rounded[:before].sum() / rounded.sum())
    exact = np.log2(rounded) == np.round(np.log2(rounded))
    if not exact.all() or p >= 1 or weights[:before].sum() < p * weights.sum():
        return None
    return row(f"exact mass {number}", logits, top_p=p)


def real_cases(corpus: str, most: int, **params: Any) -> list[Case]:
    """The first `most` rows of a packaged corpus as cases with their own histories."""
    return [
        row(r.name, r.logits, dtype=r.dtype, prompt=r.prompt_token_ids,
            output=r.output_token_ids, **params)
        for r in real.rows(corpus)[:most]
    ]  # fmt: skip
