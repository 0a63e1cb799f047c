"""The judge: verdicts on made-up backends, without pytest between."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from aliquot.conformance import arrays
from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import exact_mass_cases, normal, request_params
from aliquot.conformance.faults.fault import per_row
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Concluded, Session
from aliquot.conformance.tiers import TIERS
from aliquot.contract.batch import Batch, BatchUpdate
from aliquot.contract.output import Logprobs, SamplerOutput
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import top_p
from aliquot.oracle.pipeline import replaced, steps_for
from aliquot.reports.results import SUPPORT, CheckResult, Verdict

Edit = Callable[[SamplerOutput, Batch], SamplerOutput]


@dataclass
class Edited(OracleBackend):
    """The oracle with its answer edited."""

    edit: Edit = lambda output, batch: output

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """The oracle's answer, edited."""
        return self.edit(super().sample(logits, batch), batch)


def judged(
    act: Callable[[Judge], None],
    edit: Edit = lambda output, batch: output,
    *,
    clause: str = "TOPK01",
    declared: Capabilities = DECLARED,
    steps: Any = None,
) -> CheckResult:
    """The result of one check on the oracle with its answer edited."""
    backend = Edited(steps=steps, capabilities=declared, edit=edit)
    session = Session("edited", backend, TIERS["smoke"], 0)
    judge = Judge(session, f"{clause}_check", (clause,), "title", "", alpha=1e-8)
    with contextlib.suppress(Concluded):
        act(judge)
    return judge.result("group")


def ids(change: Callable[[Any, Batch], Any]) -> Edit:
    """An edit of the sampled ids alone."""
    return lambda output, batch: replace(
        output, sampled_token_ids=change(output.sampled_token_ids, batch)
    )


def reported(change: Callable[[Logprobs], dict[str, Any]]) -> Edit:
    """An edit of the logprobs alone; `change` gives the fields to replace."""

    def edit(output: SamplerOutput, batch: Batch) -> SamplerOutput:
        if output.logprobs is None:
            return output
        return replace(output, logprobs=replace(output.logprobs, **change(output.logprobs)))

    return edit


FOUR = row("four", [3.0, 1.0, 2.0, 0.0], top_k=2)


def test_a_right_answer_passes() -> None:
    """The unedited oracle passes with its evidence named."""
    result = judged(lambda judge: judge.filters(FOUR))
    assert (result.verdict, result.evidence) == (Verdict.PASS, "exact, support")


def test_a_check_that_compares_nothing_is_an_error() -> None:
    """A check without evidence cannot pass."""
    result = judged(lambda judge: None)
    assert (result.verdict, result.reason) == (Verdict.ERROR, "the check compared nothing")


def test_what_is_not_declared_is_unsupported() -> None:
    """A missing parameter, dtype or mode ends the check with its name."""
    declared = replace(DECLARED, parameters=frozenset({"temperature"}), dtypes=())
    result = judged(lambda judge: judge.support(FOUR), declared=declared)
    assert result.verdict is Verdict.UNSUPPORTED
    assert result.reason == "not declared: top_k, dtype float32"


def test_a_declared_freedom_diverges() -> None:
    """A pass under a choice other than the canonical one is told as such."""
    profile = replace(DECLARED.profile, topk_ties="lowest_ids")
    declared = replace(DECLARED, profile=profile)
    ties = row("ties", [2.0, 1.0, 1.0], top_k=2)
    result = judged(lambda judge: judge.filters(ties), clause="TOPK02", declared=declared)
    assert result.verdict is Verdict.DIVERGES
    assert result.reason.startswith("as declared, topk_ties = lowest_ids: ")


