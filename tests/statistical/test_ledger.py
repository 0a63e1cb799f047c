"""Ledger: a run's alpha is spent once, printed, and never overspent."""

import math

import pytest

from aliquot.statistical.ledger import Ledger, OverspentError


def test_shares_sum_to_the_run_alpha():
    """Shares that fill the budget are granted and sum to it."""
    ledger = Ledger()
    ledger.grant_evenly([f"test {i}" for i in range(7)])
    assert abs(ledger.spent - 1e-6) <= 7 * math.ulp(1e-6)


def test_overspending_is_an_error():
    """A share beyond what is left is refused with the test's name."""
    ledger = Ledger()
    ledger.grant("replay", 0.9)
    with pytest.raises(OverspentError, match="'black box' asks for alpha 2e-07"):
        ledger.grant("black box", 0.2)


def test_e_value_rejects_at_one_over_alpha():
    """A log e-value rejects at -log(alpha) of its test, not below."""
    ledger = Ledger()
    limit = -math.log(ledger.grant("black box", 0.5))
    assert (ledger.reject_e("black box", limit - 0.01), ledger.reject_e("black box", limit)) == (
        False,
        True,
    )


def test_rejection_stays_after_the_e_value_falls():
    """The largest e-value counts: evidence once reached is not lost by drawing on."""
    ledger = Ledger()
    ledger.grant("black box", 1.0)
    ledger.reject_e("black box", 20.0)
    ledger.reject_e("black box", -3.0)
    assert ledger.rejected == ["black box"]


def test_p_value_rejects_at_alpha():
    """A p-value above the share is kept."""
    ledger = Ledger(alpha=0.01)
    ledger.grant("a", 0.5)
    ledger.grant("b", 0.5)
    assert (ledger.reject_p("a", 0.006), ledger.reject_p("b", 0.005)) == (False, True)


def test_retry_of_a_p_value_is_refused():
    """A second p-value for a test would be a retry."""
    ledger = Ledger()
    ledger.grant("chi-square", 1.0)
    ledger.reject_p("chi-square", 0.5)
    with pytest.raises(ValueError, match="there are no retries"):
        ledger.reject_p("chi-square", 0.7)


def test_alpha_is_not_spent_on_both_kinds_of_evidence():
    """A test judged by its e-value cannot be judged by a p-value on the same share."""
    ledger = Ledger()
    ledger.grant("a", 1.0)
    ledger.reject_e("a", 0.0)
    with pytest.raises(ValueError, match="not spent twice"):
        ledger.reject_p("a", 0.5)


def test_table_lists_tests_and_sum():
    """The printed ledger holds each test, its verdict and the sum of shares."""
    ledger = Ledger()
    ledger.grant("replay", 0.25)
    ledger.grant("pairs", 0.5)
    ledger.reject_e("pairs", 30.0)
    lines = ledger.table().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "replay",
        "pairs",
        "sum of shares",
    ]
    assert "rejected" in lines[3]
    assert "7.5e-07" in lines[4]


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5])
def test_impossible_shares_are_refused(share):
    """A share outside (0, 1] is refused."""
    with pytest.raises(ValueError, match="must lie in"):
        Ledger().grant("a", share)


def test_unknown_test_is_refused():
    """Evidence for a test without a grant is refused and the granted names are listed."""
    ledger = Ledger()
    ledger.grant("pairs", 0.5)
    with pytest.raises(ValueError, match=r"'tail' was granted no alpha; granted: \['pairs'\]"):
        ledger.reject_e("tail", 0.0)
