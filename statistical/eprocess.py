"""Anytime-valid tests of a law from drawn ids: e-processes, streaming, in log space, mergeable.

Signatures that other code may rely on::

    KnownLaw(probs, partitions=None).observe(ids) -> log_e
    TwoSample(partitions).observe(reference_ids, ids) -> log_e
    LikelihoodRatio(probs, alternatives).observe(ids) -> log_e
    each: .log_e, .draws, .evidence() -> {name: log_e}, .strongest() -> name, .merge(other)
    log_mean_e(log_es, weights=None) -> log_e         (several tests, any dependence)
    Mixture(masses, priors).log_e(counts) -> log_e    (counts of cells of known masses)

An e-process starts at 1 and, under the null, its expectation at any stopping time is at most 1. By
Ville's inequality it ever reaches ``1 / alpha`` with probability at most ``alpha``: one may look
after every draw, stop when it is reached and go on when it is not. All values here are natural
logarithms; reject when ``log_e >= -log(alpha)`` (`aliquot.statistical.ledger.Ledger.reject_e`).

Each class is an average of e-processes, over partitions of the vocabulary and priors or over named
alternatives, so it is one e-process and needs one share of alpha. State is sums only: shards that
drew independently are merged by adding, in any order.

Sources: Ville 1939; Shafer 2021 (testing by betting); Vovk and Wang 2021 (averages of e-values);
Gruenwald, de Heide, Koolen 2024 (safe testing); Turner, Ly, Gruenwald 2024 (two-sample blocks).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import special

from aliquot.statistical.partitions import Partition, default_partitions

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

FIRST_BLOCK = 64
BLOCK_GROWTH = 8
DOUBT = 0.01


@dataclass(frozen=True)
class Prior:
    """Dirichlet prior of a mixture, relative to the null's cell masses.

    Attributes:
        concentration: sum of the Dirichlet parameters; large means close to the null.
        uniform: share of the parameters that is spread evenly over the cells instead of by mass.
    """

    concentration: float
    uniform: float = 0.0

    def parameters(self, masses: Floats) -> Floats:
        """Dirichlet parameters, float64 [cells]."""
        even = self.uniform / len(masses)
        return self.concentration * ((1 - self.uniform) * masses + even)


PRIORS = (
    Prior(8.0, uniform=0.5),
    Prior(64.0),
    Prior(512.0),
    Prior(4_096.0),
    Prior(32_768.0),
    Prior(262_144.0),
    Prior(2_097_152.0),
)


def log_mean_e(log_es: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Logarithm of the weighted average of e-values: an e-value, whatever their dependence.

    Args:
        log_es: float64 [k], natural logarithms.
        weights: float64 [k], relative and positive; equal by default.
    """
    values = np.asarray(log_es, dtype=np.float64)
    if not values.size:
        return 0.0
    shares = np.ones(values.size) if weights is None else np.asarray(weights, dtype=np.float64)
    return float(special.logsumexp(values, b=shares / shares.sum()))


class Mixture:
    """Likelihood ratios of Dirichlet-mixture multinomials to one multinomial law over cells.

    Args:
        masses: float64 [cells], the null's cell probabilities; cells of mass 0 are left out.
        priors: mixing laws over multinomials; all are averaged.

    Each ratio is the product of ``predictive / mass`` over the draws in any order, hence a
    martingale under the null. The dense mixture lets all cells move; the sparse one averages over
    which single cell moves against all others together, and so pays ``log(cells)`` rather than
    a price for every cell.
    """

    def __init__(self, masses: npt.ArrayLike, priors: Sequence[Prior]) -> None:
        given = np.asarray(masses, dtype=np.float64)
        self.cells = len(given)
        self.possible = np.flatnonzero(given)
        self.masses = given[self.possible]
        self.totals = np.array([[prior.concentration] for prior in priors])
        self.parameters = np.stack([prior.parameters(self.masses) for prior in priors])
        tiny = np.finfo(np.float64).tiny
        self.other_parameters = np.maximum(self.totals - self.parameters, tiny)
        self.log_gammas = special.gammaln(self.parameters)
        self.log_masses = np.log(self.masses)
        self.log_rests = np.log1p(-np.minimum(self.masses, 1 - np.finfo(np.float64).epsneg))

    def log_e(self, counts: Counts) -> float:
        """Natural log of the average e-value of the cell counts, int64 [cells]."""
        dense = log_mean_e(self.dense(counts))
        return dense if len(self.possible) <= 2 else log_mean_e([dense, self.sparse(counts)])

    def dense(self, counts: Counts) -> Floats:
        """Natural log of the ratio for each prior, float64 [priors]."""
        seen = np.flatnonzero(counts[self.possible])
        drawn = counts[self.possible[seen]]
        gains = special.gammaln(self.parameters[:, seen] + drawn) - self.log_gammas[:, seen]
        fitted = gains.sum(axis=1) - drawn @ self.log_masses[seen]
        return np.asarray(fitted - self._log_rising(self.totals, drawn.sum(keepdims=True))[:, 0])

    def sparse(self, counts: Counts) -> float:
        """Natural log of the ratio averaged over priors and over the one cell that moves."""
        drawn = counts[self.possible]
        draws = drawn.sum(keepdims=True)
        rest = draws - drawn
        own = special.gammaln(self.parameters + drawn) - self.log_gammas
        others = self._log_rising(self.other_parameters, rest)
        null = drawn * self.log_masses + rest * self.log_rests
        return log_mean_e((own + others - self._log_rising(self.totals, draws) - null).ravel())

    @staticmethod
    def _log_rising(parameters: Floats, counts: Counts) -> Floats:
        return np.asarray(special.gammaln(parameters + counts) - special.gammaln(parameters))