def test_a_freedom_that_is_not_declared_fails_and_is_named() -> None:
    """Cutting ties by position without saying so is a finding, the freedom its likely cause."""
    profile = replace(DECLARED.profile, topk_ties="lowest_ids")

    @dataclass
    class Undeclared(OracleBackend):
        @property
        def profile(self) -> Any:
            return profile

    session = Session("undeclared", Undeclared(), TIERS["smoke"], 0)
    judge = Judge(session, "TOPK02_check", ("TOPK02",), "title", "", alpha=1e-8)
    with pytest.raises(Concluded):
        judge.filters(row("ties", [2.0, 1.0, 1.0], top_k=2))
    finding = judge.result("group").finding
    assert finding is not None
    assert finding.likely_cause is not None
    assert finding.likely_cause.endswith("ties at the k-th logit: lowest ids")
    assert finding.blames == ("TOPK02",)


def test_a_token_outside_the_support_is_found_with_its_share() -> None:
    """One forbidden token in the draws is a finding."""

    def third(sampled: Any, batch: Batch) -> Any:
        sampled[0, 0] = 3
        return sampled

    result = judged(lambda judge: judge.support(FOUR), ids(third))
    assert result.verdict is Verdict.FAIL
    assert result.finding is not None
    assert result.finding.wanted == "draws in {0, 2}"
    assert result.finding.got == "id 3, drawn 1 times in 64"


def test_a_biased_law_is_found() -> None:
    """Moving a twentieth of the draws from token 0 to 1 is found, and the e-value gates."""
    case = row("even", np.zeros(4))

    def biased(sampled: Any, batch: Batch) -> Any:
        chosen = sampled[:, 0]
        chosen[::5][chosen[::5] == 0] = 1
        return sampled

    opaque = replace(DECLARED, noise="opaque")
    result = judged(lambda judge: judge.law(case), ids(biased), clause="DRAW01", declared=opaque)
    assert result.verdict is Verdict.FAIL
    support, gate, *beside = result.statistics
    assert (support.method, gate.alpha) == (SUPPORT, 1e-8)
    assert [s.gates for s in beside] == [False, False]
    assert gate.log10_e is not None
    assert gate.log10_e > 8


def test_an_unbiased_law_passes() -> None:
    """The oracle's own draws pass and their frequencies are kept for the plot."""
    case = row("seven", normal(7, 1))
    result = judged(lambda judge: judge.law(case), clause="DRAW01")
    assert result.verdict is Verdict.PASS
    assert result.frequencies is not None
    assert sum(result.frequencies.drawn) == TIERS["smoke"].replay_draws
    assert result.evidence == "law, replay, support"


def test_a_law_whose_noise_is_unfair_is_found() -> None:
    """Draws that are right by their noise pass the replay; the e-process finds that the noise is not uniform."""

    class Unfair(OracleBackend):
        def uniforms(self, batch: Batch) -> Any:
            self.noise = super().uniforms(batch) ** 1.5
            return self.noise

    judge = Judge(Session("x", Unfair(), TIERS["smoke"], 0), "DRAW01_c", ("DRAW01",), "t", "", 1e-8)
    with pytest.raises(Concluded, match="likelier under another law"):
        judge.law(row("even", np.zeros(4)))
    assert judge.evidence == {"support", "replay"}


def test_a_value_one_ulp_off_is_found_in_exact_arithmetic() -> None:
    """A raw logit that is the neighbouring float32 number is a finding: raw logits are copies."""

    def nudged(found: Logprobs) -> dict[str, Any]:
        return {"values": np.nextafter(found.values, np.float32(9))}

    result = judged(lambda judge: judge.raw(FOUR), reported(nudged), clause="LOGP04")
    assert result.verdict is Verdict.FAIL
    assert result.finding is not None
    assert result.finding.wanted.startswith("raw_logits of token")


