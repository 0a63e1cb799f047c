"""F1: order and composition of the steps."""

from dataclasses import replace

import numpy as np

from aliquot.conformance.faults.fault import Fault, by_size, per_row
from aliquot.contract.batch import Batch
from aliquot.oracle import greedy, top_p
from aliquot.oracle.pipeline import CONTRACT, Context, Outcome, Rows, moved, removed, replaced


def _temperature_again(row: Rows, r: int, context: Context) -> Rows:
    params = context.params[r]
    return row if params.greedy else row / params.temperature**2


def _untempered_nucleus(row: Rows, r: int, context: Context) -> Rows:
    params = context.params[r]
    if params.top_p < 1:
        row[~top_p.keep(row * params.temperature, params.top_p)] = -np.inf
    return row


def _minp_on_logits(row: Rows, r: int, context: Context) -> Rows:
    min_p = context.params[r].min_p
    if min_p > 0:
        row[row < min_p * row.max()] = -np.inf
    return row


def _mass_of_all(row: Rows, r: int, context: Context) -> Rows:
    """Top-k, then a nucleus that takes the mass before top-k for 1 and sums from the small end."""
    k, p = context.params[r].top_k, context.params[r].top_p
    order, probs = by_size(row)
    kept = np.count_nonzero(row >= row[order[k - 1]]) if 0 < k < row.size else row.size
    from_below = np.cumsum(probs[:kept][::-1])[::-1]
    stays = from_below > 1 - p if p < 1 else np.ones(kept, dtype=bool)
    row[~np.isin(row, row[order[:kept][stays]])] = -np.inf
    return row


def _nucleus_lost(row: Rows, r: int, context: Context) -> Rows:
    k, p = context.params[r].top_k, context.params[r].top_p
    few = np.count_nonzero(row > -np.inf) < k < row.size
    if p < 1 and not few:
        row[~top_p.keep(row, p)] = -np.inf
    return row


def _greedy_on_raw(outcome: Outcome, batch: Batch) -> Outcome:
    ids = greedy.ids(outcome.raw)
    law = greedy.one_hot(outcome.law, ids, greedy.is_greedy(Context(batch)))
    return replace(outcome, greedy_ids=ids, law=law)


FAULTS = (
    Fault(
        name="order-topp-first",
        about="top-p is applied before top-k",
        report="vllm-project/vllm PR 1885",
        group="F1",
        clauses=("TOPP07",),
        steps=moved(CONTRACT, "top_p", before="top_k"),
    ),
    Fault(
        name="nucleus-untempered",
        about="the nucleus is taken on the law before temperature",
        report="mlc-ai/mlc-llm PR 951",
        group="F1",
        clauses=("TEMP01", "TOPP01"),
        steps=replaced(CONTRACT, "top_p", per_row(_untempered_nucleus)),
    ),
    Fault(
        name="minp-on-logits",
        about="min-p compares logits instead of probabilities",
        report="sgl-project/sglang-jax PR 1563",
        group="F1",
        clauses=("MINP01", "MINP02"),
        steps=replaced(CONTRACT, "min_p", per_row(_minp_on_logits)),
    ),
    Fault(
        name="topp-mass-of-all",
        about="top-p takes the mass that top-k left for 1",
        report="ml-explore/mlx-lm PR 388",
        group="F1",
        clauses=("TOPP07",),
        steps=replaced(removed(CONTRACT, "top_k"), "top_p", per_row(_mass_of_all)),
    ),
    Fault(
        name="temp-twice",
        about="logits are divided by the temperature twice",
        report="RL-Align/RL-Kernel issue 81",
        group="F1",
        clauses=("TEMP01",),
        steps=replaced(CONTRACT, "temperature", per_row(_temperature_again)),
    ),
    Fault(
        name="greedy-before-masks",
        about="greedy rows take the argmax before masks, bias and penalties act",
        report="tenstorrent/tt-xla PR 3564",
        group="F1",
        clauses=("GREEDY05", "ALLOW03", "PEN12", "GREEDY01"),
        outcome=_greedy_on_raw,
    ),
    Fault(
        name="nucleus-lost-beside-topk",
        about="a row with fewer finite logits than k loses its top-p",
        report="vllm-project/vllm PR 54651",
        group="F1",
        clauses=("TOPK06", "TOPP01", "TOPP08"),
        steps=replaced(CONTRACT, "top_p", per_row(_nucleus_lost)),
    ),
)
