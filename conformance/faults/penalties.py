"""F10: penalties and the history that they count."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from aliquot.conformance.faults.fault import Fault, Ids, each, per_row
from aliquot.contract.batch import PLACEHOLDER, Batch, Request
from aliquot.contract.params import SamplingParams
from aliquot.oracle.penalties import counts, penalised, penalises
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, Steps, removed, replaced

WINDOW = 20
CACHE = 64
Tokens = Sequence[int]
Apply = Callable[[Rows, Ids, Ids, SamplingParams], Rows]


def _penalties(
    apply: Apply = penalised,
    *,
    prompt: Callable[[Tokens], Tokens] = lambda tokens: tokens,
    output: Callable[[Tokens], Tokens] = lambda tokens: tokens,
) -> Steps:
    """The contract's steps with other penalties: another formula, or other tokens counted."""

    def change(row: Rows, r: int, context: Context) -> Rows:
        params = context.params[r]
        if not penalises(params):
            return row
        seen = counts(prompt(context.batch.requests[r].prompt_token_ids or ()), row.size)
        return apply(row, seen, counts(output(context.histories[r]), row.size), params)

    return replaced(CONTRACT, "penalties", per_row(change))


def _without_sign(row: Rows, prompt: Ids, output: Ids, params: SamplingParams) -> Rows:
    divided = np.where((prompt > 0) | (output > 0), row / params.repetition_penalty, row)
    return penalised(divided, prompt, output, replace(params, repetition_penalty=1.0))


def _per_occurrence(row: Rows, prompt: Ids, output: Ids, params: SamplingParams) -> Rows:
    factor = params.repetition_penalty ** (prompt + output)
    row = np.where(row > 0, row / factor, row * factor)
    return penalised(row, prompt, output, replace(params, repetition_penalty=1.0))


def _prompt_counted(row: Rows, prompt: Ids, output: Ids, params: SamplingParams) -> Rows:
    return penalised(row, prompt, prompt + output, params)


def _presence_for_both(row: Rows, prompt: Ids, output: Ids, params: SamplingParams) -> Rows:
    both = replace(params, frequency_penalty=params.presence_penalty)
    return penalised(row, prompt, output, both)


def _no_repetition(row: Rows, prompt: Ids, output: Ids, params: SamplingParams) -> Rows:
    return penalised(row, prompt, output, replace(params, repetition_penalty=1.0))


def _zeros_counted(tokens: Tokens) -> Tokens:
    return (*tokens, *[0] * max(0, CACHE - len(tokens)))


def _without_last(tokens: Tokens) -> Tokens:
    return tokens[:-1]


def _wrapped(row: Rows, r: int, context: Context) -> Rows:
    """The placeholder -1 counts for the last token, as an index from the end does."""
    params = context.params[r]
    if not penalises(params):
        return row
    output = [row.size - 1 if t == PLACEHOLDER else t for t in context.histories[r]]
    prompt = context.batch.requests[r].prompt_token_ids or ()
    return penalised(row, counts(prompt, row.size), counts(output, row.size), params)


def _padded(batch: Batch) -> Batch:
    longest = max((len(r.output_token_ids) for r in batch.requests), default=0)

    def changed(request: Request, r: int, batch: Batch) -> Request:
        padding = [0] * (longest - len(request.output_token_ids))
        if not penalises(request.params) or not padding:
            return request
        return replace(request, output_token_ids=[*request.output_token_ids, *padding])

    return each(changed)(batch)


def _from_row_before(request: Request, r: int, batch: Batch) -> Request:
    """The padding id V in the prompt of one row marks token 0 of the next as seen."""
    before = batch.requests[r - 1].prompt_token_ids or () if r else ()
    if batch.vocab_size not in before:
        return request
    return replace(request, prompt_token_ids=(*(request.prompt_token_ids or ()), 0))


