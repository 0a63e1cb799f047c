"""The state machine: what it finds, how small, and that it finds the same again."""

import contextlib
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.backend import Capabilities, load
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Concluded, Session
from aliquot.conformance.state_machine.engine import Change, Engine, Habit
from aliquot.conformance.state_machine.machine import HistorySearch, judge_histories
from aliquot.conformance.state_machine.requests import Requests
from aliquot.conformance.state_machine.witness import told
from aliquot.conformance.tiers import TIERS
from aliquot.contract.batch import BatchUpdate, LogprobsMode, MoveDirectionality, Request
from aliquot.contract.output import SamplerOutput
from aliquot.oracle import batch_state
from aliquot.reports.results import CheckResult, Verdict

STEPS, FEW = 1500, 300
MOST_STEPS, MOST_REQUESTS = 5, 3


@dataclass
class BySlot(OracleBackend):
    """The oracle with something kept by slot: `follow` keeps it, `seen` makes it act."""

    def start(self, vocab_size: int, mode: Any) -> None:
        """Begin with empty slots."""
        super().start(vocab_size, mode)
        self.kept: dict[int, Any] = {}

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Sample the requests as the slots show them."""
        if update is not None:
            self.follow(update)
        self.rows = batch_state.apply_update(self.rows, update)
        seen = {row: self.seen(row, request) for row, request in self.rows.items()}
        return self.sample(
            logits, batch_state.batch_of(seen, self.vocab_size, logprobs_mode=self.mode)
        )

    def follow(self, update: BatchUpdate) -> None:
        """Follow an update."""

    def seen(self, row: int, request: Request) -> Request:
        """The request as the slot shows it."""
        return request


def with_params(request: Request, **params: Any) -> Request:
    """The request with other parameters."""
    return replace(request, params=replace(request.params, **params))


class BiasStays(BySlot):
    """A bias is kept by slot and does not move with its request."""

    def follow(self, update: BatchUpdate) -> None:
        """Only adds and removals change a slot."""
        self.kept |= {row: {} for row in update.removed}
        self.kept |= {row: params.logit_bias for row, params, _, _ in update.added}

    def seen(self, row: int, request: Request) -> Request:
        """The slot's bias."""
        return with_params(request, logit_bias=self.kept.get(row, {}))


class LengthNotReset(BySlot):
    """The number of tokens for min_tokens is counted by slot and not reset when the slot is used again."""

    def seen(self, row: int, request: Request) -> Request:
        """Count one more token."""
        self.kept[row] = self.kept.get(row, -1) + 1
        over = self.kept[row] >= request.params.min_tokens
        return with_params(request, min_tokens=0) if over else request


class GeneratorStays(BySlot):
    """The generator of a seeded request stays in its slot when the request moves."""

    def follow(self, update: BatchUpdate) -> None:
        """Only adds fill a slot."""
        self.kept |= {row: params.seed for row, params, _, _ in update.added}

    def seen(self, row: int, request: Request) -> Request:
        """Draw with the slot's generator."""
        return with_params(request, seed=self.kept.get(row))


class NoiseRestarts(BySlot):
    """The noise of a preempted request starts anew when it comes back."""

    def follow(self, update: BatchUpdate) -> None:
        """Note how much output there was before an add."""
        self.kept |= {id(output): len(output) for _, _, _, output in update.added}

    def seen(self, row: int, request: Request) -> Request:
        """The same request; its output counts from the add for a seeded draw."""
        since = self.kept[id(request.output_token_ids)]
        if request.params.seed is None or since == 0:
            return request
        return with_params(request, seed=(request.params.seed + since) % 2**62)


class CountsOfSlot(BySlot):
    """Tokens counted for penalties stay in a slot when a request is added over another."""

    def follow(self, update: BatchUpdate) -> None:
        """An add over a request keeps that one's tokens."""
        over = {row: self.rows[row] for row, _, _, _ in update.added if row in self.rows}
        self.kept = {
            row: list(old.output_token_ids)
            for row, old in over.items()
            if row not in update.removed
        }

    def seen(self, row: int, request: Request) -> Request:
        """The slot's tokens come before the request's."""
        if row not in self.kept:
            return request
        return replace(request, output_token_ids=[*self.kept[row], *request.output_token_ids])


