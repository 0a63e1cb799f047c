"""Shapes, dtypes, layouts, empty batches and bad rows."""

import pytest
import torch
from fast_cases import NEG, P, batch_of, run, tokens

from aliquot.contract.batch import BatchError
from aliquot.contract.params import ParameterError
from aliquot.contract.profile import Profile
from aliquot.fast.sampler import Sampler

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [1, 2, 63, 64, 65, 257, 4999])
def test_any_width_and_dtype(dtype, width):
    """Greedy finds the last token, random rows with every filter stay inside, ids are int64 [n, 1]."""
    rows = torch.zeros(6, width, dtype=dtype)
    rows[:, -1] = 9.0
    params = [
        P(temperature=0.0),
        P(top_k=1),
        P(top_p=1e-3),
        P(min_p=1.0),
        P(top_k=1, top_p=0.5),
        P(top_k=900, top_p=0.1),
    ]
    got = run(rows, *params).sampled_token_ids
    assert (got.dtype, got.tolist()) == (torch.int64, [[width - 1]] * 6)


def test_row_of_a_wider_buffer():
    """Rows whose distance is not V, and tokens that are not adjacent, are read where they are."""
    wide = torch.full((2, 8), 99.0)
    wide[:, :5] = torch.tensor([[0.0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
    greedy = P(temperature=0.0)
    assert tokens(wide[:, :5], greedy, greedy) == [4, 0]
    assert tokens(wide[:, :5].t().contiguous().t(), greedy, greedy) == [4, 0]
    assert tokens(wide[:, 0:5:2], P(top_k=1), P(top_k=1)) == [2, 0]


def test_buffer_beside_the_rows_is_not_written():
    """Masks on a slice never reach the columns beside it."""
    wide = torch.zeros(2, 8)
    run(
        wide[:, :5],
        P(bad_words=[[4]], allowed_token_ids=[0]),
        P(presence_penalty=1.0),
        outputs=[[], [4]],
    )
    assert wide[:, 5:].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_empty_batch():
    """n = 0 gives int64 ids of shape [0, 1]."""
    got = run(torch.zeros(0, 7)).sampled_token_ids
    assert (got.dtype, tuple(got.shape)) == (torch.int64, (0, 1))


@pytest.fixture
def _threads(request):
    """So many threads for torch during a test."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


BOTH = pytest.mark.parametrize("_threads", [1, 2], indirect=True)


@BOTH
@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("width", [703, 768, 3000])
def test_greedy_takes_the_lowest_of_equal_maxima(width):
    """Equal maxima in different blocks give the lowest id, in the last and incomplete block too."""
    rows = torch.zeros(2, width)
    rows[0, [5, 300, width - 1]], rows[1, [width - 2, width - 1]] = 1.0, 1.0
    assert tokens(rows, P(temperature=0.0), P(temperature=0.0)) == [5, width - 2]


@BOTH
@pytest.mark.usefixtures("_threads")
def test_greedy_marks_bad_rows_of_any_width():
    """NaN, +inf and nothing but -inf are found beside a good row, whatever the number of threads."""
    rows = torch.zeros(4, 600)
    rows[0, 599], rows[1, 3], rows[2], rows[3, 301] = NAN, INF, NEG, 1.0
    assert tokens(rows, *[P(temperature=0.0)] * 4) == [-1, -1, -1, 301]


def test_logits_with_a_gradient():
    """Logits straight from a model in training mode are sampled, not refused."""
    rows = torch.tensor([[0.0, NEG]], requires_grad=True)
    assert tokens(rows, P(top_p=0.5)) == [0]


def test_mixed_batch():
    """Greedy rows return their argmax and random rows their draw."""
    rows = torch.tensor([[0.0, 1.0], [0.0, NEG], [1.0, 0.0]])
    assert tokens(rows, P(temperature=0.0), P(), P(temperature=9e-6)) == [1, 0, 0]


BAD = [[NAN, 0.0, 0.0], [0.0, INF, 0.0], [NEG, NEG, NEG], [NAN, NAN, NAN]]
PARAMS = [
    P(temperature=0.0),
    P(),
    P(top_k=2),
    P(top_p=0.9),
    P(min_p=0.1),
    P(top_k=2, top_p=0.5),
    P(seed=1),
]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("fp64", [False, True])
def test_bad_row_is_marked(bad, params, fp64):
    """A bad row gives -1; its neighbours with one possible token give that."""
    good = [NEG, 0.0, NEG]
    sampler = Sampler(use_fp64_gumbel=fp64)
    assert tokens([good, bad, good], *[params] * 3, sampler=sampler) == [1, -1, 1]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("params", PARAMS)
def test_bad_row_any_valid_id(bad, params):
    """A profile that promises a valid id keeps it."""
    assert tokens([bad], params, profile=Profile(bad_row="any_valid_id"))[0] in (0, 1, 2)


def test_bad_rows_in_a_large_vocabulary():
    """Bad rows of every kind, with logprobs and ties cut by position, do not raise."""
    rows = torch.zeros(3, 5000)
    rows[0, 77], rows[1, 4999], rows[2] = NAN, INF, NEG
    for params in (P(top_k=50, top_p=0.9, logprobs=3), P(top_p=0.9, logprobs=-1)):
        for profile in (Profile(), Profile(topk_ties="lowest_ids")):
            assert tokens(rows.clone(), *[params] * 3, profile=profile) == [-1, -1, -1]


def test_row_masked_empty_is_marked():
    """A list and a bad word that leave nothing mark the row."""
    assert tokens([[0.0, 1.0]], P(allowed_token_ids=[1], bad_words=[[1]])) == [-1]


@pytest.mark.parametrize(
    ("shape", "message"), [((1, 4), r"\(1, 4\)"), ((2, 3), r"\(2, 3\)"), ((3,), r"\(3,\)")]
)
def test_wrong_shape_is_named(shape, message):
    """Logits that do not fit the batch are refused with both shapes."""
    with pytest.raises(BatchError, match=message):
        Sampler().sample(torch.zeros(shape), batch_of([P()], 3))


def test_wrong_dtype_is_named():
    """Float64 logits are refused by name."""
    with pytest.raises(BatchError, match="float64"):
        run(torch.zeros(1, 3, dtype=torch.float64), P())


def test_bad_parameter_is_named():
    """A refused parameter names the request, the field and the value."""
    with pytest.raises(ParameterError, match=r"request r0: top_p is 2\.0"):
        run(torch.zeros(1, 3), P(top_p=2.0))


def test_int32_profile():
    """A profile with int32 ids returns int32."""
    assert (
        run(torch.zeros(1, 3), P(), profile=Profile(id_dtype="int32")).sampled_token_ids.dtype
        == torch.int32
    )


def test_huge_temperature():
    """A temperature beyond float32 keeps masked tokens masked."""
    assert tokens([[NEG, 0.0, NEG]], P(temperature=1e300)) == [1]