FAULTS = (
    Fault(
        name="rep-sign",
        about="the repetition penalty divides negative logits too",
        report="huggingface/transformers issue 2302",
        group="F10",
        clauses=("PEN02",),
        steps=_penalties(_without_sign),
    ),
    Fault(
        name="rep-per-occurrence",
        about="the repetition penalty acts once for every occurrence",
        report="huggingface/transformers.js PR 1062",
        group="F10",
        clauses=("PEN04",),
        steps=_penalties(_per_occurrence),
    ),
    Fault(
        name="pen-counts-prompt",
        about="frequency and presence count prompt tokens",
        report="NVIDIA/TensorRT-LLM PR 5623",
        group="F10",
        clauses=("PEN07",),
        steps=_penalties(_prompt_counted),
    ),
    Fault(
        name="rep-skips-prompt",
        about="the repetition penalty does not see the prompt",
        report="vllm-project/vllm PR 1577",
        group="F10",
        clauses=("PEN03",),
        steps=_penalties(prompt=lambda tokens: ()),
    ),
    Fault(
        name="pen-window",
        about="penalties look back 20 tokens",
        report="osaurus-ai/vmlx-swift PR 296",
        group="F10",
        clauses=("PEN08",),
        steps=_penalties(output=lambda tokens: tokens[-WINDOW:]),
    ),
    Fault(
        name="pen-window-start",
        about="penalties look at the first 64 tokens of the output",
        report="abetlen/llama-cpp-python PR 1295",
        group="F10",
        clauses=("PEN08",),
        steps=_penalties(output=lambda tokens: tokens[:CACHE]),
    ),
    Fault(
        name="pen-last-token",
        about="penalties see only the last token of the output",
        report="ikawrakow/ik_llama.cpp PR 2410",
        group="F10",
        clauses=("PEN08", "PEN05", "PEN04", "PEN01", "PEN02"),
        steps=_penalties(output=lambda tokens: tokens[-1:]),
    ),
    Fault(
        name="pen-empty-cells",
        about="the empty cells of a window of 64 count as id 0",
        report="ggml-org/llama.cpp issue 8971",
        group="F10",
        clauses=("PEN05", "PEN06", "PEN09", "PEN01"),
        steps=_penalties(output=_zeros_counted),
    ),
    Fault(
        name="pen-arguments",
        about="the presence penalty is used for the frequency penalty too",
        report="mlc-ai/mlc-llm PR 1693",
        group="F10",
        clauses=("PEN05", "PEN06", "PEN01"),
        steps=_penalties(_presence_for_both),
    ),
    Fault(
        name="pen-lagging",
        about="the last token of the output is not counted yet",
        report="youssofal/MTPLX issue 156",
        group="F10",
        clauses=("STATE02", "PEN01", "PEN05", "PEN03", "PEN06", "PEN12"),
        steps=_penalties(output=_without_last),
    ),
    Fault(
        name="pen-lost",
        about="penalties are ignored",
        report="sgl-project/sglang-jax PR 976",
        group="F10",
        clauses=("PEN01", "PEN02", "PEN05", "PEN06", "PEN12"),
        steps=removed(CONTRACT, "penalties"),
    ),
    Fault(
        name="rep-ignored",
        about="the repetition penalty is ignored",
        report="sgl-project/sglang PR 21258",
        group="F10",
        clauses=("PEN02", "PEN03", "PEN04", "PEN01"),
        steps=_penalties(_no_repetition),
    ),
    Fault(
        name="pen-placeholder",
        about="the placeholder -1 counts for the last token",
        report="vllm-project/vllm PR 26467",
        group="F10",
        clauses=("PEN09",),
        steps=replaced(CONTRACT, "penalties", per_row(_wrapped)),
    ),
    Fault(
        name="pen-padding-counted",
        about="the padding of shorter outputs counts as id 0",
        report="huggingface/text-generation-inference PR 1765",
        group="F10",
        clauses=("PEN14", "PEN09"),
        requests=_padded,
    ),
    Fault(
        name="pen-into-next-row",
        about="the padding id V in a prompt marks id 0 of the next row as seen",
        report="vllm-project/vllm PR 49081",
        group="F10",
        clauses=("PEN09", "PEN14"),
        requests=each(_from_row_before),
    ),
)
