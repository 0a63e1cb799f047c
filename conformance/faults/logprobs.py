"""F12: logprobs and ranks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Fault, Ids
from aliquot.contract.batch import Batch
from aliquot.contract.output import Logprobs
from aliquot.oracle import logprobs
from aliquot.oracle.pipeline import Outcome, Rows
from aliquot.oracle.softmax import log_softmax

Report = Callable[[Outcome, Batch, Ids], Logprobs | None]


def _shown(change: Callable[[Outcome, Batch], Outcome]) -> Report:
    """Right reports of a changed outcome."""

    def report(outcome: Outcome, batch: Batch, ids: Ids) -> Logprobs | None:
        return logprobs.gather(change(outcome, batch), batch, ids)

    return report


def _edited(change: Callable[[Logprobs, Outcome, Batch, Ids], dict[str, Any]]) -> Report:
    """Right reports, then edited: a function from the report to its changed fields."""

    def report(outcome: Outcome, batch: Batch, ids: Ids) -> Logprobs | None:
        right = logprobs.gather(outcome, batch, ids)
        with np.errstate(over="ignore"):
            return right and replace(right, **change(right, outcome, batch, ids))

    return report


def _aliased(outcome: Outcome, batch: Batch) -> Outcome:
    return replace(outcome, raw=outcome.penalised)


def _never_processed(outcome: Outcome, batch: Batch) -> Outcome:
    return replace(outcome, filtered=outcome.raw)


def _aliased_if_listed(outcome: Outcome, batch: Batch) -> Outcome:
    raw = outcome.raw.copy()
    for r, request in enumerate(batch.requests):
        if request.params.logprob_token_ids is not None:
            raw[r] = outcome.penalised[r]
    return replace(outcome, raw=raw)


def _divided(right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids) -> dict[str, Any]:
    if not batch.logprobs_mode.endswith("logprobs"):
        return {}
    given = [1.0 if r.params.greedy else r.params.temperature for r in batch.requests]
    values = right.values / np.array(given, dtype=np.float32)[:, None]
    return {"values": values.astype(np.float32)}


def _all_first(right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids) -> dict[str, Any]:
    return {"ranks": np.ones_like(right.ranks)}


def _by_place(right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids) -> dict[str, Any]:
    """The sampled token's value is looked up in the sorted row."""
    values = right.values.copy()
    shown = logprobs.visible_logits(outcome, batch)
    if batch.logprobs_mode.endswith("logprobs"):
        shown = log_softmax(shown)
    if not any(r.params.logprobs == -1 for r in batch.requests):
        for r, token in enumerate(ids):
            values[r, 0] = np.sort(shown[r])[::-1][token]
    return {"values": values}


def _of_next_row(right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids) -> dict[str, Any]:
    return {"values": np.roll(right.values, -1, axis=0), "ranks": np.roll(right.ranks, -1)}


def _filtered_revealed(outcome: Outcome, batch: Batch) -> Outcome:
    """Tokens that the filters removed show the values from before the filters."""
    removed = outcome.filtered == -np.inf
    return replace(outcome, filtered=np.where(removed, outcome.penalised, outcome.filtered))


def bfloat16(values: Rows) -> Rows:
    """Values rounded to bfloat16's 8 bits of precision."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2**8) / 2**8, exponent)


def _in_16_bits(right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids) -> dict[str, Any]:
    if not batch.logprobs_mode.endswith("logprobs"):
        return {}
    return {"values": bfloat16(right.values.astype(np.float64)).astype(np.float32)}


def _normaliser_rounded(
    right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids
) -> dict[str, Any]:
    """The largest logit is added to the log of the sum, in float32, before it is subtracted."""
    if not batch.logprobs_mode.endswith("logprobs"):
        return {}
    shown = logprobs.visible_logits(outcome, batch)
    peak = shown.max(axis=1, keepdims=True)
    normaliser = (peak - log_softmax(shown).max(axis=1, keepdims=True)).astype(np.float32)
    at = np.take_along_axis(shown, np.maximum(right.token_ids, 0), axis=1)
    values = np.where(np.isfinite(right.values), at - normaliser, right.values)
    return {"values": values.astype(np.float32)}


def _past_the_end(right: Logprobs, outcome: Outcome, batch: Batch, ids: Ids) -> dict[str, Any]:
    """Lanes past the row's end, filled with -inf, stand beside its own tokens at -inf."""
    width = outcome.raw.shape[1]
    if right.values.shape[1] == width:
        return {}
    numbered = [r.params.logprob_token_ids is None for r in batch.requests]
    empty = (right.values == -np.inf) & np.array(numbered, dtype=bool)[:, None]
    lanes = width + np.arange(right.values.shape[1])
    return {"token_ids": np.where(empty, lanes, right.token_ids).astype(right.token_ids.dtype)}