class AddedBeforeRemoved(BySlot):
    """Allow-lists are added, then removed: a request in a freed row loses its own."""

    def follow(self, update: BatchUpdate) -> None:
        """Note the rows that are removed and added."""
        self.kept = {} if update.moved else dict.fromkeys(update.removed)

    def seen(self, row: int, request: Request) -> Request:
        """No list where the slot was freed."""
        return with_params(request, allowed_token_ids=None) if row in self.kept else request


LIBRARY = ("swap-alias", "output-copied", "condense-leak")
OWN = (BiasStays, LengthNotReset, GeneratorStays, NoiseRestarts, CountsOfSlot, AddedBeforeRemoved)


def made(name: str) -> Any:
    """A faulty backend by its name."""
    own = {backend.__name__: backend for backend in OWN}
    return own[name]() if name in own else load(f"fault:{name}")


def judge_of(backend: Any, seed: int = 0) -> Judge:
    """A judge of one search."""
    session = Session("made", backend, TIERS["smoke"], seed)
    return Judge(session, "STATE06_search", ("STATE06",), "title", "")


def judged(backend: Any, seed: int = 0, steps: int = STEPS) -> CheckResult:
    """The result of one search."""
    judge = judge_of(backend, seed)
    with contextlib.suppress(Concluded):
        judge_histories(judge, steps)
    return judge.result("state")


@pytest.mark.parametrize("name", [*LIBRARY, *(backend.__name__ for backend in OWN)])
def test_a_planted_fault_is_found_and_shrinks(name: str) -> None:
    """A fault of the kept state is found, its history at most three requests and five steps."""
    found = HistorySearch(judge_of(made(name), 2), 4 * STEPS).run()
    assert found is not None
    assert found.requests <= MOST_REQUESTS
    assert len(found.steps) <= MOST_STEPS


def test_the_oracle_passes_and_says_how_far_it_was_looked_at() -> None:
    """The oracle has no departure in at least the steps asked for."""
    result = judged(OracleBackend(), steps=FEW)
    assert result.verdict is Verdict.PASS
    assert int(result.reason.split()[0]) >= FEW


def test_the_witness_tells_the_history() -> None:
    """The finding holds each step's update, the requests with what they ask for, and what the row is instead."""
    finding = judged(made("output-copied")).finding
    assert finding is not None
    first, second = finding.witness["history"]
    assert first.startswith("request 0 at row 0 (frequency_penalty=0.5, presence_penalty=1.5")
    assert second == "no update"
    assert finding.likely_cause is not None


def test_the_same_seed_gives_the_same_finding_whatever_ran_before() -> None:
    """A search does not depend on earlier searches on the same backend; another seed searches elsewhere."""
    backend = made("swap-alias")
    first = judged(backend)
    judged(backend, seed=5, steps=1)
    assert judged(backend) == first
    assert first.verdict is Verdict.FAIL
    assert HistorySearch(judge_of(backend), 1).seed != HistorySearch(judge_of(backend, 5), 1).seed


def test_a_fault_of_one_row_needs_no_history() -> None:
    """What departs in a fresh batch as well is told with one request, one step and its own cause."""
    finding = judged(made("rep-sign")).finding
    assert finding is not None
    assert len(finding.witness["history"]) == 1
    assert finding.likely_cause is not None
    assert "repetition" in finding.likely_cause


def test_tokens_alone_are_enough() -> None:
    """A backend that shows no values is judged by its tokens."""
    declared = replace(DECLARED, logprobs_modes=(), given_logprobs=False)
    assert judged(OracleBackend(capabilities=declared), steps=FEW).verdict is Verdict.PASS
    assert judged(BiasStays(capabilities=declared)).verdict is Verdict.FAIL


def test_a_backend_without_state_is_unsupported() -> None:
    """Nothing is searched where `stateful` is not declared."""
    result = judged(OracleBackend(capabilities=replace(DECLARED, stateful=False)))
    assert (result.verdict, result.reason) == (Verdict.UNSUPPORTED, "not declared: stateful")