class EProcess(ABC):
    """Average of named e-processes over one stream of draws.

    Attributes:
        draws: number of draws seen, of the sampler under test.
    """

    draws: int = 0

    @abstractmethod
    def evidence(self) -> dict[str, float]:
        """Natural log of each named e-process now."""

    @abstractmethod
    def weights(self) -> Sequence[float]:
        """Weight of each named e-process in the average, in the order of `evidence`."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add what another shard of the same test saw in independent draws.

        Raises:
            ValueError: the shards test different laws.
        """

    @property
    def log_e(self) -> float:
        """Natural log of the average e-value now; infinite after an impossible draw."""
        return log_mean_e(list(self.evidence().values()), self.weights())

    def strongest(self) -> str:
        """Name with the largest e-value, the likely cause; empty if there is none."""
        evidence = self.evidence()
        return max(evidence, key=lambda name: evidence[name]) if evidence else ""


class KnownLaw(EProcess):
    """E-process of drawn ids against a known law, averaged over partitions and priors.

    Args:
        probs: float64 [vocab], the law; normalised here.
        partitions: partitions of the vocabulary; `default_partitions` of the law by default.
        priors: Dirichlet mixtures to average, relative to the law.

    An id of probability 0, or outside the vocabulary, makes the e-value infinite at once.
    """

    def __init__(
        self,
        probs: npt.ArrayLike,
        partitions: Sequence[Partition] | None = None,
        priors: Sequence[Prior] = PRIORS,
    ) -> None:
        law = as_law(probs, "probs")
        self.partitions = tuple(default_partitions(law) if partitions is None else partitions)
        self.possible = law > 0
        self.mixtures = [Mixture(cell_masses(part, law), priors) for part in self.partitions]
        self.counts = [np.zeros(mixture.cells, np.int64) for mixture in self.mixtures]
        self.impossible = 0

    def observe(self, ids: npt.ArrayLike) -> float:
        """Add drawn ids, int of any shape, and return the log e-value."""
        tokens, counts, outside = tally(ids, self.possible)
        self.impossible += outside
        self.draws += outside + int(counts.sum())
        for total, part in zip(self.counts, self.partitions, strict=True):
            total += cell_counts(part, tokens, counts, len(total))
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the e-value on each partition."""
        if self.impossible:
            return {"support": math.inf}
        pairs = zip(self.mixtures, self.counts, strict=True)
        log_es = [mixture.log_e(counts) for mixture, counts in pairs]
        return dict(zip([part.name for part in self.partitions], log_es, strict=True))

    def weights(self) -> Sequence[float]:
        """Weights of the partitions."""
        return [1.0] if self.impossible else [part.weight for part in self.partitions]

    def merge(self, other: Self) -> None:
        """Add the cell counts of another shard of the same law."""
        if not self._tests_the_law_of(other):
            raise ValueError("merge: the other shard tests another law or other partitions")
        self.impossible += other.impossible
        self.draws += other.draws
        for mine, theirs in zip(self.counts, other.counts, strict=True):
            mine += theirs

    def _tests_the_law_of(self, other: Self) -> bool:
        names = [[part.name for part in shard.partitions] for shard in (self, other)]
        parameters = [[mix.parameters for mix in shard.mixtures] for shard in (self, other)]
        same = names[0] == names[1] and all(map(np.array_equal, *parameters))
        return same and np.array_equal(self.possible, other.possible)


class TwoSample(EProcess):
    """E-process that two streams of ids come from one law, which need not be known.

    Args:
        partitions: partitions of the vocabulary, chosen without the draws under test (from a law,
            or with `default_partitions` of the frequencies in a pilot of reference draws).
        priors: how strongly each sample's estimate is drawn towards the pooled one.

    Draws are taken in blocks. The estimates ``a`` and ``b`` of the two laws come from earlier
    blocks only; a block of ``m`` and ``n`` draws multiplies the e-value by the product of ``a/c`` over
    the first and ``b/c`` over the second, ``c = (m a + n b) / (m + n)``. Whatever the common law,
    its expectation is at most 1 by the weighted AM-GM inequality (Turner, Ly, Gruenwald 2024).
    """

    def __init__(self, partitions: Sequence[Partition], priors: Sequence[Prior] = PRIORS) -> None:
        if not partitions:
            raise ValueError("partitions: at least one is needed, none was given")
        sizes = [part.size for part in partitions]
        self.partitions = tuple(partitions)
        self.priors = tuple(priors)
        self.strengths = np.array([prior.concentration for prior in priors])[:, None, None]
        self.everything = np.ones(len(self.partitions[0].cells), dtype=np.bool_)
        self.counts = [np.zeros((2, size), dtype=np.int64) for size in sizes]
        self.log_es = np.zeros((len(self.partitions), len(self.priors)))

    def observe(self, reference_ids: npt.ArrayLike, ids: npt.ArrayLike) -> float:
        """Add ids of the reference and of the sampler under test; return the log e-value.

        Raises:
            ValueError: an id outside the vocabulary of the partitions.
        """
        samples = [np.asarray(sample).ravel() for sample in (reference_ids, ids)]
        longest = max(len(sample) for sample in samples)
        for start, stop in _blocks(self.draws, longest):
            shares = [_portion(sample, start / longest, stop / longest) for sample in samples]
            self._observe_block(shares)
            self.draws += len(shares[1])
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the e-value on each partition."""
        log_es = [log_mean_e(row) for row in self.log_es]
        return dict(zip([part.name for part in self.partitions], log_es, strict=True))

    def weights(self) -> Sequence[float]:
        """Weights of the partitions."""
        return [part.weight for part in self.partitions]

    def merge(self, other: Self) -> None:
        """Multiply in the e-values of another shard, and add its counts for later estimates."""
        names = [[part.name for part in shard.partitions] for shard in (self, other)]
        shapes = [[count.shape for count in shard.counts] for shard in (self, other)]
        if names[0] != names[1] or shapes[0] != shapes[1] or self.priors != other.priors:
            raise ValueError("merge: the other shard has other partitions or priors")
        self.log_es += other.log_es
        self.draws += other.draws
        for mine, theirs in zip(self.counts, other.counts, strict=True):
            mine += theirs

    def _observe_block(self, samples: Sequence[npt.NDArray[np.int64]]) -> None:
        tallies = [tally(sample, self.everything) for sample in samples]
        if any(outside for _, _, outside in tallies):
            raise ValueError(f"ids: all must lie in [0, {len(self.everything)})")
        for row, total, part in zip(self.log_es, self.counts, self.partitions, strict=True):
            sizes = total.shape[1]
            fresh = np.stack([cell_counts(part, t, k, sizes) for t, k, _ in tallies])
            row += _block_log_e(total, fresh, self.strengths)
            total += fresh


