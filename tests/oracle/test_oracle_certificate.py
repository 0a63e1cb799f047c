"""A sample of the certificate: the oracle against 50 digits, and whether the comparison can fail."""

import json

import certify
import numpy as np
import oracle_mpmath
import pytest
from mpmath import mpf
from oracle_cases import batch, request

from aliquot.oracle import min_p, softmax, top_p


@pytest.mark.parametrize("block", range(6))
def test_sample_of_the_certificate(block):
    """Every claim holds on 100 rows of each of six blocks."""
    tally = certify.certify_block(1_000_000 + block, rows=100)
    assert [name for name, holds in tally.claims().items() if not holds] == []
    assert tally.rows > 50


def test_certificate_in_the_docs_holds():
    """The result that the page shows covers 100,000 rows and all its claims."""
    result = json.loads((certify.DOCS / "certificate" / "result.json").read_text("utf-8"))
    tally = certify.Tally(**result["found"])
    assert (tally.rows >= 100_000, all(tally.claims().values())) == (True, True)
    assert (certify.DOCS / "certificate.md").read_text("utf-8") == certify.page(result)


def failing(*blocks):
    """The claims that fail on some blocks."""
    tally = certify.total(certify.certify_block(1_000_000 + block, rows=100) for block in blocks)
    return [name for name, holds in tally.claims().items() if not holds]


def test_a_naive_log_softmax_is_found(monkeypatch):
    """log(softmax) loses the digits of logprobs near 0."""

    def naive(rows):
        with np.errstate(divide="ignore"):
            return np.log(softmax.softmax(rows))

    monkeypatch.setattr(certify, "log_softmax", naive)
    assert "raw logprobs within 4 * 2^-53 relative" in failing(0, 1)


def test_a_nucleus_of_another_p_is_found(monkeypatch):
    """A nucleus for p + 0.01 keeps other tokens than the exact one in a few rows."""
    exact = top_p.nucleus_size
    monkeypatch.setattr(top_p, "nucleus_size", lambda d, p, e: exact(d, min(p + 1e-2, 1.0), e))
    assert "keep sets equal unless the margin is below the bound" in failing(*range(6))


def test_a_strict_min_p_is_found(monkeypatch):
    """Dropping the largest token's equals under min_p is found by kept sets."""
    monkeypatch.setattr(min_p, "keep", lambda row, p: np.arange(row.size) == row.argmax())
    assert "keep sets equal unless the margin is below the bound" in failing(*range(6))


def test_fifty_digits_by_hand():
    """Two tokens, a third and two thirds: the evaluation itself is right."""
    asks = batch(request(temperature=0.5, logit_bias={0: 0.5}), vocab_size=2)
    exact = oracle_mpmath.evaluate([0.0, 0.5], asks.requests[0], asks, 0)
    assert exact.filtered == [mpf(1), mpf(1)]
    assert abs(oracle_mpmath.logprobs(exact.filtered)[0] + oracle_mpmath.mp.log(2)) < mpf(10) ** -48