def test_a_lost_token_is_found() -> None:
    """A kept token that shows as -inf is a finding that names it."""

    def lost(found: Logprobs) -> dict[str, Any]:
        values = found.values.copy()
        if values.shape[1] == 4:
            values[:, 2] = -np.inf
        return {"values": values}

    result = judged(lambda judge: judge.processed(FOUR), reported(lost))
    assert result.finding is not None
    assert result.finding.got == "keeps 1: lost {2}, too many none"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda f: {"ranks": f.ranks + 1}, "rank "),
        (lambda f: {"token_ids": f.token_ids[:, [2, 1, 0]]}, "column 0 "),
        (lambda f: {"values": f.values[:, [0, 2, 1]]}, "raw_logprobs of token"),
        (lambda f: {"token_ids": f.token_ids[:, [0, 1, 1]]}, "different ids: 2"),
    ],
    ids=["rank", "sampled first", "values", "distinct"],
)
def test_reported_logprobs_are_judged(
    change: Callable[[Logprobs], dict[str, Any]], wanted: str
) -> None:
    """A wrong rank, order, value or repeated id in the logprobs is a finding."""
    case = row("five", [1.0, 5.0, 2.0, 4.0, 0.0], seed=3).asking("raw_logprobs", logprobs=2)
    right = judged(lambda judge: judge.reported(case), clause="LOGP07")
    wrong = judged(lambda judge: judge.reported(case), reported(change), clause="LOGP07")
    assert right.verdict is Verdict.PASS
    assert wrong.finding is not None
    assert wrong.finding.wanted.startswith(wanted)


def test_exact_mass_needs_every_row() -> None:
    """Keeping one more in all rows is a finding, in all but one of them is rounding."""
    from aliquot.conformance.faults import FAULTS

    cases = exact_mass_cases(48)
    steps = FAULTS["topp-edge-plus"].steps
    always = judged(lambda judge: judge.exact_mass(cases), clause="TOPP02", steps=steps)
    plain = row("plain", [2.0, 1.0, 0.0], top_p=0.5)
    once = judged(lambda judge: judge.exact_mass([*cases, plain]), clause="TOPP02", steps=steps)
    assert (always.verdict, once.verdict) == (Verdict.FAIL, Verdict.PASS)


def test_exact_mass_of_the_other_rule() -> None:
    """Of samplers that declare one more, one that stops in all rows is a finding, one that keeps it is not."""
    profile = Profile(topp_exact="one_more")
    cases = exact_mass_cases(48, "one_more")

    def stops(row: Any, r: int, context: Any) -> Any:
        just_below = context.params[r].top_p * (1 - 2.0**-20)
        return np.where(top_p.keep(row, just_below, CANONICAL), row, -np.inf)

    right = steps_for(profile)
    wrong = replaced(right, "top_p", per_row(stops))
    verdicts = [
        judged(lambda judge: judge.exact_mass(cases), clause="TOPP02", steps=steps,
               declared=replace(DECLARED, profile=profile)).verdict
        for steps in (right, wrong)
    ]  # fmt: skip
    assert len(cases) == 48
    assert verdicts == [Verdict.DIVERGES, Verdict.FAIL]


def test_a_bad_row_must_not_move_its_neighbours() -> None:
    """A neighbour of a NaN row that draws a token outside its support is a finding."""
    good = row("good", [0.0, 9.0], top_k=1)
    case = stacked("beside NaN", good, row("bad", [np.nan, 0.0]))

    def moved(sampled: Any, batch: Batch) -> Any:
        return np.zeros_like(sampled)

    assert judged(lambda j: j.contained(case, 1), clause="ERR17").verdict is Verdict.PASS
    result = judged(lambda j: j.contained(case, 1), ids(moved), clause="ERR17")
    assert result.verdict is Verdict.FAIL


def test_a_refusal_must_name_the_field() -> None:
    """ValueError without the field's name is not a refusal as the contract wants it."""

    class Mute(OracleBackend):
        def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
            raise ValueError("bad")

    session = Session("mute", Mute(), TIERS["smoke"], 0)
    judge = Judge(session, "ERR02_check", ("ERR02",), "title", "")
    with pytest.raises(Concluded, match="FAIL"):
        judge.refuses(row("r7", [1.0, 0.0], top_p=2.0), "top_p")


