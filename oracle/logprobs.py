"""Logprobs and ranks beside the sampled tokens.

LOGP01: none asked, none returned. LOGP02 to LOGP05: raw_logprobs are the log-softmax of the row
after the grammar, raw_logits that row, and the processed ones the row after the filters. LOGP06:
column 0 is the sampled token. LOGP07: then the largest values, descending. LOGP08: 0 is the sampled
token alone. LOGP09: -1 is the whole row in id order. LOGP10 to LOGP12: logprob_token_ids returns
the sampled token and exactly those ids, padded with -inf, and wins. LOGP13: given tokens follow the
same rules. RANK01: `rank = #{s : v[s] >= v[t]}`. RANK02: ties share the worse rank. RANK03: ranks
count in the values that are in force; these grow with the logits, so ranks count in the logits.
"""

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import Batch, Request
from aliquot.contract.output import Logprobs
from aliquot.oracle.pipeline import Outcome
from aliquot.oracle.rows import Rows
from aliquot.oracle.softmax import log_softmax

CLAUSES = (
    *(f"LOGP{i:02d}" for i in range(1, 14)),
    "RANK01",
    "RANK02",
    "RANK03",
)
Ids = npt.NDArray[np.int64]


def gather(outcome: Outcome, batch: Batch, sampled: npt.ArrayLike) -> Logprobs | None:
    """The logprobs of a step in the batch's mode, for the sampled ids `[n]` or `[n, 1]`.

    Returns float32 values and int64 ids `[n, width]` and int64 ranks `[n]`, or None when no request
    asks (LOGP01). Rows that ask for fewer columns than the batch's widest show as many as the
    batch's largest number, then padding: id 0, value -inf.
    """
    if not batch.wants_logprobs:  # LOGP01
        return None
    tokens = np.asarray(sampled, dtype=np.int64).reshape(-1)
    logits = visible_logits(outcome, batch)
    shown = logits if batch.logprobs_mode.endswith("logits") else log_softmax(logits)
    columns = [
        _columns(row, int(token), request, batch.max_num_logprobs or 0)
        for row, token, request in zip(logits, tokens, batch.requests, strict=True)
    ]
    ids, values = _padded(columns, shown)
    return Logprobs(token_ids=ids, values=values, ranks=ranks(logits, tokens))


def visible_logits(outcome: Outcome, batch: Batch) -> Rows:
    """The logits `[n, V]` whose values or logprobs the mode shows (freedom logprobs)."""
    processed = batch.logprobs_mode.startswith("processed")
    if processed or outcome.profile.logprobs == "processed":
        return outcome.filtered  # LOGP05
    return outcome.raw  # LOGP02 LOGP03 LOGP04


def of_given_tokens(logits: npt.ArrayLike, token_ids: npt.ArrayLike) -> Logprobs:
    """Raw logprobs and ranks of given tokens `[n]` for logits `[n, V]`: prompt logprobs (LOGP13).

    Returns one column: values float32 `[n, 1]`, ids int64 `[n, 1]`, ranks int64 `[n]`.
    """
    rows = np.asarray(logits).astype(np.float64)
    tokens = np.asarray(token_ids, dtype=np.int64)
    values = np.take_along_axis(log_softmax(rows), tokens[:, None], axis=1)  # LOGP13
    return Logprobs(token_ids=tokens[:, None], values=_float32(values), ranks=ranks(rows, tokens))


def ranks(rows: Rows, tokens: Ids) -> Ids:
    """The ranks int64 `[n]` of tokens `[n]` in rows `[n, V]`, 1 the best, ties sharing the worse."""
    values = np.take_along_axis(rows, tokens[:, None], axis=1)
    at_least: Ids = (rows >= values).sum(axis=1, dtype=np.int64)  # RANK01 RANK02 RANK03
    return at_least


def largest(row: Rows, count: int) -> Ids:
    """The ids of the `count` largest values of a row `[V]`, descending, equal ones by ascending id."""
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    kth = np.partition(row, row.size - count)[row.size - count]
    above, tied = np.flatnonzero(row > kth), np.flatnonzero(row == kth)
    above = above[np.argsort(-row[above], kind="stable")]
    return np.concatenate([above, tied[: count - above.size]])


def _columns(row: Rows, token: int, request: Request, number: int) -> Ids:
    """The token ids that a row shows, in order."""
    explicit = request.params.logprob_token_ids
    if explicit is not None:  # LOGP12
        return np.array([token, *explicit], dtype=np.int64)  # LOGP10
    if number == -1:
        return np.arange(row.size)  # LOGP09
    return np.concatenate([[token], largest(row, number)])  # LOGP06 LOGP07 LOGP08


def _padded(columns: list[Ids], shown: Rows) -> tuple[Ids, npt.NDArray[np.float32]]:
    width = max(ids.size for ids in columns)
    out_ids = np.zeros((len(columns), width), dtype=np.int64)
    values = np.full((len(columns), width), -np.inf, dtype=np.float32)  # LOGP11
    for row, (ids, logprobs) in enumerate(zip(columns, shown, strict=True)):
        out_ids[row, : ids.size] = ids
        values[row, : ids.size] = _float32(logprobs[ids])  # IO09
    return out_ids, values


def _float32(values: Rows) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(np.float32)
