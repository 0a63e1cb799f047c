"""F4: min-p."""

import math
from dataclasses import replace

import numpy as np

from aliquot.conformance.faults.fault import Fault, per_row
from aliquot.contract.batch import Batch
from aliquot.oracle import min_p
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, removed, replaced


def _strictly_above(row: Rows, r: int, context: Context) -> Rows:
    least = context.params[r].min_p
    if least > 0:
        row[row - row.max() <= math.log(least)] = -np.inf
    return row


def _kept_for_logprobs(row: Rows, r: int, context: Context) -> Rows:
    """As many tokens stay as logprobs are asked for."""
    params = context.params[r]
    if params.min_p > 0:
        stays = min_p.keep(row, params.min_p)
        stays[np.argsort(-row, kind="stable")[: max(params.logprobs or 0, 0)]] = True
        row[~stays] = -np.inf
    return row


def _dropped_in_batches(batch: Batch) -> Batch:
    if len(batch) < 2:
        return batch
    requests = [replace(r, params=replace(r.params, top_k=0, min_p=0.0)) for r in batch.requests]
    return replace(batch, requests=requests)


FAULTS = (
    Fault(
        name="minp-ignored",
        about="min-p is ignored",
        report="vllm-project/vllm issue 12678",
        group="F4",
        clauses=("MINP01", "MINP02", "MINP03"),
        steps=removed(CONTRACT, "min_p"),
    ),
    Fault(
        name="minp-strict",
        about="tokens at the threshold of min-p are cut, with min_p = 1 all",
        report="ggml-org/llama.cpp PR 13822",
        group="F4",
        clauses=("MINP01", "MINP03"),
        steps=replaced(CONTRACT, "min_p", per_row(_strictly_above)),
    ),
    Fault(
        name="observer-effect",
        about="min-p keeps as many tokens as logprobs are asked for",
        report="ggml-org/llama.cpp PR 5564",
        group="F4",
        clauses=("DRAW07", "MINP01"),
        steps=replaced(CONTRACT, "min_p", per_row(_kept_for_logprobs)),
    ),
    Fault(
        name="batch-drops-params",
        about="top_k and min_p have no effect in batches of two and more",
        report="Blaizzy/mlx-vlm PR 1353",
        group="F4",
        clauses=("TOPK05", "TOPK02", "INV03", "INV08", "MINP01", "TOPK01", "DRAW01"),
        requests=_dropped_in_batches,
    ),
)
