"""Which code draws the random rows of a group: one table, read from the top, the first rule that applies wins."""

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import torch
from torch import Tensor

from aliquot.contract.profile import Profile

ENTRY_POINTS = "aliquot.kernels"
NATIVE = "native"


class KernelError(RuntimeError):
    """A kernel library that is installed but cannot be loaded."""


@dataclass(frozen=True)
class Noise:
    """Where a kernel's random numbers start: int64 tensors `[1]` on its device."""

    seed: Tensor
    offset: Tensor

    def advance(self, rows: int) -> None:
        """Leave the numbers behind that a call on `rows` rows may have used."""
        self.offset.add_(32 * rows)


class Kernel(Protocol):
    """A sampler for one platform; its constructor imports what it needs."""

    def sample(
        self, logits: Tensor, top_k: Tensor | None, top_p: Tensor | None, noise: Noise
    ) -> Tensor:
        """Token ids, `[g]` or `[g, 1]` of any integer type, from contiguous float32 logits `[g, V]` after temperature.

        `top_k` int64 `[g]` with V where off and `top_p` float32 `[g]` are None where no row has one, not both.
        """


@dataclass(frozen=True)
class Need:
    """What a group of rows asks of the code that draws it."""

    filtered: bool
    min_p: bool
    seeded: bool
    processed: bool
    fp64_gumbel: bool
    unusual: bool


@dataclass(frozen=True)
class Rule:
    """On `platform` (`any` for all), when `applies`, the path is `path`; `reason` says why."""

    platform: str
    when: str
    applies: Callable[[Need], bool]
    path: str
    reason: str


TABLE = (
    Rule("cpu", "always", lambda need: True, NATIVE, "partial selection beats a kernel call"),
    Rule("any", "use_fp64_gumbel", lambda need: need.fp64_gumbel, NATIVE,
         "kernels draw their own noise"),
    Rule("any", "processed logprobs or logits", lambda need: need.processed, NATIVE,
         "kernels do not return what the filters left"),
    Rule("any", "a request with its own seed", lambda need: need.seeded, NATIVE,
         "a kernel's noise depends on the row's place in the batch (SEED02)"),
    Rule("any", "min_p", lambda need: need.min_p, NATIVE, "one threshold serves all filters"),
    Rule("any", "no top_k and no top_p", lambda need: not need.filtered, NATIVE,
         "one softmax and two short sums"),
    Rule("any", "a profile other than the kernels'", lambda need: need.unusual, NATIVE,
         "kernels keep ties, cut by k first and after temperature"),
    Rule("cuda", "top_k or top_p", lambda need: True,
         "aliquot.fast.kernel_flashinfer:FlashInfer", "rejection sampling without a sort"),
    Rule("rocm", "top_k or top_p", lambda need: True,
         "aliquot.fast.kernel_aiter:Aiter", "rejection sampling without a sort"),
    Rule("xpu", "top_k or top_p", lambda need: True,
         "aliquot.fast.kernel_xpu:Xpu", "fused top-k and top-p"),
    Rule("any", "top_k or top_p", lambda need: True, NATIVE, "no kernel for the platform"),
)  # fmt: skip


def platform_of(device: torch.device) -> str:
    """The device's type; `rocm` for AMD devices, which torch calls cuda."""
    if device.type == "cuda" and torch.version.hip:
        return "rocm"
    return device.type


def need_of(
    *,
    filtered: bool,
    min_p: bool,
    seeded: bool,
    processed: bool,
    fp64_gumbel: bool,
    profile: Profile,
) -> Need:
    """The need of a group under a profile."""
    freedoms = ("topk_ties", "topp_ties", "topp_exact", "temperature_order", "filter_order")
    unusual = not set(freedoms).isdisjoint(profile.departures())
    return Need(filtered, min_p, seeded, processed, fp64_gumbel, unusual)


def route(platform: str, need: Need) -> Rule:
    """The first rule of the table that applies; a registered kernel replaces the table's for its platform."""
    rule = next(r for r in TABLE if r.platform in (platform, "any") and r.applies(need))
    registered = _registered().get(platform)
    if registered is None or platform == "cpu" or rule.when != "top_k or top_p":
        return rule
    return Rule(platform, rule.when, rule.applies, registered, f"registered in {ENTRY_POINTS}")


@cache
def _registered() -> dict[str, str]:
    """Platform -> `module:Class` of the kernels that other packages registered."""
    return {e.name: e.value for e in importlib.metadata.entry_points(group=ENTRY_POINTS)}


@cache
def load(path: str) -> tuple[Kernel | None, str]:
    """The kernel named `module:Class` and why there is none.

    A library that is not installed gives None and the reason; the native path then serves. Raises KernelError,
    the cause chained, if the library or the kernel is there but fails to load.
    """
    module, _, name = path.partition(":")
    try:
        kernel: Kernel = getattr(importlib.import_module(module), name)()
    except ModuleNotFoundError as error:
        return None, f"{error.name} is not installed"
    except Exception as error:
        raise KernelError(f"kernel {path} cannot be loaded: {error}") from error
    return kernel, ""


def explain() -> list[tuple[str, str, str, str]]:
    """The table as text for this machine: platform, when, path and reason, a missing kernel's fallback included."""
    return [(r.platform, r.when, *_stated(r)) for r in TABLE]


def _stated(rule: Rule) -> tuple[str, str]:
    if rule.path == NATIVE:
        return NATIVE, rule.reason
    try:
        kernel, missing = load(rule.path)
    except KernelError as error:
        return "error", str(error)
    return (rule.path, rule.reason) if kernel else (NATIVE, f"{missing}; else {rule.path}")
