"""PLUG09, STATE08: what a step asks of the device.

The processor runs on torch's `meta` device, whose tensors have no data: whatever would make the host wait
for a device shows itself, on any machine.
"""

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from aliquot.conformance.backend import one_line
from aliquot.conformance.processor_check.compare import first_difference, form
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed, passed
from aliquot.conformance.processor_check.search import Difference
from aliquot.conformance.processor_check.subject import (
    MAX_ROWS,
    Subject,
    additions,
    apply,
    update,
)
from aliquot.contract.batch import Request
from aliquot.fast.processors.interface import LogitsProcessor
from aliquot.reports.results import Verdict

META = torch.device("meta")
READS = frozenset({
    "_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "unique_consecutive", "equal", "masked_select",
    "bincount", "is_nonzero",
})  # fmt: skip
INDEXING = frozenset({"index", "index_put", "index_put_"})
COST_VOCAB = 8192
TIMED_VOCAB, TIMED_STEPS = 32_768, 11


class DeviceRead(Exception):
    """An operation that needs data of the device on the host."""


class _Tracing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations and the logits-sized passes that they make, and stops at one that waits for the device."""

    def __init__(self, width: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.width = width
        self.operations = 0
        self.values = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if _waits(name, args, kwargs or {}):
            raise DeviceRead(name)
        result = func(*args, **(kwargs or {}))
        touched = [t.numel() for t in (*args, result) if isinstance(t, Tensor)]
        if not func.is_view:
            self.operations += 1
            self.values += max((n for n in touched if n >= self.width), default=0)
        return result


def _waits(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    tensors = [t for t in args if isinstance(t, Tensor)]
    if not any(t.is_meta for t in tensors):
        return False
    if name in INDEXING:
        masks = any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
        return masks and not (len(args) > 2 and args[2].numel() == 1)
    to_host = torch.device(kwargs.get("device") or META).type == "cpu"
    into_host = name == "copy_" and not tensors[0].is_meta
    return name in READS or to_host or into_host


def check_sync(subject: Subject) -> Outcome:
    """A step never waits for the device, and its result stays there."""
    requests = _every_kind(subject)
    logits = torch.empty(len(requests), subject.vocab_size, device=META)
    try:
        with _Tracing(subject.vocab_size):
            processor = subject.make(META)
            for change in (additions(requests), None):
                processor.update_state(change)
                result = processor.apply(logits)
    except DeviceRead as error:
        return failed(_read(str(error)))
    except Exception as error:
        if "meta" in str(error) and "numpy" in str(error):
            return failed(_read("numpy"))
        told = f"cannot be traced without data: {one_line(error)}"
        return Outcome(verdict=Verdict.UNSUPPORTED, reason=told)
    if result.device != logits.device:
        wanted = form(logits).replace("meta", "the device")
        return failed(Difference(wanted=wanted, got=form(result)))
    return passed("a step with every kind of request never waits for the device")


def _read(operation: str) -> Difference:
    return Difference(
        wanted="a step that leaves the device to itself",
        got=f"{operation}, which waits for the device and reads its data",
    )


def check_cost(subject: Subject) -> Outcome:
    """Counts the operations of a step with every kind of request, and with requests that ask for nothing."""
    requests = _every_kind(subject)
    busy, passes = cost(subject, requests)
    told = f"{busy} tensor operations, {passes:.1f} passes over the logits a step of {len(requests)} requests"
    plain = [subject.request(0)] * len(requests)
    logits = subject.reference[: len(plain)]
    if first_difference(logits, apply(subject.fresh(plain), logits)) is not None:
        return passed(f"{told}; it acts on every request")
    idle, _ = cost(subject, plain)
    if idle:
        told = f"should do nothing for requests that ask for nothing, does {idle} tensor operations; {told}"
        return Outcome(verdict=Verdict.DIVERGES, reason=told)
    return passed(f"{told}; none for requests that ask for nothing")


def cost(subject: Subject, requests: list[Request]) -> tuple[int, float]:
    """Operations of one step, and how often it passes over all logits."""
    width = max(COST_VOCAB, subject.vocab_size)
    processor = subject.make(vocab_size=width)
    update(processor, additions(requests))
    logits = torch.zeros(len(requests), width)
    _step(processor, logits)
    with _Tracing(width) as counted:
        _step(processor, logits)
    return counted.operations, counted.values / max(1, logits.numel())


def measure(subject: Subject) -> tuple[float, list[int]]:
    """The median time of a step in seconds, and the shape of its logits; raises ProcessorRaised."""
    width = max(TIMED_VOCAB, subject.vocab_size)
    processor = subject.make(vocab_size=width)
    kinds = len(subject.kinds)
    update(processor, additions([subject.request(r % kinds) for r in range(MAX_ROWS)]))
    logits = torch.zeros(MAX_ROWS, width)
    seconds = []
    for _ in range(TIMED_STEPS):
        begin = time.perf_counter()
        update(processor, None)
        apply(processor, logits, copy=False)
        seconds.append(time.perf_counter() - begin)
    return sorted(seconds)[TIMED_STEPS // 2], list(logits.shape)


def _step(processor: LogitsProcessor, logits: Tensor) -> None:
    update(processor, None)
    apply(processor, logits, copy=False)


def _every_kind(subject: Subject) -> list[Request]:
    return [subject.request(kind) for kind in range(min(MAX_ROWS, len(subject.kinds)))]


CHECKS = (
    Check(id="device-sync", clauses=("PLUG09",), title="A step does not wait for the device",
          run=check_sync),
    Check(id="idle-cost", clauses=("STATE08",), title="Nothing active, nothing done",
          run=check_cost),
)  # fmt: skip
