"""Reported logprobs of one row: columns, ids, order, values and rank."""

import numpy as np
import numpy.typing as npt

from aliquot.conformance.arrays import Answer
from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.judging.outcome import Outcome


def judge_row(judge: Outcome, case: Case, expected: Expectation, r: int, answer: Answer) -> None:
    """Fail the check unless row `r` of the answer's logprobs is what the case asks for."""
    assert answer.logprobs is not None
    assert answer.logprob_ids is not None
    assert answer.ranks is not None
    ids, values = answer.logprob_ids[r], answer.logprobs[r].astype(np.float64)
    params = case.requests[r].params
    sampled = int(answer.ids[r])
    low, high = expected.shown.lo[r], expected.shown.hi[r]
    if params.logprob_token_ids is not None:
        columns = [sampled, *params.logprob_token_ids]
        _listed(judge, case, r, columns, ids, values)
    elif params.logprobs == -1:
        columns = list(range(case.vocab_size))
        judge.equal(case, r, "columns", case.vocab_size, len(values))
        ids = np.arange(case.vocab_size)
    elif params.logprobs is None:
        return
    else:
        columns = ids[: 1 + min(params.logprobs, case.vocab_size)].tolist()
        _largest(judge, case, r, params.logprobs, sampled, ids, low, high)
    for column, token in enumerate(columns):
        _value(judge, case, r, token, float(values[column]), float(low[token]), float(high[token]))
    _rank(judge, case, r, sampled, int(answer.ranks[r]), expected)


def _value(
    judge: Outcome, case: Case, r: int, token: int, value: float, low: float, high: float
) -> None:
    if not low <= value <= high:
        wanted = f"{case.mode} of token {token} in [{low:.9g}, {high:.9g}]"
        judge.fail(case, r, wanted, f"{value:.9g}", tokens=[token])


def _listed(
    judge: Outcome,
    case: Case,
    r: int,
    columns: list[int],
    ids: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
) -> None:
    """The ids asked for in their order, then -inf."""
    judge.equal(case, r, "logprob ids", columns, ids[: len(columns)].tolist(), tokens=columns)
    rest = values[len(columns) :]
    judge.equal(case, r, "padding", [-np.inf] * len(rest), rest.tolist())


def _largest(
    judge: Outcome,
    case: Case,
    r: int,
    number: int,
    sampled: int,
    ids: npt.NDArray[np.int64],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
) -> None:
    """Column 0 the sampled token; then the `number` largest, each once, in descending order."""
    number = min(number, case.vocab_size)
    if len(ids) < 1 + number:
        judge.fail(case, r, f"{1 + number} columns", f"{len(ids)} columns")
    judge.equal(case, r, "column 0", sampled, int(ids[0]), tokens=[sampled])
    top = ids[1 : 1 + number]
    strange = [token for token in top.tolist() if not 0 <= token < case.vocab_size]
    if strange:
        judge.fail(case, r, f"logprob ids in [0, {case.vocab_size})", f"id {strange[0]}")
    judge.equal(case, r, "different ids:", number, len(set(top.tolist())), tokens=top.tolist())
    least = np.sort(low)[::-1][:number]
    for place, token in enumerate(top):
        if high[token] < least[place]:
            wanted = f"a value of at least {least[place]:.9g} in column {place + 1}"
            judge.fail(case, r, wanted, f"token {token} of at most {high[token]:.9g}",
                       tokens=[int(token)])  # fmt: skip


def _rank(judge: Outcome, case: Case, r: int, token: int, rank: int, expected: Expectation) -> None:
    least, most = expected.ranks.lo[r, token], expected.ranks.hi[r, token]
    if not least <= rank <= most:
        wanted = f"rank {least}" if least == most else f"rank in [{least}, {most}]"
        judge.fail(case, r, f"{wanted} of token {token}", f"rank {rank}", tokens=[token])
