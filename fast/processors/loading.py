"""Finds, loads and builds the processors of an engine, and refuses what cannot work."""

import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import torch

from aliquot.fast.processors.builtin import BUILT_IN, MinTokens
from aliquot.fast.processors.collection import LogitsProcessors
from aliquot.fast.processors.interface import LogitsProcessor
from aliquot.fast.processors.vllm import VllmProcessor, written_for_vllm

ENTRY_POINT_GROUPS = ("aliquot.logits_processors", "vllm.logits_processors")
TPU = "xla"

Name = str | type[Any]


def build_logits_processors(
    config: Any,
    device: torch.device,
    is_pin_memory: bool = False,
    *,
    is_pooling_model: bool = False,
    custom: Sequence[Name] = (),
) -> LogitsProcessors:
    """Build the built-in processors, then those of installed packages, then those in `custom` (PLUG02).

    `custom` holds classes or names `module:Qualified.Name`. Raises ValueError for what is no processor (PLUG03), and
    for custom ones with a pooling model (PLUG05) or speculative decoding (PLUG06); RuntimeError with its
    cause for one that cannot be loaded or built (PLUG04). On TPU custom processors are ignored (PLUG08).
    """
    if is_pooling_model:
        _refuse(custom, "with a pooling model, which runs none")
        return LogitsProcessors()
    if config.speculative_config is not None:
        _refuse(custom, "with speculative decoding")
        warnings.warn("min_p and logit_bias are off with speculative decoding", stacklevel=2)
        return LogitsProcessors([MinTokens(config, device, is_pin_memory)])
    classes = BUILT_IN if device.type == TPU else (*BUILT_IN, *load_custom(custom))
    return LogitsProcessors(build(cls, config, device, is_pin_memory) for cls in classes)


def _refuse(custom: Sequence[Name], why: str) -> None:
    if custom:
        names = ", ".join(name if isinstance(name, str) else name.__name__ for name in custom)
        raise ValueError(f"custom logits processors: {names} given, allowed are none {why}")


def load_custom(custom: Sequence[Name]) -> list[type[Any]]:
    """The classes of installed packages, then those in `custom`; a class found in both groups counts once."""
    installed = {point: point.load for point in _installed()}
    loaded = [_loaded(f"plug-in {p.name} ({p.value})", load) for p, load in installed.items()]
    return [*dict.fromkeys(loaded), *map(load_class, custom)]


def _installed() -> Iterable[EntryPoint]:
    for group in ENTRY_POINT_GROUPS:
        yield from sorted(entry_points(group=group))


def load_class(name: Name) -> type[Any]:
    """The class that `name` names; it derives from LogitsProcessor, ours or vLLM's.

    Raises ValueError for a wrong name or target (PLUG03), RuntimeError when its module cannot be imported
    (PLUG04).
    """
    if isinstance(name, type):
        return _checked(name.__name__, name)
    module, colon, path = name.partition(":")
    if not (colon and module and path):
        raise ValueError(f"logits processor {name!r}: allowed is module:Qualified.Name")
    target: Any = _imported(name, partial(importlib.import_module, module))
    for part in path.split("."):
        if not hasattr(target, part):
            raise ValueError(f"logits processor {name}: module {module} has no {path}")
        target = getattr(target, part)
    return _checked(name, target)


def _loaded(what: str, load: Callable[[], Any]) -> type[Any]:
    return _checked(what, _imported(what, load))


def _imported(what: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:
        raise RuntimeError(f"logits processor {what}: cannot be loaded: {error}") from error


def _checked(what: str, target: Any) -> type[Any]:
    if not isinstance(target, type):
        raise ValueError(
            f"logits processor {what}: is a {type(target).__name__}, allowed is a class"
        )
    if not issubclass(target, LogitsProcessor) and not written_for_vllm(target):
        raise ValueError(
            f"logits processor {what}: class {target.__name__} does not derive from "
            "aliquot.fast.processors.interface.LogitsProcessor or vLLM's"
        )
    return target


def build(
    cls: type[Any], config: Any, device: torch.device, is_pin_memory: bool
) -> LogitsProcessor:
    """An instance of a loaded class; raises RuntimeError with its cause when the constructor fails."""
    make = partial(VllmProcessor, cls) if written_for_vllm(cls) else cls
    try:
        made: LogitsProcessor = make(config, device, is_pin_memory)
    except Exception as error:
        raise RuntimeError(f"logits processor {cls.__name__}: cannot be built: {error}") from error
    return made
