"""The fault library: samplers that are wrong in one known way, each modelled on a public report."""

from aliquot.conformance.faults import (
    bad_rows,
    divergence,
    draws,
    greedy,
    layout,
    logprobs,
    masks,
    min_p,
    nucleus,
    order,
    penalties,
    seeds,
    state,
    top_k,
)
from aliquot.conformance.faults.equivalent import EQUIVALENTS
from aliquot.conformance.faults.fault import Fault

__all__ = ["EQUIVALENTS", "FAULTS"]

_MODULES = (
    order, nucleus, top_k, min_p, greedy, bad_rows, draws, seeds, state, penalties, masks,
    logprobs, layout, divergence,
)  # fmt: skip
FAULTS: dict[str, Fault] = {fault.name: fault for module in _MODULES for fault in module.FAULTS}
