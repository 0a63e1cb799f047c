"""Temperature, min-p, top-k and top-p, and the freedoms that concern them."""

import math

import numpy as np
import pytest
from oracle_cases import INF, after, batch, kept, request, run

from aliquot.contract.params import ParameterError
from aliquot.contract.profile import Profile
from aliquot.oracle import pipeline

HALVES = [math.log(p) for p in (0.5, 0.25, 0.125, 0.125)]


def test_TEMP01_TEMP02_rows_divide_by_their_own():
    """Random rows are divided by their temperature, greedy ones by 1."""
    asks = request(temperature=0.5), request(temperature=0.0), request(temperature=4.0)
    got = after("temperature", [[1.0, 2.0]] * 3, *asks)
    assert got == [[2.0, 4.0], [1.0, 2.0], [0.25, 0.5]]


def test_TEMP03_from_1e_5_up_as_given():
    """1e-5 itself is no greedy request; a declared floor raises it."""
    row = [1.0, 1.0 + 2.0**-10]
    exact = run(row, request(temperature=1e-5)).law[0, 1]
    floored = run(row, request(temperature=1e-5), profile=Profile(temperature_floor=0.01)).law[0, 1]
    assert (exact, 0.5 < floored < 0.55) == (1.0, True)


def test_TEMP04_16_bit_logits_do_not_overflow():
    """A float16 row at its largest value divides by 0.5 without infinity."""
    logits = np.array([[65504.0, 0.0]], dtype=np.float16)
    got = pipeline.run(logits, batch(request(temperature=0.5), vocab_size=2))
    assert got.filtered.tolist() == [[131008.0, 0.0]]


@pytest.mark.parametrize(
    ("min_p", "wanted"), [(0.5, [0, 1]), (0.51, [0]), (0.25, [0, 1, 2, 3]), (0.26, [0, 1])]
)
def test_MINP01_relative_to_the_best(min_p, wanted):
    """Probabilities 1/2, 1/4, 1/8, 1/8 against min_p times 1/2; logits that are exact powers."""
    row = [3 * math.log(2.0), 2 * math.log(2.0), math.log(2.0), math.log(2.0)]
    assert kept(row, min_p=min_p) == wanted


@pytest.mark.parametrize(("temperature", "wanted"), [(1.0, [0]), (2.0, [0, 1])])
def test_MINP02_after_temperature(temperature, wanted):
    """A gap of 1 nat is below 0.5 at T = 1 (0.37) and above it at T = 2 (0.61)."""
    assert kept([1.0, 0.0], min_p=0.5, temperature=temperature) == wanted


def test_MINP03_one_keeps_the_maxima():
    """min_p = 1 keeps both maxima and nothing a hair below."""
    assert kept([1.0, 1.0, math.nextafter(1.0, 0.0)], min_p=1.0) == [0, 1]


def test_MINP04_zero_is_off():
    """min_p = 0 keeps a token of e^-700."""
    assert kept([0.0, -700.0], min_p=0.0) == [0, 1]


def test_MINP05_greedy_rows_stay():
    """A greedy row shows all its tokens beside a filtered one."""
    asks = request(min_p=1.0), request(min_p=1.0, temperature=0.0)
    assert after("min_p", [[1.0, 0.0]] * 2, *asks) == [[1.0, -INF], [1.0, 0.0]]


@pytest.mark.parametrize(("k", "wanted"), [(1, [1]), (2, [1, 3]), (3, [0, 1, 3])])
def test_TOPK01_TOPK04_the_k_largest(k, wanted):
    """The k largest of distinct negative logits."""
    assert kept([-3.0, -1.0, -4.0, -2.0], top_k=k) == wanted


@pytest.mark.parametrize(
    ("ties", "wanted"),
    [("keep_all", [0, 1, 3]), ("lowest_ids", [0, 1]), ("highest_ids", [1, 3])],
)
def test_TOPK02_ties_at_the_kth(ties, wanted):
    """k = 2 with a maximum and two equal seconds, under each choice."""
    assert kept([2.0, 3.0, 1.0, 2.0], Profile(topk_ties=ties), top_k=2) == wanted


@pytest.mark.parametrize("k", [0, -1, 3, 4])
def test_TOPK03_off_values(k):
    """0, -1, V and more keep all."""
    assert kept([1.0, 2.0, 3.0], top_k=k) == [0, 1, 2]


@pytest.mark.parametrize("k", [-1, 4])
def test_TOPK03_off_values_may_be_errors(k):
    """Where the profile says so, -1 and more than V raise and name the request."""
    with pytest.raises(ParameterError, match=f"request r: top_k is {k}, allowed"):
        kept([1.0, 2.0, 3.0], Profile(topk_off="error"), top_k=k)


def test_TOPK05_rows_have_their_own_k():
    """k = 1, none and k = 2 side by side."""
    asks = request(top_k=1), request(), request(top_k=2)
    alive = np.array(after("top_k", [[1.0, 2.0, 3.0]] * 3, *asks)) > -INF
    assert alive.sum(axis=1).tolist() == [1, 3, 2]


