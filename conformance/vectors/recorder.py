"""The desk of an export: notes every question that the suites ask and answers with the oracle."""

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.vectors.question import IDS, KEPT, RANDOM, REPLAYS, Question
from aliquot.contract.batch import LOGPROBS_MODES
from aliquot.contract.output import INVALID_TOKEN, Logprobs, SamplerOutput
from aliquot.contract.params import ParameterError
from aliquot.contract.profile import Profile
from aliquot.oracle.rows import RowError

Ids = npt.NDArray[np.int64]


@dataclass(eq=False)
class Entry:
    """One case of the export: a question, what is asked of it (kind and draws) and the oracle's answers by kind.

    `refused` is the row and, for a parameter, the field that the oracle refused; `ids` int64 [n] are the tokens
    sampled last, with which a history goes on.
    """

    number: int
    check: str
    question: Question
    asks: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, Any] | None = None
    ids: Ids | None = None


class Recorder:
    """Answers with the oracle under a profile and keeps all entries, in the order in which they were asked."""

    def __init__(self, profile: Profile) -> None:
        self.oracle = OracleBackend(capabilities=replace(DECLARED, profile=profile))
        self.entries: list[Entry] = []
        self._asked: dict[tuple[str, str], list[Entry]] = defaultdict(list)

    def offers(self, kind: str) -> bool:
        """The oracle answers everything."""
        return True

    def reseed(self, seed: int) -> None:
        """Restart the oracle's noise."""
        self.oracle.reseed(seed)

    def sample(self, check: str, question: Question, kind: str) -> SamplerOutput:
        """The oracle's answer; what it refuses is noted and raised."""
        entry = self._entry(check, question, kind)
        case = question.case
        if kind in LOGPROBS_MODES:
            case = case.asking(kind, logprobs=-1)
            if kind == LOGPROBS_MODES[2]:
                entry.asks[KEPT] = 1
        try:
            output = self.oracle.sample(case.logits, case.batch())
        except (RowError, ParameterError) as error:
            entry.refused = _refusal(error)
            raise
        entry.answers[kind] = output.sampled_token_ids[:, 0] if kind == IDS else output.logprobs
        entry.ids = output.sampled_token_ids[:, 0].astype(np.int64)
        return output

    def draws(self, check: str, question: Question, kind: str, count: int) -> Ids:
        """The oracle's draws; a row without a law yields the invalid mark."""
        entry = self._entry(check, question, kind, count)
        batch = question.case.batch()
        ids = np.full((count, len(batch)), INVALID_TOKEN, dtype=np.int64)
        for r in range(len(batch)):
            law = self.oracle.law_of(question.case.logits, batch, r)
            if law is not None:
                ids[:, r] = self._drawn(law, question.noise, r, kind, count)
        if len(ids) >= entry.asks[kind]:
            entry.answers[kind] = ids
        return ids

    def _drawn(
        self, law: npt.NDArray[np.float64], noise: Any, r: int, kind: str, count: int
    ) -> Ids:
        if kind == REPLAYS[1]:
            with np.errstate(divide="ignore"):
                return np.asarray((law / noise[:, r].astype(np.float64)).argmax(axis=1))
        uniforms = self.oracle.rng.random(count) if noise is None else noise[:, r]
        return self.oracle.draw(law, uniforms)

    def kept(self, check: str, question: Question) -> npt.NDArray[np.bool_]:
        """Never asked for: the oracle shows values."""
        raise NotImplementedError

    def given(self, check: str, question: Question) -> Logprobs:
        """The oracle's raw logprobs and ranks of the question's tokens."""
        entry = self._entry(check, question, "given")
        found = self.oracle.logprobs_of(question.case.logits, question.tokens)
        entry.answers["given"] = found
        return found

    def _entry(self, check: str, question: Question, kind: str, count: int = 1) -> Entry:
        """The entry of a question, a new one where a kind with fresh noise is asked once more."""
        known = self._asked[check, question.digest]
        free = [e for e in known if kind not in RANDOM or kind not in e.asks]
        if not free:
            free = [Entry(len(self.entries), check, question)]
            known += free
            self.entries += free
        entry = free[0]
        entry.asks[kind] = max(count, entry.asks.get(kind, 0))
        return entry


def _refusal(error: RowError | ParameterError) -> dict[str, Any]:
    """The row refused and, where a parameter is at fault, its name: the first word after the request's id."""
    if isinstance(error, RowError):
        return {"row": error.row}
    said = re.search(r": (\w+)", str(error))
    assert said is not None
    return {"row": 0, "field": said[1]}