class LikelihoodRatio(EProcess):
    """E-process of named alternatives against a known law: finds a fault and names it.

    Args:
        probs: float64 [vocab], the law under the null; normalised here.
        alternatives: name to float64 [vocab], the law under that fault.
        doubt: share of the null mixed into each alternative, so that one draw which the
            alternative excludes does not end the bet on it.

    An id of probability 0 under the null makes the e-value of the alternatives that allow it
    infinite.
    """

    def __init__(
        self,
        probs: npt.ArrayLike,
        alternatives: Mapping[str, npt.ArrayLike],
        doubt: float = DOUBT,
    ) -> None:
        law = as_law(probs, "probs")
        if not 0 < doubt < 1:
            raise ValueError(f"doubt = {doubt}: must lie in (0, 1)")
        self.names = tuple(alternatives)
        self.vocabulary = np.ones(len(law), dtype=np.bool_)
        self.log_ratios = [
            _log_ratio(law, probs, doubt, name) for name, probs in alternatives.items()
        ]
        self.log_es = np.zeros(len(self.names))

    def observe(self, ids: npt.ArrayLike) -> float:
        """Add drawn ids, int of any shape, and return the log e-value."""
        tokens, counts, outside = tally(ids, self.vocabulary)
        if outside:
            raise ValueError(f"ids: all must lie in [0, {len(self.vocabulary)})")
        self.draws += int(counts.sum())
        self.log_es += [float(counts @ ratio[tokens]) for ratio in self.log_ratios]
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the likelihood ratio of each alternative."""
        return dict(zip(self.names, self.log_es.tolist(), strict=True))

    def weights(self) -> Sequence[float]:
        """Equal weights."""
        return [1.0] * len(self.names)

    def merge(self, other: Self) -> None:
        """Add the log ratios of another shard with the same laws."""
        same = self.names == other.names
        if not same or not all(map(np.array_equal, self.log_ratios, other.log_ratios)):
            raise ValueError("merge: the other shard tests another law or other alternatives")
        self.draws += other.draws
        self.log_es += other.log_es


def as_law(probs: npt.ArrayLike, name: str) -> Floats:
    """Law as float64 [vocab] that sums to 1; ValueError naming ``name`` if it is none."""
    law = np.asarray(probs, dtype=np.float64)
    total = float(law.sum())
    if law.ndim != 1 or not np.isfinite(total) or (law < 0).any() or total <= 0:
        raise ValueError(
            f"{name}: a law of shape [vocab] with finite, non-negative entries is allowed, "
            f"got shape {law.shape} with sum {total}"
        )
    return law / total


def tally(ids: npt.ArrayLike, possible: npt.NDArray[np.bool_]) -> tuple[Counts, Counts, int]:
    """Distinct possible ids, how often each was drawn, and how many ids were not possible.

    Args:
        ids: int, any shape.
        possible: bool [vocab].
    """
    drawn = np.asarray(ids)
    if drawn.size and drawn.dtype.kind not in "iu":
        raise ValueError(f"ids: integers are allowed, got {drawn.dtype}")
    drawn = drawn.astype(np.int64, copy=False).ravel()
    inside = drawn[(drawn >= 0) & (drawn < len(possible))]
    counts = np.bincount(inside, minlength=len(possible)) * possible
    tokens = np.flatnonzero(counts)
    kept = counts[tokens]
    return tokens, kept, drawn.size - int(kept.sum())


def cell_counts(partition: Partition, tokens: Counts, counts: Counts, size: int) -> Counts:
    """Counts by cell, int64 [size], from the counts of distinct tokens."""
    cells = partition.cells[tokens]
    return np.bincount(cells, weights=counts, minlength=size).astype(np.int64)


def cell_masses(partition: Partition, law: Floats) -> Floats:
    """Mass of each cell, float64 [cells]."""
    return np.bincount(partition.cells, weights=law).astype(np.float64)


def _log_ratio(law: Floats, alternative: npt.ArrayLike, doubt: float, name: str) -> Floats:
    other = as_law(alternative, f"alternative {name!r}")
    if other.shape != law.shape:
        raise ValueError(f"alternative {name!r}: shape {other.shape}, the law has {law.shape}")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(doubt + (1 - doubt) * (other / law))
    return np.where((law == 0) & (other == 0), 0.0, ratio)


def _blocks(seen: int, count: int) -> list[tuple[int, int]]:
    edges = [0]
    while edges[-1] < count:
        edges.append(edges[-1] + max(FIRST_BLOCK, (seen + edges[-1]) // BLOCK_GROWTH))
    return list(zip(edges[:-1], [*edges[1:-1], count], strict=True))


def _portion(sample: npt.NDArray[np.int64], start: float, stop: float) -> npt.NDArray[np.int64]:
    return sample[round(start * len(sample)) : round(stop * len(sample))]


def _block_log_e(seen: Counts, fresh: Counts, strengths: Floats) -> Floats:
    drawn = np.flatnonzero(fresh.any(axis=0))
    pooled = _pooled(seen, drawn)
    totals = seen.sum(axis=1, keepdims=True)
    laws = (seen[:, drawn] + strengths * pooled) / (totals + strengths)
    sizes = fresh.sum(axis=1)
    common = (sizes[:, None] * laws).sum(axis=1, keepdims=True) / sizes.sum()
    return np.asarray((fresh[:, drawn] * np.log(laws / common)).sum(axis=(1, 2)))


def _pooled(seen: Counts, drawn: npt.NDArray[np.intp]) -> Floats:
    cells = seen.shape[1]
    return np.asarray((seen[:, drawn].sum(axis=0) + 0.5) / (seen.sum() + 0.5 * cells))
