"""F14: index width, dtypes, memory layout and ids outside the vocabulary."""

from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Fault, Ids
from aliquot.contract.batch import Batch
from aliquot.contract.output import SamplerOutput

WRAPS_AT = 2**13
VECTOR = 8
MAP_WIDTH = 2**14


def _stride_blind(logits: Any) -> Any:
    """Row r is read from place r * V of the buffer, whatever the distance between rows is."""
    n, vocab = logits.shape
    buffer = logits if logits.base is None or logits.flags.c_contiguous else logits.base
    return buffer.reshape(-1)[: n * vocab].reshape(n, vocab).copy()


def _wrapped_offset(logits: Any) -> Any:
    """Row r is read from place r * V modulo the range of the index, here 2^13 instead of 2^32."""
    n, vocab = logits.shape
    flat = np.ascontiguousarray(logits).reshape(-1)
    places = (np.arange(n)[:, None] * vocab) % max(WRAPS_AT, vocab) + np.arange(vocab)
    return flat[np.minimum(places, max(flat.size - 1, 0))] if flat.size else logits


def _whole_vectors(logits: Any) -> Any:
    """The last tokens that fill no vector of 8 are not seen."""
    vocab = logits.shape[1]
    if vocab < VECTOR:
        return logits
    seen = np.array(logits)
    seen[:, vocab // VECTOR * VECTOR :] = -np.inf
    return seen


def _int32_ids(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    return replace(output, sampled_token_ids=output.sampled_token_ids.astype(np.int32))


def _int32_beside(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    if output.logprobs is None:
        return output
    narrow = replace(output.logprobs, token_ids=output.logprobs.token_ids.astype(np.int32))
    return replace(output, logprobs=narrow)


def _narrow_map(ids: Ids) -> Ids:
    return np.where(ids >= MAP_WIDTH, ids % MAP_WIDTH, ids)


FAULTS = (
    Fault(
        name="stride-blind",
        about="the distance between rows is taken for V",
        report="vllm-project/vllm issue 42684",
        group="F14",
        clauses=("IO02",),
        logits=_stride_blind,
    ),
    Fault(
        name="offset-wraps",
        about="the offset of a row wraps around in a narrow index",
        report="vllm-project/vllm PR 46560",
        group="F14",
        clauses=("INV03", "INV08"),
        logits=_wrapped_offset,
    ),
    Fault(
        name="vector-tail-lost",
        about="the last tokens, which fill no vector of 8, are not seen",
        report="turboderp-org/exllamav2 issue 778",
        group="F14",
        clauses=("IO03",),
        logits=_whole_vectors,
    ),
    Fault(
        name="ids-int32",
        about="sampled ids are int32",
        report="vllm-project/vllm PR 15065",
        group="F14",
        clauses=("IO07",),
        output=_int32_ids,
    ),
    Fault(
        name="ids-mixed",
        about="ids beside logprobs are int32, sampled ones int64",
        report="vllm-project/vllm PR 41761",
        group="F14",
        clauses=("IO07",),
        output=_int32_beside,
    ),
    Fault(
        name="index-map-narrow",
        about="the table of ids has 2^14 entries and wraps around",
        report="tenstorrent/tt-metal issue 52928",
        group="F14",
        clauses=("IO03", "GREEDY01", "GREEDY02"),
        token_map=_narrow_map,
    ),
)
