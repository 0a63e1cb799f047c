"""Rows without a law, shapes that disagree, and what is contained."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_cases import INF, batch, request, run

from aliquot.contract.batch import BatchError
from aliquot.contract.profile import Profile
from aliquot.oracle import pipeline, sampler
from aliquot.oracle.pipeline import RowError


@pytest.mark.parametrize(
    ("row", "found"),
    [([1.0, np.nan], "NaN"), ([INF, 1.0], r"\+inf"), ([-INF, -INF], "nothing but -inf")],
)
def test_ERR16_bad_rows_from_the_start(row, found):
    """Row, request and step are named."""
    with pytest.raises(RowError, match=f"row 1, request bad, step logits: the logits hold {found}"):
        run([[1.0, 2.0], row], request(), request(id="bad"))


@pytest.mark.parametrize(
    ("params", "step"),
    [
        ({"allowed_token_ids": [1], "bad_words": [(1,)]}, "bad_words"),
        ({"allowed_token_ids": [0], "eos_token_id": 0, "min_tokens": 1}, "min_tokens"),
        ({"bad_words": [(0,), (1,)]}, "bad_words"),
    ],
)
def test_ERR16_masks_that_meet(params, step):
    """The step after which nothing is left is named."""
    with pytest.raises(RowError) as caught:
        run([1.0, 2.0], request(**params))
    assert (caught.value.row, caught.value.request, caught.value.step) == (0, "r", step)


@pytest.mark.parametrize(("choice", "mark"), [("invalid_mark", -1), ("any_valid_id", 0)])
def test_ERR16_ERR17_marks_and_neighbours(choice, mark):
    """A bad row between two seeded ones is marked, they draw what they draw alone."""
    rows = np.zeros((3, 100))
    rows[1, 3] = np.nan
    asks = [request(seed=1, logprobs=1), request(logprobs=1), request(seed=2, logprobs=1)]
    profile = Profile(bad_row=choice)
    rng = np.random.default_rng(0)
    out = sampler.sample(rows, batch(*asks, vocab_size=100), rng, profile=profile)
    alone = sampler.sample(rows[::2], batch(*asks[::2], vocab_size=100), rng)
    assert out.sampled_token_ids[1, 0] == mark
    assert out.sampled_token_ids[::2].tolist() == alone.sampled_token_ids.tolist()
    assert out.logprobs.values[::2].tolist() == alone.logprobs.values.tolist()


def test_ERR17_only_bad_rows():
    """A batch of bad rows alone yields marks and no values."""
    asks = batch(request(logprobs=0), vocab_size=2)
    profile = Profile(bad_row="invalid_mark")
    out = sampler.sample(np.full((1, 2), np.nan), asks, np.random.default_rng(0), profile=profile)
    assert (out.sampled_token_ids.tolist(), out.logprobs.values.tolist()) == ([[-1]], [[-INF]])


@pytest.mark.parametrize(
    "logits", [np.zeros((2, 3)), np.zeros((1, 2)), np.zeros(3), np.zeros((1, 3), dtype=np.int64)]
)
def test_ERR14_shapes_and_dtypes(logits):
    """Logits of another shape than the batch's, or no floats, are refused."""
    with pytest.raises(BatchError, match=r"batch: logits are .* allowed is a float dtype \(1, 3\)"):
        pipeline.run(logits, batch(request(), vocab_size=3))


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-45, INF, -INF, float("nan")])
NUMBERS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-6, 1e-5, 1.0, 1e30, 1e300]),
        "top_k": st.integers(-1, 5),
        "top_p": st.sampled_from([5e-324, 1e-9, 0.5, 1.0]),
        "min_p": st.sampled_from([0.0, 5e-324, 0.5, 1.0]),
        "repetition_penalty": st.sampled_from([5e-324, 1e-30, 1.0, 1e30, 1e308]),
        "frequency_penalty": st.floats(-2, 2),
        "logit_bias": st.dictionaries(st.integers(0, 3), st.floats(-1e300, 1e300), max_size=2),
    }
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(VALUES, min_size=4, max_size=4), NUMBERS, st.lists(st.integers(-1, 4), max_size=3))
def test_ERR18_nothing_else_raises(row, numbers, history):
    """Every legal request on every float row has a law that sums to 1, or raises RowError."""
    try:
        law = run(row, request(history, history, **numbers)).law[0]
    except RowError:
        return
    assert abs(law.sum() - 1) <= 4 * 2.0**-52
