"""F3: top-k, its boundary, ties and the values that switch it off."""

from collections.abc import Callable, Mapping

import numpy as np

from aliquot.conformance.faults.fault import Fault, each, per_row, with_params
from aliquot.contract.batch import Batch, Request
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, Steps, replaced

NOT_QUITE_MASKED = 1e-10
FINITE_FILL = -1e4
CANDIDATES = 32
DISPATCHED_FROM = 8


def _cut_by(size: Callable[[int, int], int], fill: float = -np.inf) -> Steps:
    """The contract's steps with another number of tokens kept: a function of k and V, 0 for all."""

    def change(row: Rows, r: int, context: Context) -> Rows:
        if context.batch.requests[r].params.greedy:
            return row
        k = size(context.params[r].top_k, row.size)
        if not 0 < k < row.size:
            return row
        kth = np.partition(row, row.size - k)[row.size - k]
        return np.where(row >= kth, row, fill)

    return replaced(CONTRACT, "top_k", per_row(change))


def _collision(row: Rows, r: int, context: Context) -> Rows:
    """Places left over when fewer than k tokens are finite go to the first of them, again and again."""
    k = context.params[r].top_k
    finite = np.flatnonzero(row > -np.inf)
    if 0 < k < row.size and finite.size < k:
        row[finite[0]] += np.log(1 + k - finite.size)
    elif 0 < k < row.size:
        row[row < np.partition(row, row.size - k)[row.size - k]] = -np.inf
    return row


def _ties_by_batch_size(batch: Batch) -> Mapping[str, str]:
    return {"topk_ties": "lowest_ids" if len(batch) >= DISPATCHED_FROM else "keep_all"}


def _largest_k(batch: Batch) -> Batch:
    most = max((r.params.top_k for r in batch.requests), default=0)

    def changed(request: Request, r: int, batch: Batch) -> Request:
        return with_params(request, top_k=most) if request.params.top_k <= 0 else request

    return each(changed)(batch) if most > 0 else batch


FAULTS = (
    Fault(
        name="topk-zero-is-one",
        about="k <= 0 keeps one token instead of all",
        report="ggml-org/llama.cpp PR 5388",
        group="F3",
        clauses=("TOPK03", "DRAW01"),
        steps=_cut_by(lambda k, vocab: max(k, 1)),
    ),
    Fault(
        name="topk-one-more",
        about="k + 1 tokens are kept",
        report="kingoflolz/mesh-transformer-jax issue 164",
        group="F3",
        clauses=("TOPK01", "TOPK04"),
        steps=_cut_by(lambda k, vocab: k + 1 if k > 0 else 0),
    ),
    Fault(
        name="topk-threshold-end",
        about="the threshold of top-k is the largest logit",
        report="fluxions-ai/vui PR 32",
        group="F3",
        clauses=("TOPK01",),
        steps=_cut_by(lambda k, vocab: min(k, 1) if k < vocab else 0),
    ),
    Fault(
        name="topk-ties-dispatch",
        about="from 8 rows on ties at the k-th logit are cut",
        report="vllm-project/vllm PR 50979",
        group="F3",
        clauses=("TOPK02", "INV03", "INV08"),
        profile=_ties_by_batch_size,
    ),
    Fault(
        name="topk-spreads",
        about="rows without k are cut by the largest k of the batch",
        report="vllm-project/vllm PR 14301",
        group="F3",
        clauses=("TOPK05", "TOPK03"),
        requests=_largest_k,
    ),
    Fault(
        name="topk-one-is-32",
        about="at least 32 tokens are kept",
        report="tenstorrent/vllm PR 414",
        group="F3",
        clauses=("TOPK04", "TOPK01"),
        steps=_cut_by(lambda k, vocab: max(k, CANDIDATES) if k > 0 else 0),
    ),
    Fault(
        name="topk-slot-twice",
        about="a token is taken more than once when fewer than k are left",
        report="FareedKhan-dev/kimi-k3-in-c PR 61",
        group="F3",
        clauses=("TOPK06",),
        steps=replaced(CONTRACT, "top_k", per_row(_collision)),
    ),
    Fault(
        name="mask-finite-fill",
        about="tokens cut by top-k get the logit 1e-10 instead of -inf",
        report="karpathy/minGPT issue 10",
        group="F3",
        clauses=("TOPK01",),
        steps=_cut_by(lambda k, vocab: k, NOT_QUITE_MASKED),
    ),
    Fault(
        name="mask-low-fill",
        about="tokens cut by top-k get the logit -1e4 instead of -inf",
        report="karpathy/minGPT issue 10",
        group="F3",
        clauses=("TOPK01",),
        steps=_cut_by(lambda k, vocab: k, FINITE_FILL),
    ),
)
