"""Laws, wrong samplers and draws for the tests of the statistics."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SEED = 20240601
ALPHA = 1e-6
LIMIT = -np.log(ALPHA)


def logits_of(vocab: int, seed: int = SEED) -> Floats:
    """Logits N(0, 1)."""
    return np.random.default_rng(seed).normal(size=vocab)


def softmax(logits: Floats) -> Floats:
    """Law of a row."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def without_tail(law: Floats, mass: float) -> Floats:
    """Law that lost its least likely tokens of total mass at most ``mass``."""
    order = np.argsort(law)
    kept = law.copy()
    kept[order[np.cumsum(law[order]) <= mass]] = 0
    return kept / kept.sum()


def reweighted(law: Floats, factor: Floats) -> Floats:
    """Law with each token's probability multiplied by a factor, normalised."""
    return law * factor / (law * factor).sum()


def draw(law: Floats, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Draws by inverse CDF in float64."""
    uniform = np.random.default_rng(seed).random(count)
    support = np.flatnonzero(law)
    return support[np.searchsorted(np.cumsum(law[support])[:-1], uniform, side="right")]