class Raises(OracleBackend):
    """Fails on the third request of a batch."""

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Raise for three rows."""
        if len(logits) == 3:
            raise RuntimeError("three is a crowd")
        return super().step(logits, update)


def test_an_exception_is_a_finding_with_the_history_before_it() -> None:
    """What the backend raises is a failure of ERR18 whose witness has the steps that led there."""
    result = judged(Raises())
    assert (result.verdict, result.clauses) == (Verdict.FAIL, ("ERR18",))
    assert "step raised RuntimeError: three is a crowd at test_state_machine.py:" in result.reason
    assert result.finding is not None
    history = result.finding.witness["history"]
    assert history[0].startswith("request 0 at row 0")
    assert not any("request 3" in step for step in history)


class NeverStarts(OracleBackend):
    """Cannot begin."""

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Raise."""
        raise RuntimeError("no room")


def test_an_exception_before_the_first_step_is_a_finding() -> None:
    """A batch that cannot even begin is a failure of ERR18 without a history."""
    result = judged(NeverStarts())
    assert (result.verdict, result.clauses) == (Verdict.FAIL, ("ERR18",))
    assert "start raised RuntimeError: no room" in result.reason


class OneColumn(OracleBackend):
    """Shows one value a row once two rows are there."""

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Cut the values."""
        output = super().step(logits, update)
        if len(logits) < 2 or output.logprobs is None:
            return output
        return replace(output, logprobs=replace(output.logprobs, values=output.logprobs.values[:, :1],
                                                token_ids=output.logprobs.token_ids[:, :1]))  # fmt: skip


def test_an_answer_of_the_wrong_form_is_a_finding() -> None:
    """Values of another shape than the rows are a finding after two requests."""
    finding = judged(OneColumn()).finding
    assert finding is not None
    assert finding.got == "shape (2, 1)"


class Fickle(BySlot):
    """Loses a request's bias at random."""

    noise_of_its_own = random.Random(1)

    def seen(self, row: int, request: Request) -> Request:
        """No bias in one step of four."""
        lost = self.noise_of_its_own.random() < 0.25
        return with_params(request, logit_bias={}) if lost else request


def test_a_fault_that_does_not_repeat_is_a_finding() -> None:
    """A departure that comes and goes ends as FAIL with the smallest history seen."""
    result = judged(Fickle())
    assert result.verdict is Verdict.FAIL
    assert result.finding is not None
    assert result.finding.witness["history"]


def played(*changes: Change, capabilities: Capabilities = DECLARED) -> tuple[Engine, list[str]]:
    """An engine after some changes, and the history in words."""
    asked = Requests.made(
        np.random.default_rng(0), capabilities.parameters, "processed_logits", True
    )
    engine = Engine(OracleBackend(capabilities=capabilities), asked)
    for change in changes:
        engine.play(change)
    return engine, told(engine.steps, asked)


THREE = Change(come=(0, 1, 0))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (Change(leave=(2,)), "row 0 removed; row 2 to 0"),
        (Change(leave=(2,), habit=Habit.SWAPPED), "row 0 removed; row 0 swapped with 2"),
        (Change(leave=(2,), habit=Habit.OVERWRITTEN), "row 2 to 0"),
        (Change(leave=(0,), habit=Habit.OVERWRITTEN), "row 2 removed"),
        (Change(leave=(1,), come=(1,)), "row 1 removed; request 3 at row 1 (temperature=0.0)"),
        (Change(leave=(1,), come=(1,), habit=Habit.OVERWRITTEN), "request 3 at row 1 (temperature=0.0)"),
        (Change(swaps=((0, 2), (1, 1))), "row 2 swapped with 0"),
        (Change(back=1), "no update"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_updates_tell_of_changes(change: Change, wanted: str) -> None:
    """Removals, adds and moves are written as each habit has it."""
    assert played(THREE, change)[1][1] == wanted


def test_a_preempted_request_comes_back_with_its_output() -> None:
    """It keeps its running list, or brings an equal one of its own."""
    engine, history = played(
        Change(come=(1,)), Change(leave=(0,), preempted=True), Change(back=1, copied=True)
    )
    assert history[1] == "row 0 removed"
    assert history[2].startswith("request 0 at row 0 (temperature=0.0, output=[")
    assert len(engine.rows[0].output) == 2


def test_the_order_of_an_update_is_kept() -> None:
    """One update may free a row, fill it and move the newcomer: the engine's rows follow the contract."""
    engine, _ = played(THREE, Change(leave=(2,), come=(4,), swaps=((2, 0),)))
    update = engine.steps[1].update
    assert update is not None
    assert update.moved == [(0, 2, MoveDirectionality.SWAP)]
    assert [live.kind for live in engine.rows] == [0, 1, 4]
