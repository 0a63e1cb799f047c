"""Logprobs in the four modes, explicit ids, ranks, logprobs of given tokens."""

import math
from dataclasses import replace

import pytest
import torch
from fast_cases import NEG, P, logits_of, run

from aliquot.contract.profile import Profile
from aliquot.fast.sampler import Sampler

TENTHS = logits_of([0.1, 0.2, 0.3, 0.4]).unsqueeze(0)
SIGNIFICANT = 5


def rounded(values):
    """Values to five decimals: the literals below are that long."""
    return [
        [round(v, SIGNIFICANT) if math.isfinite(v) else v for v in row] for row in values.tolist()
    ]


LOGS = [round(math.log(p), SIGNIFICANT) for p in (0.1, 0.2, 0.3, 0.4)]


def test_none_asked_none_returned():
    """Without a request there are no logprobs."""
    assert run(TENTHS, P()).logprobs is None


def test_sampled_then_largest():
    """Column 0 is the sampled token, then the two largest; the rank counts tokens at least as likely."""
    got = run(TENTHS, P(logprobs=2), u=0.15).logprobs
    assert got.token_ids.tolist() == [[1, 3, 2]]
    assert rounded(got.values) == [[LOGS[1], LOGS[3], LOGS[2]]]
    assert got.ranks.tolist() == [3]


def test_types():
    """Ids and ranks are int64, values float32."""
    got = run(TENTHS, P(logprobs=2)).logprobs
    assert (got.token_ids.dtype, got.ranks.dtype) == (torch.int64, torch.int64)
    assert got.values.dtype == torch.float32


def test_zero_is_the_sampled_token_alone():
    """logprobs = 0 returns one column."""
    assert run(TENTHS, P(logprobs=0), u=0.95).logprobs.token_ids.tolist() == [[3]]


def test_minus_one_is_the_row():
    """logprobs = -1 returns all values in id order."""
    got = run(TENTHS, P(logprobs=-1)).logprobs
    assert got.token_ids.tolist() == [[0, 1, 2, 3]]
    assert rounded(got.values) == [LOGS]


def test_more_than_the_vocabulary():
    """More logprobs than tokens returns every token once."""
    assert run(TENTHS, P(logprobs=9), u=0.0).logprobs.token_ids.tolist() == [[0, 3, 2, 1, 0]]


def test_ties_share_the_worse_rank():
    """Of [2, 1, 1, 0] both middle tokens have rank 3."""
    got = run([[2.0, 1.0, 1.0, 0.0]], P(logprobs=0), u=0.8).logprobs
    assert got.ranks.tolist() == [3]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("raw_logits", [2.0, 0.0, -1.0]),
        ("raw_logprobs", [-0.16985, -2.16985, -3.16985]),
        ("processed_logits", [0.0, 0.0, NEG]),
        ("processed_logprobs", [-0.69315, -0.69315, NEG]),
    ],
)
def test_modes(mode, wanted):
    """Raw values show the input, processed ones penalties, temperature and filters."""
    params = P(temperature=0.5, top_k=2, presence_penalty=2.0, logprobs=-1)
    got = run([[2.0, 0.0, -1.0]], params, outputs=[[0]], logprobs_mode=mode).logprobs
    assert rounded(got.values) == [wanted]


@pytest.mark.parametrize("vocab", [257, 1024, 1025, 10_111])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("at", [0, 100, -2])
def test_more_logprobs_than_tokens_that_stay(vocab, count, at):
    """Where one token stays, the others shown are tokens of the row, each once, at -inf."""
    row = torch.zeros(1, vocab)
    row[0, at] = 1.0
    asking = P(logprobs=count, top_k=1)
    got = run(row, asking, logprobs_mode="processed_logprobs").logprobs
    ids = got.token_ids[0, 1:].tolist()
    assert ids[0] == at % vocab
    assert len(set(ids) & set(range(vocab))) == count
    assert got.values[0, 1:].tolist() == [0.0] + [NEG] * (count - 1)


def test_the_least_float_is_above_minus_infinity():
    """Columns descend also where the least float32 stands beside -inf and the row ends inside a block."""
    least = torch.finfo(torch.float32).min
    row = torch.full((1, 2561), NEG)
    row[0, 1000:1030], row[0, -1] = least, 1.0
    got = run(row, P(logprobs=20), logprobs_mode="raw_logits").logprobs
    assert got.values[0, 1:].tolist() == [1.0] + [least] * 19


@pytest.mark.parametrize("params", [P(temperature=0.5), P(temperature=0.5, top_k=2)])
def test_processed_values_where_logits_overflow_over_temperature(params):
    """A row whose largest logits exceed float32 over temperature has finite logprobs, its logits are +inf."""
    row = [3e38, 3e38, -3e38]
    asking = replace(params, logprobs=-1)
    shown = run(
        [row, [1.0, 0.0, -1.0]], asking, asking, logprobs_mode="processed_logprobs"
    ).logprobs
    assert rounded(shown.values[:1]) == [[-0.69315, -0.69315, NEG]]
    logits = run([row], asking, logprobs_mode="processed_logits").logprobs
    assert logits.values[0, :2].tolist() == [math.inf, math.inf]


