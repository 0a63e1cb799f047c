"""Anytime-valid tests of a law from drawn ids: e-processes, streaming, in log space, mergeable.

Signatures that other code may rely on::

    KnownLaw(probs, partitions=None).observe(ids) -> log_e
    TwoSample(partitions).observe(reference_ids, ids) -> log_e
    LikelihoodRatio(probs, alternatives).observe(ids) -> log_e
    each: .log_e, .draws, .evidence() -> {name: log_e}, .strongest() -> name, .merge(other)
    log_mean_e(log_es, weights=None) -> log_e         (several tests, any dependence)
    Mixture(masses, priors).log_es(counts) -> log_e   (counts of cells of known masses)

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
    """Likelihood ratios of Dirichlet-mixture multinomials to a multinomial law, by partition.

    Args:
        masses: float64 [cells], the null's cell probabilities, one partition after the other;
            cells of mass 0 are left out.
        priors: mixing laws over multinomials; all are averaged.
        sizes: number of cells of each partition; one partition by default.

    Each ratio is the product of ``predictive / mass`` over the draws in any order, hence a
    martingale under the null. The dense mixture lets all cells move; the sparse one averages over
    which single cell moves against all others together, and so pays ``log(cells)`` rather than
    a price for every cell.
    """

    def __init__(
        self, masses: npt.ArrayLike, priors: Sequence[Prior], sizes: Sequence[int] | None = None
    ) -> None:
        given = np.asarray(masses, dtype=np.float64)
        self.possible = np.flatnonzero(given)
        self.masses = given[self.possible]
        edges = np.cumsum([0, *(sizes or [len(given)])])
        self.starts = np.searchsorted(self.possible, edges[:-1])
        self.sizes = np.diff([*self.starts, len(self.possible)])
        self.totals = np.array([[prior.concentration] for prior in priors])
        parts = np.split(self.masses, self.starts[1:])
        self.parameters = np.array(
            [np.concatenate([prior.parameters(part) for part in parts]) for prior in priors]
        )
        tiny = np.finfo(np.float64).tiny
        self.other_parameters = np.maximum(self.totals - self.parameters, tiny)
        self.log_gammas = special.gammaln(self.parameters)
        self.other_log_gammas = special.gammaln(self.other_parameters)
        self.log_masses = np.log(self.masses)
        self.log_rests = np.log1p(-np.minimum(self.masses, 1 - np.finfo(np.float64).epsneg))

    def log_es(self, counts: Counts) -> Floats:
        """Natural log of the average e-value of the cell counts, float64 [partitions].

        Args:
            counts: int64 [cells]; every partition holds the same draws.
        """
        gains, norm, drawn = self._gains(counts)
        dense = self._mean(np.add.reduceat(gains, self.starts, axis=1) - norm)
        rest = int(drawn[: self.sizes[0]].sum()) - drawn
        others = special.gammaln(self.other_parameters + rest) - self.other_log_gammas
        by_cell = self._mean(gains + others - rest * self.log_rests - norm)
        peak = np.maximum.reduceat(by_cell, self.starts)
        scaled = np.exp(by_cell - np.repeat(peak, self.sizes))
        sparse = peak + np.log(np.add.reduceat(scaled, self.starts) / self.sizes)
        both = np.logaddexp(dense, sparse) - math.log(2)
        return np.where(self.sizes > 2, both, dense)

    def dense(self, counts: Counts) -> Floats:
        """Natural log of the dense mixture alone, float64 [partitions]."""
        gains, norm, _ = self._gains(counts)
        return self._mean(np.add.reduceat(gains, self.starts, axis=1) - norm)

    def _gains(self, counts: Counts) -> tuple[Floats, Floats, Counts]:
        drawn = counts[self.possible]
        own = special.gammaln(self.parameters + drawn) - self.log_gammas
        draws = drawn[: self.sizes[0]].sum()
        norm = special.gammaln(self.totals + draws) - special.gammaln(self.totals)
        return np.asarray(own - drawn * self.log_masses), np.asarray(norm), drawn

    @staticmethod
    def _mean(log_es: Floats) -> Floats:
        return np.asarray(special.logsumexp(log_es, axis=0) - math.log(len(log_es)))


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
        self.cells = Cells(self.partitions)
        masses = [cell_masses(part, law) for part in self.partitions]
        self.masses = np.concatenate([np.zeros(0), *masses])
        self.mixture = Mixture(self.masses, priors, self.cells.sizes) if masses else None
        self.counts = np.zeros(sum(self.cells.sizes), dtype=np.int64)
        self.impossible = 0

    def observe(self, ids: npt.ArrayLike) -> float:
        """Add drawn ids, int of any shape, and return the log e-value."""
        tokens, counts, outside = tally(ids, self.possible)
        self.impossible += outside
        self.draws += outside + int(counts.sum())
        self.counts += self.cells.count(tokens, counts)
        return self.log_e

    def evidence(self) -> dict[str, float]:
        """Natural log of the e-value on each partition."""
        if self.impossible:
            return {"support": math.inf}
        log_es = self.mixture.log_es(self.counts).tolist() if self.mixture else []
        return dict(zip(self.cells.names, log_es, strict=True))

    def weights(self) -> Sequence[float]:
        """Weights of the partitions."""
        return [1.0] if self.impossible else [part.weight for part in self.partitions]

    def merge(self, other: Self) -> None:
        """Add the cell counts of another shard of the same law."""
        if not self._tests_the_law_of(other):
            raise ValueError("merge: the other shard tests another law or other partitions")
        self.impossible += other.impossible
        self.draws += other.draws
        self.counts += other.counts

    def _tests_the_law_of(self, other: Self) -> bool:
        same = self.cells.names == other.cells.names and np.array_equal(self.masses, other.masses)
        return same and np.array_equal(self.possible, other.possible)


class TwoSample(EProcess):
    """E-process that two streams of ids come from one law, which need not be known.

    Args:
        partitions: partitions of the vocabulary, chosen without the draws under test (from a law,
            or with `default_partitions` of the frequencies in a pilot of reference draws).
        priors: how strongly each sample's estimate is drawn towards the pooled one.

    Draws are taken in blocks. The estimates ``a`` and ``b`` of the two laws come from earlier
    blocks only; a block of ``m`` and ``n`` draws multiplies the e-value by the product of ``a/c``
    over the first and ``b/c`` over the second, ``c = (m a + n b) / (m + n)``. Whatever the common
    law, its expectation is at most 1 by the weighted AM-GM inequality (Turner, Ly, Gruenwald 2024).
    """

    def __init__(self, partitions: Sequence[Partition], priors: Sequence[Prior] = PRIORS) -> None:
        if not partitions:
            raise ValueError("partitions: at least one is needed, none was given")
        self.partitions = tuple(partitions)
        self.cells = Cells(self.partitions)
        self.priors = tuple(priors)
        self.strengths = np.array([prior.concentration for prior in priors])[:, None, None]
        self.everything = np.ones(len(self.partitions[0].cells), dtype=np.bool_)
        self.counts = np.zeros((2, sum(self.cells.sizes)), dtype=np.int64)
        self.log_es = np.zeros((len(self.priors), len(self.partitions)))

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
        log_es = special.logsumexp(self.log_es, axis=0) - math.log(len(self.priors))
        return dict(zip(self.cells.names, log_es.tolist(), strict=True))

    def weights(self) -> Sequence[float]:
        """Weights of the partitions."""
        return [part.weight for part in self.partitions]

    def merge(self, other: Self) -> None:
        """Multiply in the e-values of another shard, and add its counts for later estimates."""
        same = self.cells.names == other.cells.names and self.cells.sizes == other.cells.sizes
        if not same or self.priors != other.priors:
            raise ValueError("merge: the other shard has other partitions or priors")
        self.log_es += other.log_es
        self.draws += other.draws
        self.counts += other.counts

    def _observe_block(self, samples: Sequence[npt.NDArray[np.int64]]) -> None:
        tallies = [tally(sample, self.everything) for sample in samples]
        if any(outside for _, _, outside in tallies):
            raise ValueError(f"ids: all must lie in [0, {len(self.everything)})")
        fresh = np.stack([self.cells.count(tokens, counts) for tokens, counts, _ in tallies])
        sizes = np.array([counts.sum() for _, counts, _ in tallies])
        gains = block_log_es(self.counts, fresh, sizes, self.strengths, self.cells.size_of_cell)
        self.log_es += np.add.reduceat(gains, self.cells.starts, axis=1)
        self.counts += fresh


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


class Cells:
    """Cells of several partitions, one partition after the other.

    Attributes:
        names: of the partitions.
        sizes: number of cells of each.
        starts: first cell of each, int64 [partitions].
        size_of_cell: int64 [cells], the size of the partition that each cell belongs to.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self.partitions = partitions
        self.names = [part.name for part in partitions]
        self.sizes = [part.size for part in partitions]
        self.starts = np.cumsum([0, *self.sizes[:-1]])
        self.size_of_cell = np.repeat(self.sizes, self.sizes)

    def count(self, tokens: Counts, counts: Counts) -> Counts:
        """Counts by cell, int64 [cells], from the counts of distinct tokens."""
        parts = [
            np.bincount(part.cells[tokens], weights=counts, minlength=size).astype(np.int64)
            for part, size in zip(self.partitions, self.sizes, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


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


def block_log_es(
    seen: Counts, fresh: Counts, sizes: Counts, strengths: Floats, size_of_cell: Counts
) -> Floats:
    """Log e-value that each cell adds for a block of two samples, float64 [priors, cells].

    Args:
        seen: int64 [2, cells], counts of earlier blocks.
        fresh: int64 [2, cells], counts of this block.
        sizes: int64 [2], draws of this block.
        strengths: float64 [priors, 1, 1], weight of the pooled estimate, in draws.
        size_of_cell: int64 [cells], cells of the partition of each cell.
    """
    draws = seen[:, : size_of_cell[0]].sum(axis=1)
    pooled = (seen.sum(axis=0) + 0.5) / (draws.sum() + 0.5 * size_of_cell)
    laws = (seen + strengths * pooled) / (draws[:, None] + strengths)
    common = (sizes[:, None] * laws).sum(axis=1, keepdims=True) / sizes.sum()
    return np.asarray((fresh * np.log(laws / common)).sum(axis=1))
