"""Draws: the law, extreme noise, the far tail, seeds."""

import math

import pytest
import torch
from fast_cases import NEG, P, batch_of, logits_of, run, spread, tokens
from scipy import stats

from aliquot.fast.noise import hashed_words, unit_interval
from aliquot.fast.sampler import Sampler

TENTHS = logits_of([0.1, 0.2, 0.3, 0.4]).unsqueeze(0)


@pytest.mark.parametrize(
    ("u", "wanted"),
    [(0.0, 0), (0.09, 0), (0.11, 1), (0.29, 1), (0.31, 2), (0.59, 2), (0.61, 3), (1.0, 3)],
)
@pytest.mark.parametrize("widen", [lambda row: row, lambda row: spread(row[0]).unsqueeze(0)])
@pytest.mark.parametrize("params", [P(), P(top_k=4), P(top_p=0.9999)])
def test_inverse_cdf_in_id_order(u, wanted, widen, params):
    """The uniform u falls into the interval of the token whose cumulated probability first exceeds it."""
    assert tokens(widen(TENTHS), params, u=u) == [wanted]


@pytest.mark.parametrize("u", [0.0, 2.0**-53, 1 - 2.0**-53, 1.0])
@pytest.mark.parametrize("params", [P(), P(top_k=2), P(top_p=0.99), P(min_p=0.1)])
@pytest.mark.parametrize("fp64", [False, True])
def test_extreme_noise_never_draws_a_masked_token(u, params, fp64):
    """With masked tokens at both ends, noise of 0 and 1 gives one of the two allowed."""
    row = torch.full((1, 1000), NEG)
    row[0, [300, 700]] = 0.0
    sampler = Sampler(use_fp64_gumbel=fp64, noise_hook=lambda _, noise: torch.full_like(noise, u))
    assert tokens(row, params, sampler=sampler)[0] in (300, 700)


@pytest.mark.parametrize("params", [P(temperature=0.5), P(temperature=0.5, top_p=0.9)])
def test_a_logit_that_overflows_over_temperature_is_drawn(params):
    """The largest logit of a row, 3e38, is drawn, and beside it rows keep their own tokens."""
    row = torch.zeros(2, 300)
    row[0, 100], row[0, 200], row[1, 7] = 3e38, 2.9e38, 90.0
    assert tokens(row, params, P(temperature=0.7)) == [100, 7]


def test_far_tail_is_exact():
    """At a gap of 21 nats, u in the middle of the 200,000th tail token's interval draws it."""
    tail, wanted = 262_144, 200_000
    row = torch.full((1, tail + 1), -21.0)
    row[0, 0] = 0.0
    u = (1 + (wanted - 0.5) * math.exp(-21)) / (1 + tail * math.exp(-21))
    assert tokens(row, P(), u=u) == [wanted]


def test_far_tail_inside_the_heads_block():
    """A tail token that shares its block with the head, 21 nats below, is drawn at its place."""
    row = torch.full((1, 200), -21.0)
    row[0, 0] = 0.0
    u = (1 + 149.5 * math.exp(-21)) / (1 + 199 * math.exp(-21))
    assert tokens(row, P(), u=u) == [150]


@pytest.mark.parametrize("fp64", [False, True])
@pytest.mark.parametrize("params", [P(), P(seed=3)])
def test_law(fp64, params):
    """20,000 rows of (.6, .3, .1) give these frequencies; seeded rows differ by their position."""
    count = 20_000
    rows = logits_of([0.6, 0.3, 0.1]).expand(count, 3)
    outputs = [[0] * (i if params.seed else 0) for i in range(200)] if params.seed else None
    if outputs:
        seeds = [P(seed=s) for s in range(100) for _ in range(200)]
        outputs = outputs * 100
    sampler = Sampler(seed=7, use_fp64_gumbel=fp64)
    drawn = tokens(
        rows, *(seeds if outputs else [params] * count), sampler=sampler, outputs=outputs
    )
    observed = torch.bincount(torch.tensor(drawn), minlength=3).numpy()
    assert stats.chisquare(observed, [0.6 * count, 0.3 * count, 0.1 * count]).pvalue > 1e-6


