"""Relations that hold for every input (INV01 to INV10), with Hypothesis."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_cases import INF, batch, request

from aliquot.contract.params import SamplingParams
from aliquot.oracle import pipeline
from aliquot.oracle.law import law

EIGHTHS = st.integers(-64, 64).map(lambda i: i / 8)
ROWS = st.lists(EIGHTHS, min_size=2, max_size=12).map(np.array)
SHARES = st.integers(1, 16).map(lambda i: i / 16)
FILTERS = st.fixed_dictionaries(
    {
        "top_k": st.integers(0, 6),
        "top_p": SHARES,
        "min_p": st.integers(0, 16).map(lambda i: i / 16),
        "temperature": st.sampled_from([0.5, 1.0, 2.0]),
    }
)
checked = settings(max_examples=200, deadline=None, derandomize=True)


def support(row, **params):
    """The kept tokens of a row."""
    asks = batch(request(**params), vocab_size=row.size)
    return pipeline.run(row[None], asks).filtered[0] > -INF


def laws(rows, params):
    """The laws of a batch of rows."""
    asks = batch(*[request(**p) for p in params], vocab_size=rows.shape[1])
    return pipeline.run(rows, asks).law


@checked
@given(ROWS, FILTERS, EIGHTHS)
def test_INV01_shift(row, params, shift):
    """A constant added to a row changes no probability; eighths add without rounding."""
    asks = SamplingParams(**params)
    assert law(row + shift, asks).tolist() == law(row, asks).tolist()


@checked
@given(ROWS, FILTERS, st.randoms(use_true_random=False))
def test_INV02_permutation(row, params, random):
    """Permuting the vocabulary permutes the law; the exact sums do not depend on the order."""
    order = random.sample(range(row.size), row.size)
    asks = SamplingParams(**params)
    assert law(row[order], asks).tolist() == law(row, asks)[order].tolist()


BATCHES = st.integers(2, 8).flatmap(
    lambda size: st.lists(
        st.tuples(st.lists(EIGHTHS, min_size=size, max_size=size), FILTERS), min_size=2, max_size=5
    )
)


@checked
@given(BATCHES)
def test_INV03_alone_or_in_a_batch(rows):
    """Each row of a batch has the law that it has alone."""
    logits, params = np.array([row for row, _ in rows]), [p for _, p in rows]
    alone = [law(row, SamplingParams(**p)).tolist() for row, p in zip(logits, params, strict=True)]
    assert laws(logits, params).tolist() == alone


@checked
@given(ROWS, FILTERS, st.integers(1, 5))
def test_INV04_growing_k(row, params, more):
    """A larger k keeps what a smaller one kept."""
    k = max(1, params["top_k"])
    small, large = ({**params, "top_k": n, "top_p": 1.0} for n in (k, k + more))
    assert not (support(row, **small) & ~support(row, **large)).any()


@checked
@given(ROWS, FILTERS, SHARES)
def test_INV05_growing_p(row, params, other):
    """A larger p keeps what a smaller one kept."""
    small, large = ({**params, "top_p": p} for p in sorted((params["top_p"], other)))
    assert not (support(row, **small) & ~support(row, **large)).any()


@checked
@given(ROWS, FILTERS, SHARES)
def test_INV06_falling_min_p(row, params, other):
    """A smaller min_p keeps what a larger one kept, before any nucleus."""
    large, small = (
        {**params, "min_p": p, "top_p": 1.0} for p in sorted((params["min_p"], other))[::-1]
    )
    assert not (support(row, **large) & ~support(row, **small)).any()


@checked
@given(ROWS, SHARES, SHARES)
def test_INV07_falling_temperature(row, first, second):
    """The top token's probability does not fall when the temperature does."""
    warm, cold = sorted((first, second), reverse=True)
    top = [law(row, SamplingParams(temperature=t))[row.argmax()] for t in (warm, cold)]
    assert top[1] >= top[0] * (1 - 8 * 2.0**-53)


@checked
@given(BATCHES)
def test_INV08_splitting(rows):
    """Two halves of a batch give the laws of the whole."""
    logits, params = np.array([row for row, _ in rows]), [p for _, p in rows]
    half = len(rows) // 2
    parts = [laws(logits[:half], params[:half]), laws(logits[half:], params[half:])]
    assert np.concatenate(parts).tolist() == laws(logits, params).tolist()


@checked
@given(ROWS, FILTERS)
def test_INV09_upper_set(row, params):
    """No kept logit lies below a dropped one."""
    keep = support(row, **params)
    assert row[keep].min() > row[~keep].max(initial=-INF)


@checked
@given(ROWS, st.floats(0.01, 1.0), st.floats(0.1, 3.0))
def test_INV10_parameters_as_held(row, p, temperature):
    """A parameter and its float32 rounding have the same law; in float64 it acts as given."""
    given_ = SamplingParams(top_p=p, temperature=temperature)
    held = replace(given_, top_p=float(np.float32(p)), temperature=float(np.float32(temperature)))
    assert law(row, given_).tolist() == law(row, held).tolist()
    exact = pipeline.Context(batch(request(top_p=p), vocab_size=2), parameter_dtype=np.float64)
    assert exact.params[0].top_p == p
