"""F2: top-p, its edges and its precision."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from aliquot.conformance.faults.fault import Fault, by_size, per_row
from aliquot.oracle import top_p
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, Steps, replaced

Mask = npt.NDArray[np.bool_]
BUCKET = 0.125


def _cut_by(stays: Callable[[Rows, float], Mask], *, at_one: bool = False) -> Steps:
    """The contract's steps with another nucleus: which of the probabilities, in descending order, stay for p.

    Ties stay together, as in the contract.
    """

    def change(row: Rows, r: int, context: Context) -> Rows:
        p = context.params[r].top_p
        if p < 1 or (at_one and not context.batch.requests[r].params.greedy):
            order, probs = by_size(row)
            row[~np.isin(row, row[order[stays(probs, p)]])] = -np.inf
        return row

    return replaced(CONTRACT, "top_p", per_row(change))


def _without_crossing(probs: Rows, p: float) -> Mask:
    stays = np.cumsum(probs) <= p
    stays[0] = True
    return stays


def _one_more_on_equality(probs: Rows, p: float) -> Mask:
    """Keeps a token when the mass before it equals p, as float32 arithmetic sees it."""
    before = (np.cumsum(probs) - probs).astype(np.float32)
    return np.asarray(before <= np.float32(p))


def _from_the_small_end(probs: Rows, p: float) -> Mask:
    """In float32 1 - p is 1 for a tiny p: then nothing stays, and the argmax over nothing is id 0."""
    from_below = np.cumsum(probs[::-1].astype(np.float32))[::-1]
    return np.asarray(from_below > np.float32(1) - np.float32(p))


def _first_true(probs: Rows, p: float) -> Mask:
    """The first place where the mass exceeds p, which is place 0 where it never does."""
    crossing = int(np.argmax(np.cumsum(probs) > p)) if p < 1 else 0
    return np.asarray(np.arange(probs.size) <= crossing)


def _in_logs(probs: Rows, p: float) -> Mask:
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    before = np.concatenate([[0.0], np.cumsum(logs[:-1])])
    return np.asarray(before >= np.log(p))


def _from_the_wrong_end(probs: Rows, p: float) -> Mask:
    ascending = probs[::-1]
    stays: Mask = (np.cumsum(ascending) - ascending < p)[::-1]
    return stays & (probs > 0)


def _coarse_sum(probs: Rows, p: float) -> Mask:
    single = probs.astype(np.float32)
    before = np.cumsum(single) - single
    return np.asarray(before < np.float32(p))


def _bucketed(row: Rows, r: int, context: Context) -> Rows:
    """The cut is found on a grid of logits, so that all tokens of its bucket stay."""
    p = context.params[r].top_p
    if p < 1:
        edge = row[top_p.keep(row, p)].min()
        row[row < np.floor(edge / BUCKET) * BUCKET] = -np.inf
    return row


def _next_for_last(probs: Rows, p: float) -> Mask:
    """The smallest token of the nucleus is dropped and the one after it kept."""
    stays = np.cumsum(probs) - probs < p
    last = int(np.count_nonzero(stays)) - 1
    if 0 < last < probs.size - 1 and probs[last + 1] > 0:
        stays[last], stays[last + 1] = False, True
    return np.asarray(stays)


FAULTS = (
    Fault(
        name="topp-edge-minus",
        about="the token that crosses p is dropped",
        report="ggml-org/llama.cpp PR 1953",
        group="F2",
        clauses=("TOPP03",),
        steps=_cut_by(_without_crossing),
    ),
    Fault(
        name="topp-edge-plus",
        about="one token more is kept when the mass reaches p exactly",
        report="huggingface/transformers issue 18976",
        group="F2",
        clauses=("TOPP02",),
        steps=_cut_by(_one_more_on_equality),
    ),
    Fault(
        name="topp-tiny-empty",
        about="the mass summed from the small end is compared with 1 - p in float32",
        report="ml-explore/mlx-lm PR 1912",
        group="F2",
        clauses=("TOPP05",),
        steps=_cut_by(_from_the_small_end),
    ),
    Fault(
        name="topp-one-is-greedy",
        about="p = 1 keeps the largest token alone",
        report="BlinkDL/ChatRWKV PR 170",
        group="F2",
        clauses=("TOPP06", "DRAW01"),
        steps=_cut_by(_first_true, at_one=True),
    ),
    Fault(
        name="topp-in-logs",
        about="log probabilities are summed instead of probabilities",
        report="skyzh/tiny-llm issue 32",
        group="F2",
        clauses=("TOPP01", "TOPP03"),
        steps=_cut_by(_in_logs),
    ),
    Fault(
        name="topp-wrong-end",
        about="the nucleus is cut from the smallest token up",
        report="vllm-project/vllm-ascend PR 4860",
        group="F2",
        clauses=("TOPP01", "TOPP05"),
        steps=_cut_by(_from_the_wrong_end),
    ),
    Fault(
        name="topp-coarse-sum",
        about="the running sum of probabilities is kept in float32",
        report="guoqingbao/attention.rs PR 9",
        group="F2",
        clauses=("TOPP01", "INV10"),
        steps=_cut_by(_coarse_sum),
    ),
    Fault(
        name="topp-bucketed",
        about="the nucleus ends at the edge of a bucket of logits",
        report="FlashML-org/FreeToken PR 345",
        group="F2",
        clauses=("TOPP01",),
        steps=replaced(CONTRACT, "top_p", per_row(_bucketed)),
    ),
    Fault(
        name="topp-no-upper-set",
        about="the smallest token of the nucleus is dropped and a smaller one kept",
        report="vllm-project/vllm-ascend PR 13847",
        group="F2",
        clauses=("TOPP01", "TOPP03", "INV09"),
        steps=_cut_by(_next_for_last),
    ),
)
