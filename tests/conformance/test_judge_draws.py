"""The judge's evidence by pairs, tails, batches and search, on samplers that are wrong in one way."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.generated import cases
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Concluded, Session
from aliquot.conformance.plugin import accounted
from aliquot.conformance.tiers import TIERS
from aliquot.contract.batch import Batch
from aliquot.contract.output import SamplerOutput
from aliquot.contract.profile import Profile
from aliquot.oracle.pipeline import CONTRACT, removed
from aliquot.reports.results import CheckResult, Verdict

Ids = Any
FLAT = stacked("flat", *[row("flat", np.zeros(64))] * 8)


@dataclass
class Bent(OracleBackend):
    """The oracle with its ids bent: `bend` gets the ids of this call and those of the first."""

    bend: Callable[[Ids, Ids], Ids] = lambda ids, first: ids
    first: list[Ids] = field(default_factory=list)

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """The oracle's answer, bent."""
        output = super().sample(logits, batch)
        self.first.append(output.sampled_token_ids.copy())
        bent = self.bend(output.sampled_token_ids, self.first[0])
        return SamplerOutput(sampled_token_ids=bent, logprobs=output.logprobs)


def judged(act: Callable[[Judge], None], backend: OracleBackend) -> CheckResult:
    """The result of one check of a backend."""
    judge = Judge(Session("b", backend, TIERS["smoke"], 0), "DRAW03_c", ("DRAW03",), "t", "", 1e-8)
    with contextlib.suppress(Concluded):
        act(judge)
    return judge.result("group")


@pytest.mark.parametrize(
    ("bend", "named"),
    [
        (lambda ids, first: np.broadcast_to(ids[:1], ids.shape), "rows"),
        (lambda ids, first: first, "steps"),
    ],
    ids=["one noise for all rows", "one noise for all steps"],
)
def test_shared_noise_is_found_and_told_apart(bend: Callable[[Ids, Ids], Ids], named: str) -> None:
    """Noise shared by rows or by steps is a finding that says which, though every marginal is right."""
    result = judged(lambda judge: judge.independent(FLAT), Bent(bend=bend))
    assert result.verdict is Verdict.FAIL
    assert result.reason.rpartition("by ")[2].startswith(named)


def test_independent_draws_pass_with_their_effect() -> None:
    """The oracle's own draws pass, and the effect that would have been found is told."""
    result = judged(lambda judge: judge.independent(FLAT), Bent())
    effect = result.statistics[0].mde_tv
    assert result.verdict is Verdict.PASS
    assert effect is not None
    assert 0 < effect < 1


def test_seeds_that_agree_are_found() -> None:
    """Pairs of rows that always draw the same id are a finding."""
    bent = Bent(bend=lambda ids, first: np.repeat(ids[::2], 2, axis=0))

    def act(judge: Judge) -> None:
        judge.unlike(FLAT, [(0, 1), (2, 3)], judge.stepped(FLAT, 8))

    assert judged(act, bent).verdict is Verdict.FAIL
    assert judged(act, Bent()).verdict is Verdict.PASS


def test_a_lost_tail_is_found() -> None:
    """A sampler that never draws the tail is red, the oracle is not."""
    lost = judged(lambda judge: judge.tail(), Bent(bend=lambda ids, first: ids * 0))
    assert lost.verdict is Verdict.FAIL
    assert lost.finding is not None
    assert lost.finding.effect == "100% of the tail lost"


def test_noise_that_is_capped_is_found() -> None:
    """A sampler that answers the best token for noise of 2^-40 is red."""
    result = judged(lambda judge: judge.fine_noise(), Bent(bend=lambda ids, first: ids * 0 + 1))
    assert (result.verdict, judged(lambda j: j.fine_noise(), Bent()).verdict) == (
        Verdict.FAIL,
        Verdict.PASS,
    )


KINDS = [row("greedy", [0.0, 2.0, 1.0], temperature=0.0), row("seeded", [0.0, 0.5, 0.2], seed=5)]


@pytest.mark.parametrize(("size", "verdict"), [(7, Verdict.PASS), (8, Verdict.FAIL)])
def test_a_fault_that_depends_on_the_batch_size_is_found(size: int, verdict: Verdict) -> None:
    """A sampler that answers the next id from eight rows on is red at eight, and not below."""
    bent = Bent(bend=lambda ids, first: (ids + (len(ids) >= 8)) % 3)
    assert judged(lambda judge: judge.alike(KINDS, size), bent).verdict is verdict