@pytest.mark.parametrize(("mode", "wanted"), [("raw_logits", [3, 2]), ("processed_logits", [1, 2])])
def test_ranks_follow_the_mode(mode, wanted):
    """After a bias the token ranks first among processed values and last among raw ones."""
    rows = [[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]
    params = [
        P(temperature=0.0, logprobs=0, logit_bias={2: 9.0}),
        P(temperature=0.0, logprobs=0, logit_bias={1: 1.0}),
    ]
    got = run(rows, *params, logprobs_mode=mode)
    assert got.logprobs.ranks.tolist() == ([3, 1] if mode == "raw_logits" else [1, 2])


def test_raw_logprobs_keep_their_input():
    """Bad words, bias and masks leave raw logprobs as they were."""
    params = P(bad_words=[[3]], logit_bias={0: 1.0}, allowed_token_ids=[0, 1], logprobs=-1)
    assert rounded(run(TENTHS.clone(), params).logprobs.values) == [LOGS]


def test_explicit_ids():
    """The sampled token first, then the ids given, shorter lists padded with -inf."""
    rows = TENTHS.expand(2, 4)
    params = [P(logprob_token_ids=[2, 0], logprobs=3), P(logprob_token_ids=[1])]
    got = run(rows, *params, u=0.95).logprobs
    assert got.token_ids[0].tolist() == [3, 2, 0]
    assert got.token_ids[1, :2].tolist() == [3, 1]
    assert rounded(got.values) == [[LOGS[3], LOGS[2], LOGS[0]], [LOGS[3], LOGS[1], NEG]]


def test_explicit_ids_beside_a_number():
    """A row that asks for the two largest gets them beside a row with explicit ids."""
    got = run(TENTHS.expand(2, 4), P(logprob_token_ids=[1]), P(logprobs=2), u=0.95).logprobs
    assert got.token_ids[1].tolist() == [3, 3, 2]
    assert rounded(got.values)[0] == [LOGS[3], LOGS[1], NEG]


def test_logprobs_of_given_tokens():
    """Prompt logprobs: values and ranks of one given token a row."""
    got = Sampler().logprobs_of(TENTHS.expand(2, 4), torch.tensor([3, 0]))
    assert rounded(got.values) == [[LOGS[3]], [LOGS[0]]]
    assert got.ranks.tolist() == [1, 4]


@pytest.mark.parametrize("rows", [0, 2])
def test_logprobs_of_given_tokens_with_a_gradient(rows):
    """Logits of a model in training mode, and no rows at all, are served as well."""
    logits = TENTHS.repeat(rows, 1).requires_grad_()
    got = Sampler().logprobs_of(logits, torch.zeros(rows, dtype=torch.int64))
    assert (got.values.requires_grad, got.ranks.tolist()) == (False, [4] * rows)


def test_processed_profile():
    """A sampler that declares processed logprobs returns those for the default mode."""
    got = run([[2.0, 0.0]], P(top_k=1, logprobs=-1), profile=Profile(logprobs="processed")).logprobs
    assert got.values.tolist() == [[0.0, NEG]]


def test_large_vocabulary():
    """Among 20,000 tokens the three largest and the rank are found."""
    row = torch.arange(20_000).roll(7).float().unsqueeze(0) / 1000
    got = run(row, P(temperature=0.0, logprobs=3), logprobs_mode="raw_logits").logprobs
    assert got.token_ids.tolist() == [[6, 6, 5, 4]]
    assert got.ranks.tolist() == [1]


def test_largest_tokens_in_as_many_blocks():
    """Twenty large tokens, each in a block of its own, are all reported."""
    row = torch.zeros(1, 20_000)
    row[0, torch.arange(20) * 199] = torch.arange(20.0, 0.0, -1.0)
    got = run(row, P(temperature=0.0, logprobs=20), logprobs_mode="raw_logits").logprobs
    assert got.token_ids[0, 1:].tolist() == [i * 199 for i in range(20)]


@pytest.mark.parametrize(("u", "rank"), [(0.0, 2), (0.35, 2), (0.6, 50), (0.99, 50)])
def test_rank_of_a_candidate_and_of_a_tie_beyond(u, rank):
    """Ranks count ties whether or not they are among the candidates."""
    row = torch.full((1, 20_000), NEG)
    row[0, :2], row[0, 1000:1048] = 0.0, -3.0
    assert run(row, P(top_k=50, logprobs=1), u=u).logprobs.ranks.tolist() == [rank]