FAULTS = (
    Fault(
        name="raw-logprob-alias",
        about="raw logprobs are taken after in-place edits",
        report="vllm-project/vllm PR 30846",
        group="F12",
        clauses=("LOGP03",),
        report_values=_shown(_aliased),
    ),
    Fault(
        name="lp-listed-alias",
        about="logprobs of listed ids are taken after in-place edits",
        report="vllm-project/vllm PR 43125",
        group="F12",
        clauses=("LOGP03", "LOGP10", "LOGP11", "LOGP12"),
        report_values=_shown(_aliased_if_listed),
    ),
    Fault(
        name="lp-mode-dropped",
        about="processed values are asked for and raw ones shown",
        report="vllm-project/vllm-ascend PR 8643",
        group="F12",
        clauses=("LOGP05",),
        report_values=_shown(_never_processed),
    ),
    Fault(
        name="lp-divided",
        about="the logprob itself is divided by the temperature",
        report="PrimeIntellect-ai/prime-rl PR 697",
        group="F12",
        clauses=("LOGP03", "LOGP05", "LOGP02"),
        report_values=_edited(_divided),
    ),
    Fault(
        name="rank-constant",
        about="every rank is 1",
        report="NVIDIA/TensorRT-LLM PR 7296",
        group="F12",
        clauses=("RANK01", "RANK02"),
        report_values=_edited(_all_first),
    ),
    Fault(
        name="lp-index-after-sort",
        about="the sampled token's value is looked up in the sorted row",
        report="abetlen/llama-cpp-python PR 453",
        group="F12",
        clauses=("LOGP06", "LOGP08", "LOGP02", "LOGP10"),
        report_values=_edited(_by_place),
    ),
    Fault(
        name="lp-next-row",
        about="values and ranks are those of the next row",
        report="vllm-project/vllm PR 29216",
        group="F12",
        clauses=("LOGP06", "LOGP07", "LOGP10", "LOGP02", "LOGP05", "RANK01"),
        report_values=_edited(_of_next_row),
    ),
    Fault(
        name="lp-filtered-shown",
        about="tokens that the filters removed still show their values",
        report="ggml-org/llama.cpp PR 7125",
        group="F12",
        clauses=("LOGP05",),
        report_values=_shown(_filtered_revealed),
    ),
    Fault(
        name="lp-bfloat16",
        about="logprobs are rounded to bfloat16",
        report="genlm/genlm-backend PR 66",
        group="F12",
        clauses=("IO04", "LOGP02"),
        report_values=_edited(_in_16_bits),
    ),
    Fault(
        name="lp-normaliser-rounded",
        about="the logarithm of the sum is added to a large logit before it is subtracted",
        report="ml-explore/mlx PR 4169",
        group="F12",
        clauses=("IO04", "LOGP02", "LOGP05"),
        report_values=_edited(_normaliser_rounded),
    ),
    Fault(
        name="lp-past-the-end",
        about="padding after the row's last token is reported beside tokens at -inf",
        report="NVIDIA/cudnn-frontend PR 410",
        group="F12",
        clauses=("LOGP07", "IO08"),
        report_values=_edited(_past_the_end),
    ),
)
