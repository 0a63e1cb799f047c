"""What a worker process leaves behind, so that the run can tell how a backend ended it.

A worker writes four files named after itself into a folder of the run: `backend`, what the backend declares, once it is
made; `refused`, why it cannot be made; `call`, the call in progress, empty between calls; `dump`, the words of
faulthandler when a signal or the time limit ended the process. The limit is kept by faulthandler's thread, which is
written in C and needs no lock of the interpreter: it ends an endless loop as well as C code that never returns.
"""

import faulthandler
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from aliquot.conformance.backend import Backend, BackendLoadError, load
from aliquot.contract.batch import Batch
from aliquot.reports.results import BackendInfo, backend_from_dict

MAKING_LIMIT = 5.0
"""A backend may take this many times the limit to be made: it loads its framework then."""

SHOWN_REQUESTS = 4
MAKING = "the constructor"
_FATAL = re.compile(r"Fatal Python error: (.*)")


class Watch:
    """A worker's side: notes each call of the backend, ends the process when one takes over `limit` seconds."""

    def __init__(self, folder: Path, worker: str, limit: float) -> None:
        self.folder, self.worker, self.limit = folder, worker, limit
        # To arm the limit starts a thread: it is armed anew only once it is this old.
        self.slack = min(1.0, limit / 10)
        self.armed = -float("inf")
        self.dump = self._path("dump").open("w")
        self.call = os.open(self._path("call"), os.O_CREAT | os.O_RDWR)
        faulthandler.enable(self.dump)

    def _path(self, kind: str) -> Path:
        return self.folder / f"{self.worker}.{kind}"

    def make(self, spec: str) -> Backend:
        """The backend that `spec` names, every call watched; raises BackendLoadError."""
        try:
            with self.calling({"call": MAKING}, MAKING_LIMIT * self.limit):
                backend = load(spec)
        except BackendLoadError as error:
            self._path("refused").write_text(str(error), encoding="utf-8")
            raise
        self.rest()
        self._path("backend").write_text(json.dumps(asdict(described(backend))), encoding="utf-8")
        return cast("Backend", _Watched(backend, self))

    @contextmanager
    def calling(self, call: dict[str, Any], limit: float | None = None) -> Iterator[None]:
        """Note a call while it lasts, `limit` seconds at most."""
        if limit or time.monotonic() - self.armed > self.slack:
            seconds = limit or self.limit + self.slack
            faulthandler.dump_traceback_later(seconds, exit=True, file=self.dump)
            self.armed = time.monotonic()
        os.pwrite(self.call, json.dumps(call, default=str).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(self.call, 0)

    def rest(self) -> None:
        """Stop the clock: what follows is not the backend's."""
        faulthandler.cancel_dump_traceback_later()
        self.armed = -float("inf")


class _Watched:
    """A backend whose calls are noted before they are made."""

    def __init__(self, backend: Backend, watch: Watch) -> None:
        self.capabilities = backend.capabilities
        self._backend, self._watch = backend, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if not callable(found):
            return found
        setattr(self, name, self._noted(name, found))
        return getattr(self, name)

    def _noted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            with self._watch.calling(_call(name, arguments)):
                return method(*arguments)

        return noted


def _call(name: str, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """A call in JSON values: its method and its one row if that is small, else shapes and the first requests."""
    from aliquot.conformance.case import SHOWN_WHOLE, changed, plain

    told: dict[str, Any] = {"call": name}
    batch = next((a for a in arguments if isinstance(a, Batch)), None)
    array = next((a for a in arguments if hasattr(a, "shape")), None)
    if batch is not None and array is not None:
        if len(batch) == 1 and array.shape[-1] <= SHOWN_WHOLE:
            return told | _row(array, batch)
        told["params"] = [plain(changed(r.params)) for r in batch.requests[:SHOWN_REQUESTS]]
    if array is not None:
        told["logits"] = f"{array.dtype} {list(array.shape)}"
    return told


def _row(logits: Any, batch: Batch) -> dict[str, Any]:
    """A batch of one row as a witness that `aliquot explain` reads."""
    from aliquot.conformance.case import Case

    case = Case(
        name="",
        logits=np.array(logits.tolist(), dtype=np.float32),
        requests=tuple(batch.requests),
        grammar_bitmask=batch.grammar_bitmask,
        thinking=batch.thinking,
    )
    shown = case.witness(0)
    return {name: shown[name] for name in shown if name not in ("case", "row", "dtype")}


def described(backend: Backend) -> BackendInfo:
    """What a backend says of itself, for the report."""
    declared = backend.capabilities
    return BackendInfo(
        name=declared.name,
        version=declared.version,
        device=declared.device,
        dtypes=tuple(declared.dtypes),
        accuracy=declared.accuracy,
        noise=declared.noise,
        parameters=tuple(sorted(declared.parameters)),
        freedoms=declared.profile.as_dict(),
    )


@dataclass(frozen=True)
class Ending:
    """How a worker's process ended: in words, within which call (empty between calls), by the time limit or not."""

    words: str
    call: dict[str, Any]
    late: bool


def ending(folder: Path, worker: str, limit: float) -> Ending:
    """How a worker that is gone has ended, `limit` being its seconds for one answer."""
    dump, noted = (_read(folder / f"{worker}.{kind}") for kind in ("dump", "call"))
    call = json.loads(noted) if noted else {}
    fatal, late = _FATAL.search(dump), dump.startswith("Timeout")
    where = f" in {call['call']}" if call else ""
    if late:
        seconds = MAKING_LIMIT * limit if call.get("call") == MAKING else limit
        words = f"no answer within {seconds:g} s{where}"
    else:
        words = f"the process ended{where}{f': {fatal[1]}' if fatal else ''}"
    return Ending(words, call, late)


def refused(folder: Path, worker: str) -> str:
    """Why the worker could not make the backend, in its own words; empty if it could or died trying."""
    return _read(folder / f"{worker}.refused")


def declared(folder: Path) -> BackendInfo | None:
    """What the backend declared to the workers; None if none could make it."""
    told = next(iter(sorted(folder.glob("*.backend"))), None)
    return backend_from_dict(json.loads(told.read_text(encoding="utf-8"))) if told else None


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
