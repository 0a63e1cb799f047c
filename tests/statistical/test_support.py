"""Support test: one forbidden id is a fault, allowed ids never are."""

import numpy as np
import pytest

from aliquot.statistical import support

ALLOWED = np.array([True, False, True, True])


def test_offending_ids_are_returned_in_order():
    """Forbidden ids and ids outside the vocabulary come back, repeats included."""
    got = support.outside([3, 1, 0, 4, -1, 1], ALLOWED)
    assert got.tolist() == [1, 4, -1, 1]


def test_null_passes():
    """Draws from the allowed ids only never fail."""
    ids = np.random.default_rng(1).choice(np.flatnonzero(ALLOWED), size=10_000)
    assert support.check(ids, ALLOWED).passed


def test_leak_fails():
    """A sampler that leaks 0.1 % onto a forbidden id fails within 5,000 draws."""
    ids = np.random.default_rng(1).choice(4, size=5_000, p=[0.333, 0.001, 0.333, 0.333])
    assert not support.check(ids, ALLOWED).passed


def test_minimum_detectable_mass_is_found_by_99_percent():
    """Forbidden mass of the stated size shows in 99 % of simulated runs."""
    draws, runs = 500, 40_000
    mass = support.minimum_detectable_mass(draws)
    missed = np.mean(np.random.default_rng(1).binomial(draws, mass, size=runs) == 0)
    assert abs(missed - 0.01) < 4 * np.sqrt(0.01 * 0.99 / runs)


def test_no_draws_detect_nothing():
    """Without draws only mass 1 would be found, and the test passes."""
    got = support.check([], ALLOWED)
    assert (got.passed, got.minimum_detectable_mass) == (True, 1.0)


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [([0.5], ALLOWED, "ids: integers"), ([0], [1, 0, 1], "allowed_mask: bool")],
)
def test_bad_input_is_named(ids, mask, message):
    """Ids that are not integers and masks that are not bool are refused by name."""
    with pytest.raises(ValueError, match=message):
        support.outside(ids, mask)
