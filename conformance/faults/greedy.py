"""F5: temperature at its limits and greedy rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Fault, each, per_row, with_params
from aliquot.contract.batch import Batch, Request
from aliquot.contract.output import SamplerOutput
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, replaced

LARGEST_FLOAT16 = 65504.0


def _minus_one_for_greedy(row: Rows, r: int, context: Context) -> Rows:
    greedy = context.batch.requests[r].params.greedy
    with np.errstate(divide="ignore"):
        return row / (-1.0 if greedy else context.params[r].temperature)


def _overflowing(row: Rows, r: int, context: Context) -> Rows:
    if not context.batch.requests[r].params.greedy:
        row /= context.params[r].temperature
    row[row > LARGEST_FLOAT16] = np.inf
    row[row < -LARGEST_FLOAT16] = -np.inf
    return row


def _greedy_places(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    """In a mixed batch the place of the maximum among the sorted tokens, 0, is taken for its id."""
    greedy = np.array([r.params.greedy for r in batch.requests], dtype=bool)
    ids = output.sampled_token_ids.copy()
    if not greedy.all():
        ids[greedy] = 0
    return replace(output, sampled_token_ids=ids)


def _all_greedy(request: Request, r: int, batch: Batch) -> Request:
    return with_params(request, temperature=0.0) if len(batch) > 1 else request


def _plain_is_greedy(request: Request, r: int, batch: Batch) -> Request:
    p = request.params
    plain = (p.temperature, p.top_k, p.top_p, p.min_p) == (1.0, 0, 1.0, 0.0)
    return with_params(request, temperature=0.0) if plain else request


def _drawn_in_mixed(request: Request, r: int, batch: Batch) -> Request:
    mixed = request.params.greedy and not batch.all_greedy
    return with_params(request, temperature=1.0) if mixed else request


FAULTS = (
    Fault(
        name="greedy-temp-minus-one",
        about="greedy rows are divided by the temperature -1 that marks them",
        report="vllm-project/vllm issue 22180",
        group="F5",
        clauses=("TEMP02", "LOGP05"),
        steps=replaced(CONTRACT, "temperature", per_row(_minus_one_for_greedy)),
    ),
    Fault(
        name="temp-overflow",
        about="logits above 65504 after temperature become infinite",
        report="facebookresearch/metaseq PR 247",
        group="F5",
        clauses=("TEMP04", "TEMP03"),
        steps=replaced(CONTRACT, "temperature", per_row(_overflowing)),
    ),
    Fault(
        name="greedy-place-for-id",
        about="greedy rows of a mixed batch return the maximum's place among the sorted tokens",
        report="vllm-project/vllm-ascend PR 16430",
        group="F5",
        clauses=("GREEDY04", "GREEDY03", "MINP05"),
        output=_greedy_places,
    ),
    Fault(
        name="batches-are-greedy",
        about="all rows of a batch of two and more are greedy",
        report="paiml/aprender PR 2027",
        group="F5",
        clauses=("DRAW01", "GREEDY04", "DRAW03"),
        requests=each(_all_greedy),
    ),
    Fault(
        name="temp-one-is-greedy",
        about="a request with temperature 1 and no filter is greedy",
        report="huggingface/text-generation-inference issue 687",
        group="F5",
        clauses=("DRAW01", "GREEDY01"),
        requests=each(_plain_is_greedy),
    ),
    Fault(
        name="greedy-drawn-in-mixed",
        about="greedy rows of a mixed batch are drawn at temperature 1",
        report="vllm-project/vllm-ascend PR 5423",
        group="F5",
        clauses=("GREEDY04", "GREEDY03", "MINP05"),
        requests=each(_drawn_in_mixed),
    ),
)