def test_kinds_that_are_not_declared_are_left_out_and_told() -> None:
    """Without a kind that the backend can take, the check is UNSUPPORTED and names the parameter."""
    backend = Bent()
    backend.capabilities = replace(backend.capabilities, parameters=frozenset({"temperature"}))
    some = judged(lambda judge: judge.alike(KINDS, 4), backend)
    none = judged(lambda judge: judge.alike(KINDS[1:], 4), backend)
    assert some.verdict is Verdict.PASS
    assert (none.verdict, none.reason) == (Verdict.UNSUPPORTED, "not declared: seed")


def test_a_search_ends_with_a_small_row_and_finds_it_again() -> None:
    """A sampler without top-k is shown by two tokens, and by the same ones in a second run."""

    def act(judge: Judge) -> None:
        judge.searched(cases(frozenset({"top_k", "temperature"})), judge.processed)

    first, second = (judged(act, OracleBackend(steps=removed(CONTRACT, "top_k"))) for _ in "ab")
    assert first.finding is not None
    assert first.finding == second.finding
    assert first.finding.witness["params"] == {"top_k": 1, "logprobs": -1}
    assert len(first.finding.witness["logits"]) == 2


@pytest.mark.parametrize(
    ("error", "verdict"), [(ValueError, Verdict.PASS), (IndexError, Verdict.FAIL)]
)
def test_what_the_contract_leaves_open_may_be_refused(
    error: type[Exception], verdict: Verdict
) -> None:
    """ValueError for an odd row is an answer, another exception is none."""

    def raised(ids: Ids, first: Ids) -> Ids:
        raise error("odd")

    case = stacked("two", *KINDS)
    assert judged(lambda judge: judge.survives(case, 0), Bent(bend=raised)).verdict is verdict


def of_ids_alone(profile: dict[str, str] | None = None) -> OracleBackend:
    """The oracle under other freedoms than it declares, showing neither values nor noise."""
    declared = replace(DECLARED, noise="opaque", logprobs_modes=())

    class Hidden(OracleBackend):
        @property
        def profile(self) -> Profile:
            return replace(DECLARED.profile, **profile or {})

    return Hidden(capabilities=declared)


def filtered(backend: OracleBackend, *cases: Case, unseen: float = 1e-9) -> Judge:
    """The judge of a check that filters some cases."""
    session = Session("b", backend, TIERS["smoke"], 0)
    judge = Judge(session, "TOPK02_c", ("TOPK02",), "t", "", unseen_alpha=unseen)
    with contextlib.suppress(Concluded):
        for case in cases:
            judge.filters(case)
    return judge


TIED = row("tied", [3.0, 2.0, 2.0, 2.0, 0.0], top_k=2)


def test_a_token_that_must_stay_is_demanded_of_a_sampler_that_shows_only_ids() -> None:
    """One that cuts ties draws inside the allowed set all the same; that a kept token never comes is the finding."""
    result = filtered(of_ids_alone({"topk_ties": "lowest_ids"}), TIED).result("group")
    assert result.verdict is Verdict.FAIL
    assert "; id 2 of probability 0.175 was not drawn in 1024" in result.reason
    assert result.finding is not None
    assert result.finding.likely_cause is not None
    assert result.finding.likely_cause.endswith("ties at the k-th logit: lowest ids")
    assert result.alpha == 1e-9


def test_a_row_of_which_nothing_surely_stays_has_no_law_to_test() -> None:
    """Of tied maxima any one may be k = 1's: a sampler that declares so draws only one of them and passes."""
    backend = of_ids_alone({"topk_ties": "lowest_ids"})
    freedom = replace(backend.capabilities.profile, topk_ties="any_ids")
    backend.capabilities = replace(backend.capabilities, profile=freedom)
    result = filtered(backend, row("two maxima", [2.0, 2.0, 0.0], top_k=1)).result("group")
    assert (result.verdict, result.evidence) == (Verdict.DIVERGES, "support")


def test_laws_of_rows_that_are_not_shown_share_the_alpha_of_their_check() -> None:
    """A right sampler passes many of them, and they spend no more than granted."""
    judge = filtered(of_ids_alone(), *[TIED] * 40)
    result = judge.result("group")
    spent = math.fsum(s.alpha for s in result.statistics if s.gates)
    assert result.verdict is Verdict.PASS
    assert len([s for s in result.statistics if s.alpha]) == 40
    assert 0 < spent <= result.alpha == 1e-9
    assert accounted(result) == result


@pytest.mark.parametrize("backend", [OracleBackend(), of_ids_alone()], ids=["shown", "no share"])
def test_no_alpha_is_spent_where_rows_are_shown_or_none_is_granted(backend: OracleBackend) -> None:
    """The check is then decided without chance."""
    shown = bool(backend.capabilities.logprobs_modes)
    result = filtered(backend, TIED, unseen=1e-9 if shown else 0.0).result("group")
    assert (result.verdict, result.alpha) == (Verdict.PASS, 0.0)
    assert [s.alpha for s in result.statistics if s.alpha] == []
