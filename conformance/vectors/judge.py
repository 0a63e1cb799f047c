"""The suites' judge on answers from a desk: what has no answer is told, never passed."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from aliquot.conformance import replay_test
from aliquot.conformance.case import Case
from aliquot.conformance.judge import Judge
from aliquot.conformance.vectors.backend import VectorBackend
from aliquot.conformance.vectors.desk import NotAnswered, Refused
from aliquot.conformance.vectors.question import DRAWS, IDS, KEPT, LOGPROBS, REPLAYS
from aliquot.contract.batch import LOGPROBS_MODES
from aliquot.contract.output import INVALID_TOKEN
from aliquot.reports.results import Finding, Verdict

RACE_VALUES = 1 << 18
LEAST_RACES = 64
UNIFORM_BITS = 24
SEARCH = "what a search asks next depends on the answers"
NOT_IN_DATA = {
    "IO02": "a row's stride is not part of the files",
    "IO05": "whether the input was written to is not seen in answers",
    "IO06": "the format sets the shape of sampled ids",
    "IO07": "the format sets the dtype of ids",
    "IO09": "the format sets shapes and dtypes of logprobs",
    "IO10": "the format sets the shape of an empty answer",
    "LOGP01": "a program answers only what is asked",
    "STATE06": SEARCH,
    "ERR14": "the files hold no shapes that disagree",
}
"""Clauses that answers in files cannot show, and why."""


@dataclass
class VectorJudge(Judge):
    """Judges one check; `backend` is the session's own, `words` the command that judged."""

    words: tuple[str, ...] = ()
    unanswered: list[str] = field(default_factory=list)
    not_offered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reasons = [NOT_IN_DATA[c] for c in self.clause_ids if c in NOT_IN_DATA]
        self.clause_ids = tuple(c for c in self.clause_ids if c not in NOT_IN_DATA)

    @property
    def backend(self) -> VectorBackend:
        """The session's backend."""
        assert isinstance(self.session.backend, VectorBackend)
        return self.session.backend

    def reproduce(self) -> str:
        """The command that judges this check alone."""
        return shlex.join([*self.words, "--only", self.check_id])

    # What has no answer

    def missing(self, absent: NotAnswered) -> None:
        """Note a question without an answer."""
        noted = self.unanswered if absent.offered else self.not_offered
        noted.append(str(absent))

    def if_answered(self, evidence: Callable[..., Any], *arguments: Any) -> None:
        """Gather evidence; a question without an answer is noted and the check goes on."""
        try:
            evidence(*arguments)
        except NotAnswered as absent:
            self.missing(absent)

    def _finish(self) -> None:
        """A check with questions left open has not passed.

        A kind of answer that the program gives nowhere leaves a check open only if nothing else decides it.
        """
        missing = self.unanswered or ([] if self.notes else self.not_offered)
        super()._finish()
        if missing:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            self.verdict = Verdict.UNSUPPORTED
            self.reason = f"not answered: {missing[0]}{others}"

    def shows(self, mode: str) -> bool:
        """Whether whole rows in a mode, or the kept ids of processed ones, are answered anywhere."""
        desk = self.backend.desk
        return desk.offers(mode) or (mode == LOGPROBS_MODES[2] and desk.offers(KEPT))

    def needs(self, *modes: str) -> None:
        """End as UNSUPPORTED when values in none of these modes are answered."""
        offers = self.backend.desk.offers
        if not any(offers(mode) or offers(f"{LOGPROBS} {mode}") for mode in modes):
            self.conclude(Verdict.UNSUPPORTED, f"not answered: values in {' or '.join(modes)}")

    def ask(self, what: str, method: str, *arguments: Any) -> Any:
        """Ask the desk; a case that the program refused and should have answered ends the check as FAIL."""
        try:
            return getattr(self.backend, method)(*arguments)
        except Refused as refusal:
            self.finding = Finding(
                witness={"case": what}, wanted="an answer", got=str(refusal),
                reproduce=self.reproduce(),
            )  # fmt: skip
            self.conclude(Verdict.FAIL, f"wanted an answer to {what}, got {refusal}")

    def demand(self, case: Case, method: str, *arguments: Any) -> Any:
        """As `ask`."""
        return self.ask(case.name, method, *arguments)

    def fail(self, case: Case, row: int, wanted: str, got: str, **more: Any) -> NoReturn:
        """As the suites, but for asking the sampler anew to find the cause: all its answers are written."""
        self.backend.closed = True
        super().fail(case, row, wanted, got, **more)

    # Evidence

    def greedy(self, case: Case) -> None:
        """As the suites, where answered."""
        self.if_answered(super().greedy, case)

    def filters(self, case: Case) -> None:
        """Whole rows, kept ids and draws, those that are answered."""
        self.supports(case)
        self.processed(case)
        self.if_answered(self._by_draws, case)

    def _by_draws(self, case: Case) -> None:
        """As the suites, of as many draws where rows are shown: the files are the same for every program."""
        ids = self.support(case, self._unseen_draws(case))
        if not self._sees_rows:
            self._unseen(case, ids)

    def law(self, case: Case) -> None:
        """As the suites, where answered."""
        self.if_answered(super().law, case)

    def contained(self, case: Case, bad: int) -> None:
        """As the suites, where answered."""
        self.if_answered(super().contained, case, bad)

    def refuses(self, case: Case, name: str) -> None:
        """As the suites, where answered."""
        with self._wanting(IDS):
            self.if_answered(super().refuses, case, name)

    def history(self, name: str, updates: Any, vocab_size: int) -> None:
        """As the suites, where answered."""
        self.if_answered(super().history, name, updates, vocab_size)

    def given(self, case: Case, token_ids: Sequence[int]) -> None:
        """As the suites, where answered."""
        self.if_answered(super().given, case, token_ids)

    def reported(self, case: Case) -> None:
        """As the suites, where answered: sampled ids, columns, values and ranks together."""
        with self._wanting(LOGPROBS):
            self.if_answered(super().reported, case)

    @contextmanager
    def _wanting(self, kind: str | None) -> Iterator[None]:
        """Calls in this context ask for one kind of answer, whatever their batch says."""
        self.backend.wants = kind
        try:
            yield
        finally:
            self.backend.wants = None

    def _values(self, case: Case) -> None:
        """Whole rows, or only the ids that they keep."""
        if self.backend.desk.offers(case.mode):
            with self._wanting(case.mode):
                self.if_answered(super()._values, case)
        else:
            self.if_answered(self._kept_ids, case)

    def _kept_ids(self, case: Case) -> None:
        """Fail unless every row keeps what it must and nothing that it may not."""
        expected, kept = self.expect(case), self.backend.kept(case)
        for r in range(len(case.requests)):
            values = np.where(kept[r], np.maximum(expected.shown.hi[r], -3e38), -np.inf)
            self._row_values(case, r, expected, values)
        self.passed("must/may", "kept ids hold what they must and nothing that they may not")

    def _keeps_edge(self, case: Case, one_more: bool) -> bool:
        with self._wanting(LOGPROBS_MODES[2] if self.shows(LOGPROBS_MODES[2]) else None):
            return super()._keeps_edge(case, one_more)

    def searched(self, cases: Any, judge: Callable[[Case], None]) -> None:
        """Not in the vectors: what a search asks next depends on the answers."""
        self.conclude(Verdict.UNSUPPORTED, f"not in the vectors: {SEARCH}")

    def drawn(self, case: Case, draws: int, bad: int | None = None) -> npt.NDArray[np.int64]:
        """The first `draws` draws answered for every row of the case: int64 [draws, rows]."""
        ids = self.backend.draws(case, DRAWS, draws)
        self._in_range(case, ids, bad)
        return ids

    def _in_range(self, case: Case, ids: npt.NDArray[np.int64], bad: int | None = None) -> None:
        for r in range(ids.shape[1]):
            least = INVALID_TOKEN if r == bad else 0
            outside = ids[(ids[:, r] < least) | (ids[:, r] >= case.vocab_size), r]
            if outside.size:
                self.clause_ids = ("IO08",)
                self.fail(case, r, f"ids in [0, {case.vocab_size})", f"id {outside[0]}")

    @property
    def _replayable(self) -> bool:
        """Draws for a law come without their noise."""
        return False

    def replays(self, case: Case) -> None:
        """With the noise of the files the oracle draws the same tokens, in every kind of noise that is answered."""
        self.supports(case)
        for kind, noise in self._noises(case):
            self.if_answered(self._with_noise, case, kind, noise)

    def _with_noise(self, case: Case, kind: str, noise: npt.NDArray[Any]) -> None:
        ids, expected = self.backend.draws(case, kind, len(noise), noise), self.expect(case)
        self._in_range(case, ids)
        for r in range(len(case.requests)):
            replay_test.judge_row(self, case, expected, r, ids[:, r], kind, noise[:, r])

    def _noises(self, case: Case) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Uniforms in [0, 1) and exponential variates, both exact in float32."""
        draws, (n, vocab) = self.session.tier.replay_draws, case.logits.shape
        bits = self.rng.integers(1 << UNIFORM_BITS, size=(draws, n))
        yield REPLAYS[0], bits / float(1 << UNIFORM_BITS)
        races = min(draws, RACE_VALUES // (n * vocab))
        if races >= LEAST_RACES:
            yield REPLAYS[1], self.rng.exponential(size=(races, n, vocab)).astype(np.float32)
