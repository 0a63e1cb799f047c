"""Every profile, not the canonical one alone: the sampler beside the oracle on generated rows."""

from dataclasses import replace

import numpy as np
import pytest

from aliquot.conformance.adapters.fast import FastBackend
from aliquot.conformance.corpus.generated import cases
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Session
from aliquot.conformance.tiers import TIERS
from aliquot.contract.profile import FREEDOMS, Profile
from aliquot.reports.results import Verdict

FREE = [freedom for freedom in FREEDOMS if freedom.name not in ("bad_row", "topk_off")]


def profile_of(number):
    """A random choice of every freedom about rows that have a law."""
    rng = np.random.default_rng(number)
    return Profile(bad_row="invalid_mark", **{f.name: str(rng.choice(f.choices)) for f in FREE})


@pytest.mark.parametrize("number", range(16))
def test_filters_of_a_profile(number):
    """What the filters keep and every value shown are the oracle's under the same profile."""
    backend = FastBackend()
    profile = profile_of(number)
    backend.capabilities = replace(backend.capabilities, profile=profile)
    backend.sampler.profile = profile
    session = Session("fast", backend, TIERS["smoke"], number)
    judge = Judge(session, "profile", ("TOPP01",), "title", "", alpha=0.0)
    judge.searched(cases(backend.capabilities.parameters), judge.processed)
    assert judge.result("profiles").verdict in (Verdict.PASS, Verdict.DIVERGES)
