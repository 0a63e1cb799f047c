"""Logprobs, ranks and their widths."""

import math

import numpy as np
import pytest
from oracle_cases import INF, batch, request

from aliquot.contract.batch import LOGPROBS_MODES
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import logprobs, pipeline
from aliquot.oracle.softmax import log_softmax

ROW = [math.log(p) for p in (0.125, 0.5, 0.25, 0.125)]
F32 = np.float32


def gathered(rows, sampled, *requests, mode="raw_logprobs", profile=CANONICAL):
    """What is reported beside sampled tokens."""
    rows = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    asks = batch(*requests, vocab_size=rows.shape[1], logprobs_mode=mode)
    return logprobs.gather(pipeline.run(rows, asks, profile=profile), asks, sampled)


def test_LOGP01_none_asked():
    """Without a request for logprobs there are none."""
    assert gathered(ROW, [0], request()) is None


def test_LOGP02_LOGP06_LOGP07_sampled_then_the_largest():
    """Raw logprobs: the sampled token, then the two best in descending order."""
    got = gathered(ROW, [3], request(logprobs=2))
    wanted = F32([ROW[3], ROW[1], ROW[2]])
    assert (got.token_ids.tolist(), got.values.tolist()) == ([[3, 1, 2]], [wanted.tolist()])


def test_LOGP03_LOGP04_raw_values_never_change():
    """Bias, penalties, masks, temperature and filters leave raw logits as they came."""
    asks = request(
        [1], logprobs=-1, logit_bias={0: 5.0}, presence_penalty=2.0, bad_words=[(2,)],
        temperature=0.3, top_k=1,
    )  # fmt: skip
    assert gathered(ROW, [0], asks, mode="raw_logits").values.tolist() == [F32(ROW).tolist()]


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("processed_logits", [-INF, 6.0, 4.0]),
        ("processed_logprobs", [-INF, -math.log1p(math.exp(-2)), None]),
    ],
)
def test_LOGP05_processed_values(mode, wanted):
    """The row after temperature and top-k."""
    asks = request(logprobs=-1, temperature=0.5, top_k=2)
    got = gathered([1.0, 3.0, 2.0], [1], asks, mode=mode).values[0].tolist()
    assert got[:2] == F32(wanted[:2]).tolist()


def test_LOGP05_all_greedy_after_the_penalties():
    """For greedy rows the processed logits are those that the argmax saw."""
    asks = request([0], logprobs=-1, temperature=0.0, presence_penalty=1.0, top_k=1)
    got = gathered([3.0, 1.0], [0], asks, mode="processed_logits")
    assert got.values.tolist() == [[2.0, 1.0]]


def test_LOGP05_profile_may_show_processed_values():
    """A backend that declares processed logprobs is compared with those."""
    asks = request(logprobs=0, top_k=1)
    got = gathered([3.0, 1.0], [0], asks, profile=Profile(logprobs="processed"))
    assert got.values.tolist() == [[0.0]]


def test_LOGP08_zero_is_the_sampled_token():
    """One column."""
    assert gathered(ROW, [2], request(logprobs=0)).token_ids.tolist() == [[2]]


def test_LOGP09_minus_one_is_the_row():
    """All V values in id order."""
    got = gathered(ROW, [2], request(logprobs=-1))
    assert (got.token_ids.tolist(), got.values.tolist()) == ([[0, 1, 2, 3]], [F32(ROW).tolist()])


def test_LOGP10_LOGP11_LOGP12_explicit_ids():
    """Exactly the listed ids after the sampled one, padded with -inf, whatever number is asked for."""
    asks = request(logprob_token_ids=[3, 0, 0], logprobs=2), request(logprob_token_ids=[2])
    got = gathered([ROW, ROW], [1, 0], *asks)
    assert got.token_ids[:, :2].tolist() == [[1, 3], [0, 2]]
    assert got.token_ids[0].tolist() == [1, 3, 0, 0]
    assert got.values[1, 2:].tolist() == [-INF, -INF]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 9])
def test_LOGP07_descending(number):
    """As many of the largest as asked for, in falling order, at most V."""
    got = gathered([1.0, 4.0, 2.0, 3.0], [0], request(logprobs=number))
    assert got.token_ids[0].tolist() == [0, 1, 3, 2, 0][: number + 1]


def test_LOGP07_equal_values_by_ascending_id():
    """Ties in the columns come in id order."""
    got = gathered([1.0, 2.0, 2.0, 1.0], [0], request(logprobs=3))
    assert got.token_ids.tolist() == [[0, 1, 2, 0]]


def test_LOGP13_given_tokens():
    """Prompt logprobs: one value and rank a row."""
    got = logprobs.of_given_tokens(np.array([ROW, ROW]), [1, 0])
    wanted = [[F32(ROW[1])], [F32(ROW[0])]]
    assert (got.values.tolist(), got.ranks.tolist(), got.token_ids.tolist()) == (
        wanted,
        [1, 4],
        [[1], [0]],
    )


@pytest.mark.parametrize(("token", "rank"), [(1, 1), (2, 2), (0, 4), (3, 4)])
def test_RANK01_RANK02_ties_share_the_worse_rank(token, rank):
    """Two equal last tokens of four have rank 4 both."""
    assert gathered(ROW, [token], request(logprobs=0)).ranks.tolist() == [rank]


def test_RANK03_ranks_follow_the_mode():
    """A penalised token is first in raw and last in processed values."""
    asks = request([0], logprobs=0, presence_penalty=2.0)
    ranks = [gathered([3.0, 2.0], [0], asks, mode=mode).ranks[0] for mode in LOGPROBS_MODES]
    assert ranks == [1, 1, 2, 2]


def test_IO09_dtypes():
    """Values float32, ids and ranks int64."""
    got = gathered(ROW, [0], request(logprobs=1))
    assert [got.values.dtype, got.token_ids.dtype, got.ranks.dtype] == [F32, np.int64, np.int64]


def test_logprob_of_a_near_certain_token_keeps_its_digits():
    """-log1p(e^-40) is not rounded to 0."""
    assert log_softmax(np.array([[40.0, 0.0]]))[0, 0] == -math.exp(-40.0)
