"""E-processes: no false alarm at any time, wrong samplers found and named, shards merge."""

import numpy as np
import pytest
from laws import ALPHA, LIMIT, SEED, draw, logits_of, reweighted, softmax, without_tail
from scipy import special

from aliquot.statistical import eprocess
from aliquot.statistical.eprocess import (
    PRIORS,
    KnownLaw,
    LikelihoodRatio,
    Mixture,
    Prior,
    TwoSample,
)
from aliquot.statistical.partitions import Partition, default_partitions, id_modulo

VOCAB = 4_096
LOGITS = logits_of(VOCAB)
LAW = softmax(LOGITS)
IDS = np.arange(VOCAB)

WRONG = {
    "temperature x1.1": (softmax(LOGITS / 1.1), 20_000, "mass rank"),
    "1 % of the tail lost": (without_tail(LAW, 0.01), 5_000, "tail"),
    "odd ids 6 % likelier": (reweighted(LAW, 1 + 0.06 * (IDS % 2)), 80_000, "id mod"),
    "one lane of 32 drawn half as often": (
        reweighted(LAW, 1 - 0.5 * (IDS % 32 == 7)),
        8_000,
        "id mod 32",
    ),
    "a block of 256 never drawn": (reweighted(LAW, (IDS // 256 != 5).astype(float)), 5_000, "id"),
    "best token doubled": (reweighted(LAW, 1.0 + (LAW.max() == LAW)), 20_000, "head identity"),
}


def test_dense_mixture_is_the_product_of_predictives():
    """The closed form equals predictive / mass multiplied draw by draw."""
    masses, prior = np.array([0.2, 0.3, 0.5]), Prior(7.0, uniform=0.25)
    parameters, seen, log_e = prior.parameters(masses), np.zeros(3, np.int64), 0.0
    for cell in [2, 2, 0, 1, 2, 0, 2]:
        predictive = (parameters[cell] + seen[cell]) / (parameters.sum() + seen.sum())
        log_e += np.log(predictive / masses[cell])
        seen[cell] += 1
    got = Mixture(masses, [prior]).dense(seen)[0]
    assert abs(got - log_e) < 100 * np.finfo(float).eps * special.gammaln(20)


@pytest.mark.parametrize("masses", [[0.1, 0.2, 0.7], [0.25, 0.75]])
def test_expected_e_value_is_one(masses):
    """Over all outcomes of four draws the e-value has expectation exactly 1."""
    mixture, cells = Mixture(masses, PRIORS), len(masses)
    total = 0.0
    for drawn in np.ndindex(*[cells] * 4):
        log_e = mixture.log_es(np.bincount(drawn, minlength=cells))[0]
        total += np.prod(np.array(masses)[list(drawn)]) * np.exp(log_e)
    scale = special.gammaln(max(prior.concentration for prior in PRIORS))
    assert abs(total - 1) < 8 * scale * np.finfo(float).eps


def test_partitions_are_tested_side_by_side():
    """Two partitions in one mixture have the e-values that each has alone."""
    masses, counts = [[0.2, 0.3, 0.5], [0.4, 0.0, 0.6, 0.0]], [[3, 1, 6], [2, 0, 8, 0]]
    both = Mixture(np.concatenate(masses), PRIORS, [3, 4]).log_es(np.concatenate(counts))
    alone = [
        Mixture(mass, PRIORS).log_es(np.array(count))[0]
        for mass, count in zip(masses, counts, strict=True)
    ]
    assert both.tolist() == alone


def test_null_crosses_no_more_often_than_alpha():
    """Of 200 null streams, looked at five times each, at most 5 % ever reach e = 20."""
    law = softmax(logits_of(64))
    crossed = 0
    for seed in range(200):
        test, ids = KnownLaw(law), draw(law, 1_000, seed)
        crossed += any(test.observe(part) >= np.log(20) for part in np.split(ids, 5))
    assert crossed <= 10


def test_null_passes_at_run_alpha():
    """A correct sampler is not rejected in 200,000 draws."""
    assert KnownLaw(LAW).observe(draw(LAW, 200_000, SEED)) < LIMIT


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_sampler_is_found(fault):
    """Each wrong sampler is rejected at 1e-6."""
    law, draws, _ = WRONG[fault]
    assert KnownLaw(LAW).observe(draw(law, draws, SEED)) >= LIMIT


@pytest.mark.parametrize("fault", WRONG)
def test_strongest_partition_points_at_the_fault(fault):
    """The partition with most evidence is the one made for the fault."""
    law, draws, partition = WRONG[fault]
    test = KnownLaw(LAW)
    test.observe(draw(law, draws, SEED))
    assert test.strongest().startswith(partition)


def test_impossible_id_is_infinite_evidence():
    """One id of probability 0 rejects at any alpha."""
    test = KnownLaw([0.5, 0.5, 0.0])
    test.observe([0, 1, 0, 2])
    assert (test.log_e, test.strongest()) == (np.inf, "support")


def test_law_of_one_token_gives_no_evidence():
    """A one-token law is neither kept nor rejected by draws of that token."""
    assert KnownLaw([0.0, 1.0]).observe([1, 1, 1]) == 0.0


def test_law_that_rounds_to_one_token_stays_finite():
    """Masses below the rounding of 1 give a finite e-value, large once such a token repeats."""
    test = KnownLaw([1.0, 1e-30, 1e-30, 1e-30])
    assert np.isfinite(test.observe([0] * 1_000))
    assert LIMIT < test.observe([1, 1, 2]) < np.inf


def test_merged_shards_equal_one_stream():
    """Cell counts of shards add up to the e-value of the whole stream."""
    ids = draw(LAW, 9_000, SEED)
    whole, shards = KnownLaw(LAW), [KnownLaw(LAW) for _ in range(3)]
    whole.observe(ids)
    for shard, part in zip(shards, np.split(ids, 3), strict=True):
        shard.observe(part)
    shards[0].merge(shards[1])
    shards[0].merge(shards[2])
    assert (shards[0].log_e, shards[0].draws) == (whole.log_e, whole.draws)


@pytest.mark.parametrize("other", [[0.6, 0.4], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
def test_shards_of_other_laws_do_not_merge(other):
    """Merging with a test of another law, vocabulary or set of partitions is refused."""
    with pytest.raises(ValueError, match="another law"):
        KnownLaw([0.5, 0.5]).merge(KnownLaw(other))


def test_average_of_e_values():
    """The log of the weighted mean, safe where the values themselves overflow."""
    assert eprocess.log_mean_e([5_000.0, 5_000.0], weights=[3.0, 1.0]) == 5_000.0


def test_two_sample_null_crosses_no_more_often_than_alpha():
    """Of 200 null pairs of streams at most 5 % ever reach e = 20."""
    law = softmax(logits_of(64))
    parts, crossed = default_partitions(law), 0
    for seed in range(200):
        test = TwoSample(parts)
        streams = zip(*(np.split(draw(law, 1_000, seed + s), 5) for s in (0, 10_000)), strict=True)
        crossed += any(test.observe(a, b) >= np.log(20) for a, b in streams)
    assert crossed <= 10


@pytest.mark.parametrize("fault", ["temperature x1.1", "1 % of the tail lost"])
def test_two_sample_finds_wrong_samplers(fault):
    """A wrong sampler differs from reference draws."""
    law, draws, _ = WRONG[fault]
    test = TwoSample(default_partitions(LAW))
    assert test.observe(draw(LAW, 3 * draws, 2), draw(law, 3 * draws, 3)) >= LIMIT


def test_two_sample_needs_no_law():
    """Partitions from a pilot of reference draws serve as well as those from a law."""
    pilot = np.bincount(draw(LAW, 20_000, 1), minlength=VOCAB)
    test = TwoSample(default_partitions(pilot))
    hot = draw(softmax(LOGITS / 1.1), 60_000, 3)
    assert test.observe(draw(LAW, 60_000, 2), hot) >= LIMIT


def test_two_sample_takes_unequal_samples():
    """Samples of unequal length are interleaved by share and still judged."""
    test = TwoSample([id_modulo(VOCAB, 2)])
    odd = draw(reweighted(LAW, 1 + 0.5 * (IDS % 2)), 5_000, 3)
    assert test.observe(draw(LAW, 20_000, 2), odd) >= LIMIT


def test_two_sample_expectation_is_at_most_one():
    """Over all outcomes of a block the factor has expectation at most 1, for several laws."""
    seen = np.array([[9, 1, 2], [1, 8, 3]])
    for law in ([1 / 3, 1 / 3, 1 / 3], [0.7, 0.2, 0.1], [0.05, 0.05, 0.9]):
        total = 0.0
        for a, b, c in np.ndindex(3, 3, 3):
            fresh = np.stack([np.bincount([a, b], minlength=3), np.bincount([c], minlength=3)])
            gains = eprocess.block_log_es(
                seen, fresh, np.array([2, 1]), np.array([[[4.0]]]), np.array([3, 3, 3])
            )
            factor = np.exp(gains.sum())
            total += law[a] * law[b] * law[c] * factor
        assert total <= 1 + 27 * 8 * np.finfo(float).eps


def test_two_sample_shards_multiply():
    """Merged shards have the product of the e-values, by partition and prior."""
    shards = [TwoSample([id_modulo(VOCAB, 2)]) for _ in range(2)]
    for seed, shard in enumerate(shards):
        shard.observe(draw(LAW, 2_000, seed), draw(LAW, 2_000, seed + 10))
    wanted = shards[0].log_es + shards[1].log_es
    shards[0].merge(shards[1])
    assert (shards[0].log_es == wanted).all()


def test_likelihood_ratio_names_the_fault():
    """Among named alternatives the fault in force has the largest ratio, and is rejected."""
    alternatives = {"hot": softmax(LOGITS / 1.05), "cold": softmax(LOGITS / 0.95)}
    test = LikelihoodRatio(LAW, alternatives)
    log_e = test.observe(draw(alternatives["hot"], 30_000, SEED))
    assert (log_e >= LIMIT, test.strongest()) == (True, "hot")


def test_likelihood_ratio_null_passes():
    """Under the null no alternative gains."""
    test = LikelihoodRatio(LAW, {"hot": softmax(LOGITS / 1.05)})
    assert test.observe(draw(LAW, 100_000, SEED)) < 0


def test_likelihood_ratio_expectation_is_one():
    """The ratio of one draw has expectation exactly 1 under the null."""
    law, other = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.6, 0.4])
    factors = []
    for token in range(3):
        test = LikelihoodRatio(law, {"other": other})
        factors.append(np.exp(test.observe([token])))
    assert abs(law @ factors - 1) < 16 * np.finfo(float).eps


def test_likelihood_ratio_shards_add():
    """Merged shards have the log ratio of the whole stream."""
    alternatives = {"hot": softmax(LOGITS / 1.05)}
    shards = [LikelihoodRatio(LAW, alternatives) for _ in range(2)]
    for seed, shard in enumerate(shards):
        shard.observe(draw(LAW, 500, seed))
    wanted = shards[0].log_es + shards[1].log_es
    shards[0].merge(shards[1])
    assert shards[0].log_es == wanted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KnownLaw([0.5, -0.5, 1.0]), "probs: a law"),
        (lambda: KnownLaw([0.5, 0.5]).observe([0.5]), "ids: integers"),
        (lambda: TwoSample([]), "partitions: at least one"),
        (lambda: TwoSample([id_modulo(4, 2)]).observe([0], [4]), r"must lie in \[0, 4\)"),
        (lambda: LikelihoodRatio([0.5, 0.5], {"x": [1.0]}), "alternative 'x': shape"),
        (lambda: LikelihoodRatio([0.5, 0.5], {}, doubt=0.0), "doubt = 0.0"),
    ],
)
def test_bad_input_is_named(make, message):
    """Input that is not allowed is refused by name."""
    with pytest.raises(ValueError, match=message):
        make()


def test_custom_partition_is_used():
    """A partition of the caller's own is tested and named."""
    part = Partition("first half", (IDS >= VOCAB // 2).astype(np.int32))
    test = KnownLaw(LAW, [part])
    test.observe(draw(reweighted(LAW, 1 + 0.2 * part.cells), 20_000, SEED))
    assert (test.strongest(), test.log_e >= -np.log(ALPHA)) == ("first half", True)
