"""Rows made to hurt: ties, exact masses, huge gaps, odd sizes."""

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case, row
from aliquot.conformance.corpus import real

SIZES = (1, 2, 31, 32, 33, 1000, 32_000)
DYADIC = (0.5, 0.25, 0.125, 0.125)


def normal(vocab: int, seed: int, scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Logits N(0, scale), float32 [V]."""
    values = np.random.default_rng([vocab, seed]).normal(0.0, scale, vocab)
    return values.astype(np.float32)


def tied(vocab: int, seed: int, levels: int = 7) -> npt.NDArray[np.float32]:
    """Logits on few levels, so that most tokens are tied; float32 [V]."""
    chosen = np.random.default_rng([vocab, seed, levels]).integers(0, levels, vocab)
    return chosen.astype(np.float32)


def real_cases(corpus: str, most: int, **params: object) -> list[Case]:
    """The first `most` rows of a packaged corpus as cases with their own histories."""
    return [
        row(r.name, r.logits, dtype=r.dtype, prompt=r.prompt_token_ids,
            output=r.output_token_ids, **params)
        for r in real.rows(corpus)[:most]
    ]  # fmt: skip