def test_splitmix_words():
    """The hash gives the published first outputs of SplitMix64 from state 0."""
    start = torch.tensor(0x61C8864680B583EB)
    words = hashed_words(start, torch.arange(3)).tolist()
    assert [w % 2**64 for w in words] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@pytest.mark.parametrize("word", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_unit_interval_is_half_open(word):
    """No 64-bit word gives a uniform below 0 or of 1."""
    assert 0 <= unit_interval(torch.tensor(word)).item() < 1


FLAT = torch.zeros(1, 1 << 20)


def _seeded(seed, *, length=0, before=0):
    params = [P(seed=999)] * before + [P(seed=seed)]
    outputs = [[]] * before + [[0] * length]
    return tokens(FLAT.expand(before + 1, -1), *params, outputs=outputs)[-1]


def test_seed_repeats_whatever_the_row():
    """A seeded request draws the same token alone and as third row."""
    assert _seeded(42) == _seeded(42, before=2)


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 62])
def test_every_seed_bit_counts(bit):
    """Seeds that differ in one bit give different noise."""
    assert _seeded(5) != _seeded(5 ^ (1 << bit))


def test_sign_bit_of_the_seed_counts():
    """Seeds that differ in bit 63 give different noise."""
    assert _seeded(5) != _seeded(5 - 2**63)


def test_seed_advances_with_the_output():
    """The noise changes with each token drawn."""
    assert len({_seeded(42, length=length) for length in range(8)}) == 8


def test_rows_without_seed_differ():
    """Rows and steps without a seed do not share noise."""
    sampler, params = Sampler(seed=1), [P()] * 4
    steps = [sampler.sample(FLAT.expand(4, -1), batch_of(params, 1 << 20)) for _ in range(2)]
    drawn = [token for step in steps for token in step.sampled_token_ids.flatten().tolist()]
    assert len(set(drawn)) == 8


def test_reseed_repeats_the_noise():
    """After reseed the rows without a seed draw as before."""
    sampler = Sampler(seed=1)
    first = tokens(FLAT, P(), sampler=sampler)
    sampler.reseed(1)
    assert tokens(FLAT, P(), sampler=sampler) == first


def test_logprobs_do_not_disturb_the_draw():
    """Asking for logprobs draws the same tokens."""
    rows = torch.linspace(-3, 3, 5000).expand(8, -1)
    plain = tokens(rows, *[P()] * 8)
    assert tokens(rows, *[P(logprobs=5)] * 8) == plain


def test_hook_sees_the_noise():
    """The hook gets one float64 uniform a row, for the Gumbel race one a token."""
    seen = []
    for fp64 in (False, True):
        hook = lambda kind, values: seen.append((kind, values.dtype, tuple(values.shape)))  # noqa: E731
        run(torch.zeros(2, 5), P(), P(), sampler=Sampler(use_fp64_gumbel=fp64, noise_hook=hook))
    assert seen == [("inverse_cdf", torch.float64, (2,)), ("gumbel", torch.float64, (2, 5))]


def test_gumbel_race_replays():
    """The token is the argmax of log-probability minus log of minus log of the uniform."""
    noise = torch.tensor([[0.9, 0.5, 0.2, 0.1]], dtype=torch.float64)
    sampler = Sampler(use_fp64_gumbel=True, noise_hook=lambda *_: noise)
    scores = [
        math.log(p) - math.log(-math.log(u))
        for p, u in zip((0.1, 0.2, 0.3, 0.4), noise[0].tolist(), strict=True)
    ]
    assert tokens(TENTHS, P(), sampler=sampler) == [scores.index(max(scores))]


def test_row_drawn_again_keeps_its_own_noise():
    """Beside a row that needs no second look, a row with 100 ties at the k-th uses its own uniform."""
    rows = torch.full((2, 20_000), NEG)
    rows[0, :2], rows[1, :100] = 0.0, 0.0
    noise = torch.tensor([0.1, 0.895], dtype=torch.float64)
    sampler = Sampler(noise_hook=lambda *_: noise)
    assert tokens(rows, P(top_k=2), P(top_k=2), sampler=sampler) == [0, 89]


@pytest.mark.parametrize("widen", [lambda row: row, lambda row: spread(row[0]).unsqueeze(0)])
@pytest.mark.parametrize("params", [P(top_k=2), P(top_p=0.5), P(min_p=0.6)])
@pytest.mark.parametrize(("u", "wanted"), [(0.0, 2), (0.42, 2), (0.44, 3), (1.0, 3)])
def test_draw_from_what_the_filters_leave(u, wanted, params, widen):
    """Of (.1, .2, .3, .4) the filters leave the last two, drawn with 3/7 and 4/7."""
    assert tokens(widen(TENTHS), params, u=u) == [wanted]
