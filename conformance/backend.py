"""What a sampler must offer to be tested: one method and an honest declaration."""

import ast
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from aliquot.contract.accuracy import CLASSES
from aliquot.contract.batch import LOGPROBS_MODES, Batch, BatchUpdate, LogprobsMode
from aliquot.contract.output import SamplerOutput
from aliquot.contract.params import SamplingParams
from aliquot.contract.profile import CANONICAL, Profile

ENTRY_POINT_GROUP = "aliquot.backends"
FAULT_PREFIX = "fault:"
PARAMETERS = frozenset(f.name for f in fields(SamplingParams)) | {"grammar_bitmask"}


SEVERAL = frozenset({"dtypes", "parameters", "logprobs_modes"})
ALLOWED: dict[str, Collection[str]] = {
    "arrays": ("torch", "numpy"),
    "noise": ("opaque", "replayable"),
    "accuracy": tuple(CLASSES),
    "dtypes": ("float32", "bfloat16", "float16"),
    "parameters": PARAMETERS,
    "logprobs_modes": LOGPROBS_MODES,
}


class BackendLoadError(Exception):
    """A backend that cannot be found, imported or made; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend says of itself; nothing undeclared is tested, nothing declared is skipped.

    `arrays` is the kind of array that `sample` takes and returns, `dtypes` the logits' dtypes, `parameters` the
    names of SamplingParams' fields that act (and `grammar_bitmask`), `logprobs_modes` the modes it
    offers, `accuracy` a name in contract.accuracy.CLASSES. `validates` says that `sample` refuses bad parameters
    with ValueError, `stateful` that the backend is a StatefulBackend, `given_logprobs` that it has
    `logprobs_of(logits, token_ids) -> Logprobs`, raw logprobs of one given token per row. `noise` is
    replayable when the backend is a ReplayableBackend.
    """

    name: str
    version: str = "unknown"
    arrays: Literal["torch", "numpy"] = "torch"
    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float32",)
    parameters: frozenset[str] = PARAMETERS
    logprobs_modes: tuple[LogprobsMode, ...] = ()
    validates: bool = False
    stateful: bool = False
    given_logprobs: bool = False
    noise: Literal["opaque", "replayable"] = "opaque"
    accuracy: str = "float32"
    profile: Profile = CANONICAL

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            value = getattr(self, name)
            several = isinstance(value, tuple | frozenset | set)
            if (name in SEVERAL) != several:
                kind = "a tuple or set of names" if name in SEVERAL else "one name"
                raise ValueError(f"capabilities: {name} is {value!r}, allowed is {kind}")
            unknown = sorted(set(value) - set(allowed)) if several else [value]
            if unknown and (several or value not in allowed):
                given = ", ".join(map(repr, unknown))
                raise ValueError(
                    f"capabilities: {name} has {given}, allowed are {', '.join(sorted(allowed))}"
                )


@runtime_checkable
class Backend(Protocol):
    """A sampler under test.

    A backend may also have `reseed(seed: int) -> None`, which restarts the noise of requests without a seed; without
    it, two runs draw different tokens.
    """

    capabilities: Capabilities

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """Sample one token per row of `logits` [n, V]."""
        ...


@runtime_checkable
class StatefulBackend(Backend, Protocol):
    """A sampler that keeps its batch between steps and is told only what changed."""

    def start(self, vocab_size: int, mode: LogprobsMode) -> None:
        """Begin with an empty batch whose requests see `vocab_size` tokens."""
        ...

    def step(self, logits: Any, update: BatchUpdate | None) -> SamplerOutput:
        """Follow the update (None: nothing changed), then sample one token per row of `logits` [n, V]."""
        ...


@runtime_checkable
class ReplayableBackend(Backend, Protocol):
    """A sampler that hands out the noise of its draws and can be given some."""

    def last_noise(self) -> tuple[str, Any]:
        """The noise of the last call: its kind and its values.

        `inverse_cdf`: one uniform a row [n], the token is the first in id order whose cumulated probability exceeds
        it. `gumbel` and `exponential_race`: one value a token [n, V].
        """
        ...

    def inject(self, values: Any) -> None:
        """Use these values as the next call's noise, NumPy float64 of the shape that `last_noise` has."""
        ...


def load(spec: str) -> Backend:
    """Make the backend that `spec` names: an installed name, `module:Name` or `fault:NAME`.

    Raises BackendLoadError with one line that says what is wrong and what is allowed.
    """
    try:
        factory = _factory(spec)
        _needs_nothing(spec, factory)
        made: Backend = factory()
        _is_backend(spec, made)
    except BackendLoadError:
        raise
    except (Exception, SystemExit) as error:
        raise BackendLoadError(f"backend {spec}: cannot be made: {one_line(error)}") from error
    _keeps_its_word(spec, made)
    return made