class Particular(OracleBackend):
    """Raises on a batch of three rows and on one without any."""

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Raise in a line of this file."""
        if len(batch) in (0, 3):
            raise RuntimeError("cannot")
        return super().sample(logits, batch)


def judge_of(backend: OracleBackend, clause: str) -> Judge:
    """The judge of one check of a clause."""
    return Judge(Session("b", backend, TIERS["smoke"], 0), f"{clause}_c", (clause,), "title", "")


def test_an_exception_on_a_legal_case_is_a_finding_with_its_place() -> None:
    """It breaks ERR18 whatever the check tests, and the reason has the message, file and line."""
    judge = judge_of(Particular(), "TOPK01")
    with pytest.raises(Concluded):
        judge.filters(stacked("three", *[FOUR] * 3))
    assert (judge.verdict, judge.clause_ids) == (Verdict.FAIL, ("ERR18",))
    assert "sample raised RuntimeError: cannot at test_judge.py:" in judge.reason
    assert judge.finding is not None
    assert judge.finding.witness["rows"] == 3


def test_a_check_that_asks_only_for_an_answer_blames_its_own_clause() -> None:
    """An exception there breaks what the check is about."""
    judge = judge_of(Particular(), "IO10")
    with pytest.raises(Concluded):
        judge.accepts(replace(FOUR, logits=FOUR.logits[:0], requests=()))
    assert (judge.verdict, judge.clause_ids) == (Verdict.FAIL, ("IO10",))


def test_a_clause_of_what_is_not_declared_is_not_tested() -> None:
    """A check that compared something under clauses that the declaration leaves out ends as UNSUPPORTED."""
    judge = judge_of(OracleBackend(), "MINP04")
    judge.undeclared = "min_p"
    judge.passed("exact", "compared")
    result = judge.result("group")
    assert (result.verdict, result.reason) == (Verdict.UNSUPPORTED, "not declared: min_p")


def test_padding_lies_between_the_rows() -> None:
    """A padded case has a row stride above V and the same logits."""
    case = replace(FOUR, padding=3)
    made = arrays.logits_for(case, DECLARED)
    assert made.strides[0] == 7 * made.strides[1]
    assert np.array_equal(made, FOUR.logits)


def test_tiles_are_requests_of_their_own() -> None:
    """Copies of a case have different request ids and the same rows."""
    tiled: Case = FOUR.tiled(3)
    assert [r.id for r in tiled.requests] == ["four.0", "four.1", "four.2"]
    assert np.array_equal(tiled.logits, np.tile(FOUR.logits, (3, 1)))


WIDE = row("wide", normal(500, 8), temperature=1.0)


def test_replay_agrees_with_the_oracle_itself() -> None:
    """The oracle's own uniforms give its own tokens."""
    result = judged(lambda judge: judge.replays(WIDE), clause="DRAW01")
    assert (result.verdict, result.evidence) == (Verdict.PASS, "replay")


def test_replay_finds_a_law_that_differs_by_a_thousandth() -> None:
    """A thousandth of the draws moved to the next token is found in 4,000 draws."""
    count = iter(range(10**6))

    def moved(sampled: Any, batch: Batch) -> Any:
        for place in range(len(sampled)):
            if next(count) % 1000 == 999:
                sampled[place] = (sampled[place] + 1) % 500
        return sampled

    result = judged(lambda judge: judge.replays(WIDE), ids(moved), clause="DRAW01")
    assert result.verdict is Verdict.FAIL
    assert result.finding is not None
    assert result.finding.effect is not None
    assert result.finding.effect.startswith("1 of 1000 draws differ")


def test_injected_noise_finds_a_masked_token() -> None:
    """A sampler that answers u = 1 with the last id, masked or not, is a finding."""

    def last_at_one(sampled: Any, batch: Batch) -> Any:
        return np.where(sampled == 3, 5, sampled)

    case = row("masked ends", [0.0] * 6, allowed_token_ids=[2, 3])
    result = judged(lambda j: j.extremes(case), ids(last_at_one), clause="DRAW05")
    assert result.finding is not None
    assert result.finding.wanted == "an id in {2, 3} for inverse_cdf noise 0.5"
    assert judged(lambda j: j.extremes(case), clause="DRAW05").verdict is Verdict.PASS


