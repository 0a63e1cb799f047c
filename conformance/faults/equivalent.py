"""Equivalent mutants: samplers that do something else and draw the same law, so that no check may flag them.

Each is either proven here in a line or reported as a fault although it is none; `declares` holds what it must declare
because its values or its noise are not the oracle's.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Draw, Fault, Ids, by_size, per_row
from aliquot.contract.batch import Batch
from aliquot.contract.output import Logprobs
from aliquot.oracle import greedy, law, logprobs, min_p, top_k, top_p
from aliquot.oracle.pipeline import CONTRACT, Context, Outcome, Rows, moved, replaced
from aliquot.oracle.softmax import log_softmax, softmax

LOGPROBS_ALONE: dict[str, Any] = {"logprobs_modes": ("raw_logprobs", "processed_logprobs")}
RAW_ALONE: dict[str, Any] = {"logprobs_modes": ("raw_logits", "raw_logprobs")}
OPAQUE: dict[str, Any] = {"noise": "opaque"}
FILL = -1e30
CHUNK = 256


def _normalised_first(outcome: Outcome, batch: Batch) -> Outcome:
    """softmax(log_softmax(l) / T) = softmax(l / T), for what the filters left."""
    context = Context(batch)
    given = zip(batch.requests, context.params, strict=True)
    heat = np.array([1.0 if r.params.greedy else p.temperature for r, p in given])[:, None]
    filtered = log_softmax(outcome.filtered * heat) / heat
    law = greedy.one_hot(softmax(filtered), outcome.greedy_ids, greedy.is_greedy(context))
    return replace(outcome, filtered=filtered, law=law)


def _ratio_of_probabilities(row: Rows, r: int, context: Context) -> Rows:
    """Min-p on renormalised probabilities; at the threshold itself the rule in logits decides."""
    least = context.params[r].min_p
    if least > 0:
        probs = softmax(row[None])[0]
        inside = probs / probs.max() >= least
        at_edge = np.abs(probs / probs.max() - least) <= least * np.finfo(np.float64).eps * row.size
        row[~np.where(at_edge, min_p.keep(row, least), inside)] = -np.inf
    return row


def _sorted_and_scattered(row: Rows, r: int, context: Context) -> Rows:
    """Exclusive sums over the sorted row, scattered back: the first token has nothing before it and stays."""
    p = context.params[r].top_p
    if p < 1:
        order = np.argsort(-row, kind="stable")
        size = top_p.nucleus_size(row[order][row[order] > -np.inf], p)
        kept = np.full(row.size, -np.inf)
        kept[order[:size]] = row[order[:size]]
        return np.where(row >= row[order[size - 1]], row, kept)
    return row


def _kth_by_sorting(row: Rows, r: int, context: Context) -> Rows:
    k = context.params[r].top_k
    if 0 < k < row.size:
        row[np.sort(row)[::-1][k - 1] > row] = -np.inf
    return row


def _filled(row: Rows, r: int, context: Context) -> Rows:
    """exp(-1e30 - max) is 0: the mass is that of -inf."""
    k = context.params[r].top_k
    return np.where(top_k.keep(row, k), row, FILL) if 0 < k < row.size else row


def _descending(probs: Rows, noise: Rows) -> Ids:
    with np.errstate(divide="ignore"):
        order, sorted_probs = by_size(np.log(probs))
    return np.asarray(order[law.draw_row(sorted_probs, noise)])


def _unnormalised(probs: Rows, noise: Rows) -> Ids:
    """The draw divides by the sum that it finds."""
    return law.draw_row(probs * 0.37, noise)


def _gumbel_max(probs: Rows, noise: Rows) -> Ids:
    kept = np.flatnonzero(probs > 0)
    return np.asarray(kept[(np.log(probs[kept]) + noise[:, kept]).argmax(axis=1)])


def _exponential_race(probs: Rows, noise: Rows) -> Ids:
    kept = np.flatnonzero(probs > 0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(kept[(probs[kept] / noise[:, kept]).argmax(axis=1)])


def _log_softmax_in_chunks(rows: Rows) -> Rows:
    """The largest value and the sum are carried from chunk to chunk."""
    largest, total = np.full(len(rows), -np.inf), np.zeros(len(rows))
    for start in range(0, rows.shape[1], CHUNK):
        part = rows[:, start : start + CHUNK]
        new = np.maximum(largest, part.max(axis=1))
        with np.errstate(invalid="ignore"):
            kept = np.where(np.isfinite(largest), total * np.exp(largest - new), 0.0)
            total = kept + np.where(np.isfinite(part), np.exp(part - new[:, None]), 0.0).sum(axis=1)
        largest = new
    return np.asarray(rows - largest[:, None] - np.log(total)[:, None])


def _reported_in_chunks(outcome: Outcome, batch: Batch, ids: Ids) -> Logprobs | None:
    """Logprobs from one pass over chunks of the row."""
    right = logprobs.gather(outcome, batch, ids)
    if right is None or not batch.logprobs_mode.endswith("logprobs"):
        return right
    shown = _log_softmax_in_chunks(logprobs.visible_logits(outcome, batch))
    with np.errstate(over="ignore", under="ignore"):
        values = np.take_along_axis(shown, right.token_ids, axis=1).astype(np.float32)
    return replace(right, values=np.where(np.isfinite(right.values), values, right.values))


def _mutant(name: str, about: str, report: str, **changes: Any) -> Fault:
    return Fault(name=name, about=about, report=report, group="equivalent", clauses=(), **changes)


_MUTANTS = (
    _mutant(
        "same-normalised-first",
        "the log-softmax of what the filters left is divided by the temperature",
        "MoonshotAI/Kimi-Audio PR 161",
        outcome=_normalised_first,
        declares=LOGPROBS_ALONE,
    ),
    _mutant(
        "same-minp-on-probs",
        "min-p compares renormalised probabilities",
        "sgl-project/sglang PR 15648",
        steps=replaced(CONTRACT, "min_p", per_row(_ratio_of_probabilities)),
    ),
    _mutant(
        "same-minp-after-topk",
        "min-p comes after top-k; both keep upper sets, so their order does not matter",
        "sgl-project/sglang PR 15648",
        steps=moved(CONTRACT, "min_p", before="top_p"),
    ),
    _mutant(
        "same-exclusive-sum",
        "the nucleus is found by exclusive sums over a sorted row and scattered back",
        "meta-llama/llama PR 1410",
        steps=replaced(CONTRACT, "top_p", per_row(_sorted_and_scattered)),
    ),
    _mutant(
        "same-topk-by-sorting",
        "the k-th logit is found by sorting the whole row",
        "ggml-org/llama.cpp PR 5388",
        steps=replaced(CONTRACT, "top_k", per_row(_kth_by_sorting)),
    ),
    _mutant(
        "same-low-fill",
        "tokens cut by top-k get -1e30, whose weight is 0 in float64; values are shown before the filters only",
        "karpathy/minGPT issue 10",
        steps=replaced(CONTRACT, "top_k", per_row(_filled)),
        declares=RAW_ALONE,
    ),
    _mutant(
        "same-unnormalised",
        "probabilities are not renormalised and the draw divides by their sum",
        "vllm-project/vllm issue 718",
        draw=Draw(kind="inverse_cdf", pick=_unnormalised),
    ),
    _mutant(
        "same-descending-cdf",
        "the distribution is inverted in descending order, its noise not handed out",
        "vllm-project/vllm issue 718",
        draw=Draw(kind="inverse_cdf", pick=_descending),
        declares=OPAQUE,
    ),
    _mutant(
        "same-gumbel-max",
        "a Gumbel race draws instead of the inverse distribution",
        "sgl-project/sglang PR 33423",
        draw=Draw(kind="gumbel", pick=_gumbel_max),
    ),
    _mutant(
        "same-exponential-race",
        "an exponential race draws instead of the inverse distribution",
        "pytorch/pytorch issue 22557",
        draw=Draw(kind="exponential_race", pick=_exponential_race),
    ),
    _mutant(
        "same-logprobs-in-chunks",
        "logprobs are computed in one pass over chunks of the row",
        "sgl-project/sglang PR 15648",
        report_values=_reported_in_chunks,
    ),
)
EQUIVALENTS = {mutant.name: mutant for mutant in _MUTANTS}
