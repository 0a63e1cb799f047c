"""The desk of a judgement: looks every question of the suites up among a program's answers."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.vectors.answers import REFUSED, Answers
from aliquot.conformance.vectors.desk import Ids, NotAnswered, Refused
from aliquot.conformance.vectors.folder import Folder
from aliquot.conformance.vectors.question import (
    GIVEN,
    IDS,
    KEPT,
    LOGPROBS,
    RANDOM,
    Question,
)
from aliquot.contract.output import Logprobs, SamplerOutput


class AnswerDesk:
    """Answers with what a program wrote for the cases of a folder."""

    def __init__(self, folder: Folder, answers: Answers) -> None:
        self.folder, self.answers = folder, answers
        self._kinds = answers.kinds | {
            f"{LOGPROBS} {folder.cases[number]['logprobs_mode']}"
            for number, given in answers.by_case.items()
            if LOGPROBS in given
        }
        self._asked: Counter[tuple[str, str, str]] = Counter()

    def offers(self, kind: str) -> bool:
        """Whether the program answers this kind anywhere."""
        return kind in self._kinds

    def reseed(self, seed: int) -> None:
        """The program's noise is its own."""

    def sample(self, check: str, question: Question, kind: str) -> SamplerOutput:
        """The program's ids, logprobs or whole rows."""
        case = self._case(check, question, kind)
        given = self.answers.by_case.get(case["case"], {})
        if kind not in given and REFUSED in given:
            raise Refused(_refusal(question, given[REFUSED]))
        value = self._value(case, kind)
        dtype = self.folder.declared.profile.id_dtype
        if kind == IDS:
            return SamplerOutput(sampled_token_ids=value[:, None].astype(dtype))
        if kind == LOGPROBS:
            return _with_columns(value, dtype)
        return _with_whole_rows(value, case, dtype)

    def draws(self, check: str, question: Question, kind: str, count: int) -> Ids:
        """The first `count` of the program's draws, int64 [count, n]."""
        case = self._case(check, question, kind)
        if count > case["asks"][kind]["draws"]:
            raise NotAnswered(f"{count} {kind}", f"case {case['case']}", offered=True)
        return np.asarray(self._value(case, kind)[:count])

    def kept(self, check: str, question: Question) -> npt.NDArray[np.bool_]:
        """The tokens [n, V] that the program says it keeps."""
        return np.asarray(self._value(self._case(check, question, KEPT), KEPT))

    def given(self, check: str, question: Question) -> Logprobs:
        """The program's values and ranks of the tokens given."""
        value = self._value(self._case(check, question, GIVEN), GIVEN)
        assert question.tokens is not None
        ids = question.tokens[:, None].astype(self.folder.declared.profile.id_dtype)
        return Logprobs(token_ids=ids, values=value["values"][:, None], ranks=value["ranks"])

    def _case(self, check: str, question: Question, kind: str) -> dict[str, Any]:
        """The case that asks this: the next one for a kind with fresh noise, else the first."""
        known = self.folder.asked.get((check, question.digest), [])
        asking = [case for case in known if kind in case["asks"]]
        place = 0
        if kind in RANDOM:
            place = self._asked[check, question.digest, kind]
            self._asked[check, question.digest, kind] += 1
        if place >= len(asking):
            raise NotAnswered(kind, f"a case of {check} that is not in the vectors", offered=True)
        return asking[place]

    def _value(self, case: dict[str, Any], kind: str) -> Any:
        given = self.answers.by_case.get(case["case"], {})
        if kind not in given:
            raise NotAnswered(kind, f"case {case['case']}", self.offers(kind))
        return given[kind]


def _refusal(question: Question, told: dict[str, Any]) -> str:
    """A refusal in the words in which the contract wants it: row, request and field."""
    row = told["row"]
    field = f": {told['field']}" if "field" in told else ""
    return f"row {row}, request {question.case.requests[row].id}{field} refused"


def _with_columns(value: dict[str, Any], dtype: str) -> SamplerOutput:
    logprobs = Logprobs(
        token_ids=value["ids"].astype(dtype),
        values=value["values"],
        ranks=value["ranks"].astype(np.int64),
    )
    sampled = value["sampled"][:, None].astype(dtype)
    return SamplerOutput(sampled_token_ids=sampled, logprobs=logprobs)


def _with_whole_rows(value: Any, case: dict[str, Any], dtype: str) -> SamplerOutput:
    """Whole rows; the ids of a history's step are those that it goes on with, else 0."""
    n, vocab = value.shape
    ids = np.array(case.get("next_token_ids", [0] * n), dtype=dtype)[:, None]
    columns = np.broadcast_to(np.arange(vocab, dtype=dtype), (n, vocab))
    logprobs = Logprobs(token_ids=columns, values=value, ranks=np.zeros(n, dtype=np.int64))
    return SamplerOutput(sampled_token_ids=ids, logprobs=logprobs)
