"""F6: rows with NaN, infinities or nothing left."""

from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Fault
from aliquot.contract.batch import Batch
from aliquot.contract.output import INVALID_TOKEN, SamplerOutput

LANES = 8


def _bad(output: SamplerOutput) -> Any:
    return output.sampled_token_ids[:, 0] == INVALID_TOKEN


def _with_ids(output: SamplerOutput, rows: Any, token: int) -> SamplerOutput:
    ids = output.sampled_token_ids.copy()
    ids[rows, 0] = token
    return replace(output, sampled_token_ids=ids)


def _zero(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    return _with_ids(output, _bad(output), 0)


def _pad_lane(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    """The first lane after the vocabulary wins where no token compares as larger."""
    lost = ~(logits > -np.inf).any(axis=1) & (batch.vocab_size % LANES > 0)
    return _with_ids(output, _bad(output) & lost, batch.vocab_size)


def _neighbours_too(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    bad = _bad(output)
    return _with_ids(output, ~bad, 0) if bad.any() else output


def _whole_batch(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    if _bad(output).any():
        raise ValueError("probability tensor contains either inf, nan or element < 0")
    return output


def _zero_if_masked(output: SamplerOutput, logits: Any, batch: Batch) -> SamplerOutput:
    return _with_ids(output, _bad(output) & np.isfinite(logits).any(axis=1), 0)


def _finite(logits: Any) -> Any:
    return np.nan_to_num(logits, nan=0.0, posinf=np.inf, neginf=-np.inf)


FAULTS = (
    Fault(
        name="bad-row-is-zero",
        about="a bad row returns id 0 without a mark",
        report="JustVugg/colibri issue 369",
        group="F6",
        clauses=("ERR16", "ERR17", "ERR18"),
        output=_zero,
    ),
    Fault(
        name="bad-row-pad-lane",
        about="a bad row returns the first lane after the vocabulary",
        report="vllm-project/vllm PR 50843",
        group="F6",
        clauses=("IO08", "ERR16", "ERR18"),
        output=_pad_lane,
    ),
    Fault(
        name="bad-row-spreads",
        about="a bad row makes all other rows return id 0",
        report="flashinfer-ai/flashinfer issue 2402",
        group="F6",
        clauses=("ERR17", "ERR16", "ERR18"),
        output=_neighbours_too,
    ),
    Fault(
        name="nan-is-zero",
        about="NaN logits count as 0",
        report="vllm-project/vllm-ascend PR 14116",
        group="F6",
        clauses=("ERR16", "ERR18", "ERR17"),
        logits=_finite,
    ),
    Fault(
        name="bad-row-ends-batch",
        about="a bad row makes the whole batch an error",
        report="NVIDIA/TensorRT-LLM PR 18893",
        group="F6",
        clauses=("ERR16", "ERR17", "ERR18"),
        output=_whole_batch,
    ),
    Fault(
        name="nothing-left-is-zero",
        about="masks that leave nothing give id 0 without a mark",
        report="vllm-project/vllm issue 57986",
        group="F6",
        clauses=("ERR16",),
        output=_zero_if_masked,
    ),
)