def _needs_nothing(spec: str, factory: Callable[[], Any]) -> None:
    """Raise BackendLoadError for what cannot be called without arguments."""
    try:
        wanted = signature(factory)
    except ValueError:  # of a callable in C, which has no signature to read
        return
    try:
        wanted.bind()
    except TypeError as error:
        raise BackendLoadError(
            f"backend {spec}: {error}, allowed is a class or function without arguments that makes a backend"
        ) from error


def _is_backend(spec: str, made: Any) -> None:
    """Raise BackendLoadError that names what is missing of `sample` and `capabilities`."""
    parts = {
        "sample()": "sample",
        f"capabilities (an {Capabilities.__module__}.Capabilities)": "capabilities",
    }
    lacks = " and ".join(words for words, name in parts.items() if not hasattr(made, name))
    if lacks:
        raise BackendLoadError(f"backend {spec}: is a {type(made).__name__} without {lacks}")
    declared = made.capabilities
    if not isinstance(declared, Capabilities):
        raise BackendLoadError(
            f"backend {spec}: capabilities is a {type(declared).__name__}, "
            f"allowed is an {Capabilities.__module__}.Capabilities"
        )


def _keeps_its_word(spec: str, backend: Backend) -> None:
    """Raise BackendLoadError when a declared ability has no method."""
    declared = backend.capabilities
    needed = {
        "stateful": ("start", "step") if declared.stateful else (),
        "noise": ("last_noise", "inject") if declared.noise == "replayable" else (),
        "given_logprobs": ("logprobs_of",) if declared.given_logprobs else (),
    }
    for name, methods in needed.items():
        for method in methods:
            if not callable(getattr(backend, method, None)):
                raise BackendLoadError(f"backend {spec}: declares {name} and has no {method}()")


def installed() -> dict[str, EntryPoint]:
    """The backends that installed packages offer, by name."""
    return {point.name: point for point in sorted(entry_points(group=ENTRY_POINT_GROUP))}


def missing(point: EntryPoint) -> str:
    """The package that a backend's module imports and that is absent; empty if there is none.

    The module is read, not imported: to import it would load its framework.
    """
    try:
        spec = find_spec(point.module)
    except ImportError as error:
        return error.name or point.module
    if spec is None or spec.origin is None:
        return point.module
    body = ast.parse(Path(spec.origin).read_bytes()).body
    names = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in body if isinstance(node, ast.ImportFrom)]
    roots = (name.partition(".")[0] for name in names)
    return next((root for root in roots if find_spec(root) is None), "")


def one_line(error: BaseException) -> str:
    """An exception as `Type: first line of the message`."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def place_of(error: BaseException) -> str:
    """Where an exception was raised, as ` at file.py:line` of the innermost frame outside installed packages."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def _factory(spec: str) -> Callable[[], Any]:
    if spec.startswith(FAULT_PREFIX):
        return _fault(spec)
    if ":" in spec:
        return _named(spec)
    known = installed()
    if spec not in known:
        raise BackendLoadError(
            f"backend {spec}: no such backend; installed are {', '.join(known)}, "
            "also allowed are module:Name and fault:NAME"
        )
    return _as_factory(known[spec].load())


def _fault(spec: str) -> Callable[[], Any]:
    from aliquot.conformance.faults import EQUIVALENTS, FAULTS

    name, known = spec.removeprefix(FAULT_PREFIX), FAULTS | EQUIVALENTS
    if name not in known:
        raise BackendLoadError(f"backend {spec}: no such fault; allowed are {', '.join(known)}")
    return known[name].make


def _named(spec: str) -> Callable[[], Any]:
    module, _, name = spec.partition(":")
    if not module or not name:
        raise BackendLoadError(f"backend {spec}: allowed is module:Name")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    target = _module(spec, module)
    for part in name.split("."):
        if not hasattr(target, part):
            raise BackendLoadError(f"backend {spec}: {module} has no {name}")
        target = getattr(target, part)
    return _as_factory(target)


def _module(spec: str, name: str) -> Any:
    """The module of that name; raises BackendLoadError for a file's name, else what the import raises."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not name.endswith(".py"):
            raise
        raise BackendLoadError(
            f"backend {spec}: {name} is a file, allowed is a module's name without .py, as in an import"
        ) from error


def _as_factory(target: Any) -> Callable[[], Any]:
    made = isinstance(target, Backend) and not isinstance(target, type)
    return target if callable(target) and not made else lambda: target