def test_a_history_that_keeps_the_first_request_is_found() -> None:
    """An adapter that ignores updates after the first is red at once."""

    @dataclass
    class Deaf(OracleBackend):
        def step(self, logits: Any, update: Any) -> SamplerOutput:
            return super().step(logits, update if not self.rows else None)

    changed = BatchUpdate(batch_size=1, added=[(0, request_params(8), [], [])])
    first = BatchUpdate(batch_size=1, added=[(0, request_params(0), [], [])])
    judge = Judge(Session("deaf", Deaf(), TIERS["smoke"], 0), "STATE03_c", ("STATE03",), "t", "")
    with pytest.raises(Concluded, match=r"FAIL .* keeps 12: lost none, too many"):
        judge.history("overwritten", [first, changed], 12)


def test_nan_in_place_of_minus_infinity_is_found() -> None:
    """A masked token that shows NaN is not masked."""

    def nan(found: Logprobs) -> dict[str, Any]:
        return {"values": np.where(found.values == -np.inf, np.float32(np.nan), found.values)}

    assert judged(lambda judge: judge.processed(FOUR), reported(nan)).verdict is Verdict.FAIL


def test_a_good_row_must_not_be_marked() -> None:
    """The mark of a bad row on a good one is an id out of range."""
    result = judged(lambda judge: judge.support(FOUR), ids(lambda sampled, batch: sampled * 0 - 1))
    assert (result.verdict, result.clauses) == (Verdict.FAIL, ("TOPK01", "IO08"))


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [("error", "an error that names row 1"), ("invalid_mark", "the mark -1")],
)
def test_a_bad_row_must_end_as_declared(choice: str, wanted: str) -> None:
    """A sampler that answers id 0 for a bad row and declares an error or a mark is red."""
    case = stacked("beside NaN", row("good", [9.0, 0.0], top_k=1), row("bad", [np.nan, 0.0]))
    declared = replace(DECLARED, profile=replace(DECLARED.profile, bad_row=choice))

    @dataclass
    class Lies(OracleBackend):
        def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
            return SamplerOutput(sampled_token_ids=np.zeros((len(batch), 1), np.int64))

    judge = Judge(
        Session("l", Lies(capabilities=declared), TIERS["smoke"], 0), "E", ("ERR16",), "t", ""
    )
    with pytest.raises(Concluded):
        judge.contained(case, 1)
    finding = judge.result("group").finding
    assert finding is not None
    assert finding.wanted == wanted


def test_any_ids_still_fixes_the_number() -> None:
    """A sampler that keeps all ties and declares exactly k of them is red."""
    declared = replace(DECLARED, profile=replace(DECLARED.profile, topk_ties="any_ids"))

    @dataclass
    class KeepsAll(OracleBackend):
        @property
        def profile(self) -> Any:
            return DECLARED.profile

    backend = KeepsAll(capabilities=declared)
    judge = Judge(Session("k", backend, TIERS["smoke"], 0), "T", ("TOPK02",), "t", "")
    with pytest.raises(Concluded, match="wanted 2 tokens kept, got 3 kept"):
        judge.filters(row("ties", [2.0, 1.0, 1.0], top_k=2))


def test_noise_that_is_not_injected_is_found() -> None:
    """A backend whose inject does nothing cannot pass."""

    @dataclass
    class Ignores(OracleBackend):
        def inject(self, values: Any) -> None:
            pass

    judge = Judge(Session("i", Ignores(), TIERS["smoke"], 0), "D", ("DRAW05",), "t", "")
    with pytest.raises(Concluded, match="wanted the injected noise to be used"):
        judge.extremes(FOUR)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accuracy", "float99"),
        ("noise", "replay"),
        ("arrays", "jax"),
        ("dtypes", "float32"),
        ("dtypes", ("float8",)),
        ("parameters", ["top_k"]),
        ("parameters", frozenset({"temprature"})),
        ("logprobs_modes", ("raw",)),
    ],
)
def test_a_capability_that_does_not_exist_is_refused(name: str, value: Any) -> None:
    """A wrong declaration names the field, the value and what is allowed."""
    with pytest.raises(ValueError, match=f"capabilities: {name} .* allowed"):
        Capabilities(name="x", **{name: value})