@pytest.mark.parametrize("ties", ["keep_all", "lowest_ids", "highest_ids"])
def test_TOPK06_masked_tokens_stay_out(ties):
    """With two finite logits k = 3 keeps those two."""
    assert kept(
        [1.0, 2.0, 3.0, 0.0], Profile(topk_ties=ties), top_k=3, allowed_token_ids=[0, 3]
    ) == [0, 3]


@pytest.mark.parametrize(
    ("p", "wanted"), [(0.4, [0]), (0.6, [0, 1]), (0.8, [0, 1, 2, 3]), (0.9, [0, 1, 2, 3])]
)
def test_TOPP01_TOPP03_TOPP04_mass_before_the_token(p, wanted):
    """Probabilities 1/2, 1/4, 1/8, 1/8: the crossing token stays, the equal ones together."""
    assert kept(HALVES, top_p=p) == wanted


@pytest.mark.parametrize(("exact", "wanted"), [("stop", [0, 1]), ("one_more", [0, 1, 2])])
def test_TOPP02_exact_mass(exact, wanted):
    """Four equal tokens cut by position: two reach p = 1/2 exactly."""
    profile = Profile(topp_ties="lowest_ids", topp_exact=exact)
    assert kept([7.0] * 4, profile, top_p=0.5) == wanted


@pytest.mark.parametrize(
    ("ties", "wanted"),
    [("keep_all", [0, 1, 2, 3]), ("lowest_ids", [0, 1]), ("highest_ids", [2, 3])],
)
def test_TOPP04_ties_at_the_edge(ties, wanted):
    """Four equal tokens at p = 1/2 under each choice."""
    assert kept([1.0] * 4, Profile(topp_ties=ties), top_p=0.5) == wanted


@pytest.mark.parametrize("p", [1e-6, 1e-50])
def test_TOPP05_the_largest_stays(p):
    """However small p is, also below float32's smallest number."""
    assert kept([1.0, 2.0, 3.0, 3.0], top_p=p) == [2, 3]


def test_TOPP06_one_is_off():
    """p = 1 keeps a token that float64 cannot add to the rest."""
    assert kept([0.0, -100.0, -700.0], top_p=1.0) == [0, 1, 2]


@pytest.mark.parametrize(("order", "wanted"), [("sequential", [0]), ("joint", [0, 1])])
def test_TOPP07_after_top_k_renormalised(order, wanted):
    """1/2 of the whole is 2/3 of the two that top-k left, which reaches p = 0.6 alone."""
    assert kept(HALVES, Profile(filter_order=order), top_k=2, top_p=0.6) == wanted


def test_TOPP08_rows_have_their_own_p():
    """p = 0.4, 1 and 0.6 side by side."""
    asks = request(top_p=0.4), request(), request(top_p=0.6)
    alive = np.array(after("top_p", [HALVES] * 3, *asks)) > -INF
    assert alive.sum(axis=1).tolist() == [1, 4, 2]


@pytest.mark.parametrize(
    ("temperature", "min_p", "wanted"),
    [
        ("before", "after_temperature", "temperature min_p top_k top_p"),
        ("before", "after_filters", "temperature top_k top_p min_p"),
        ("before", "before_temperature", "min_p temperature top_k top_p"),
        ("after", "after_temperature", "top_k top_p temperature min_p"),
        ("after", "after_filters", "top_k top_p min_p temperature"),
        ("after", "before_temperature", "min_p top_k top_p temperature"),
    ],
)
def test_orders_of_the_profiles(temperature, min_p, wanted):
    """Each choice of order is another list."""
    profile = Profile(temperature_order=temperature, minp_order=min_p)
    assert [s.name for s in pipeline.steps_for(profile)][7:] == wanted.split()


def test_canonical_order_is_the_contract():
    """The canonical profile runs the contract's list itself."""
    assert pipeline.steps_for(Profile()) is pipeline.CONTRACT


def test_variants_are_lists():
    """Steps can be replaced, moved and removed by name; an unknown name is refused."""
    steps = pipeline.replaced(pipeline.CONTRACT, "top_p", lambda rows, context: rows)
    asks = batch(request(top_p=0.1), vocab_size=2)
    assert pipeline.run(np.array([[0.0, 9.0]]), asks, steps=steps).filtered.tolist() == [[0.0, 9.0]]
    moved = pipeline.moved(steps, "top_k", before="grammar")
    assert [s.name for s in pipeline.removed(moved, "min_p")][:2] == ["top_k", "grammar"]
    with pytest.raises(KeyError, match="step 'topp' is unknown"):
        pipeline.moved(steps, "topp")


@pytest.mark.parametrize("seed", range(20))
def test_TOPP07_joint_is_the_intersection(seed):
    """Joint filtering keeps what the nucleus of the whole law and top-k both keep."""
    rng = np.random.default_rng(seed)
    row, k, p = (
        rng.integers(0, 6, size=12) / 2,
        int(rng.integers(1, 12)),
        float(rng.uniform(0.1, 0.95)),
    )
    both = set(kept(row, top_k=k)) & set(kept(row, top_p=p))
    assert kept(row, Profile(filter_order="joint"), top_k=k, top_p=p) == sorted(both)
