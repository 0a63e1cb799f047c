"""One case: logits, requests and how they are laid out; the unit that checks are made of."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import Batch, LogprobsMode, Request, ThinkingMarkers
from aliquot.contract.params import SamplingParams

SHOWN_WHOLE = 64
_DEFAULTS = SamplingParams()


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Logits float32 [n, V], whose values are exact in `dtype`, and one request per row.

    `padding` columns of other data follow each row in memory, so that the row stride is V + padding.
    """

    name: str
    logits: npt.NDArray[np.float32]
    requests: tuple[Request, ...]
    dtype: str = "float32"
    mode: LogprobsMode = "raw_logprobs"
    grammar_bitmask: npt.NDArray[np.int32] | None = None
    thinking: ThinkingMarkers | None = None
    padding: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def vocab_size(self) -> int:
        """V."""
        return int(self.logits.shape[1])

    def batch(self) -> Batch:
        """A fresh batch: its output lists are not shared with any earlier one."""
        return Batch(
            requests=[_copied(r, r.id) for r in self.requests],
            vocab_size=self.vocab_size,
            logprobs_mode=self.mode,
            grammar_bitmask=self.grammar_bitmask,
            thinking=self.thinking,
        )

    def features(self) -> frozenset[str]:
        """The parameters that some request sets, and `grammar_bitmask` if there is one."""
        used = {name for request in self.requests for name in changed(request.params)}
        if self.grammar_bitmask is not None:
            used.add("grammar_bitmask")
        return frozenset(used)

    def asking(self, mode: LogprobsMode, **logprobs: Any) -> "Case":
        """The same case asking every row for logprobs in `mode`."""
        return replace(self, mode=mode, requests=tuple(with_params(self.requests, **logprobs)))

    def tiled(self, times: int) -> "Case":
        """The case's rows repeated, every copy a request of its own."""
        requests = (_copied(r, f"{r.id}.{t}") for t in range(times) for r in self.requests)
        rows, mask = len(self.requests), self.grammar_bitmask
        copies = np.broadcast_to(self.logits, (times, *self.logits.shape))
        return replace(
            self,
            logits=copies[:, 0] if rows == 1 else copies.reshape(times * rows, -1),
            requests=tuple(requests),
            grammar_bitmask=None if mask is None else np.tile(mask, (times, 1)),
        )

    def only(self, rows: list[int]) -> "Case":
        """The case of some of its rows."""
        mask = self.grammar_bitmask
        return replace(
            self,
            logits=self.logits[rows],
            requests=tuple(self.requests[r] for r in rows),
            grammar_bitmask=None if mask is None else mask[rows],
        )

    def witness(self, row: int, tokens: Iterable[int] = ()) -> dict[str, Any]:
        """Row `row`, counted from 0, as JSON values: whole when small, else its extremes and the logits of `tokens`."""
        if not self.requests:
            return {"case": self.name, "rows": 0}
        request = self.requests[row]
        shown: dict[str, Any] = {"case": self.name, "row": row}
        if len(self.requests) > 1:
            shown["rows"] = len(self.requests)
        shown["dtype"] = self.dtype
        if self.vocab_size <= SHOWN_WHOLE:
            shown["logits"] = [_number(x) for x in self.logits[row]]
        else:
            shown["V"] = self.vocab_size
            shown["extremes"] = extremes(self.logits[row])
            shown["logits"] = {str(t): _number(self.logits[row, t]) for t in tokens}
        shown["params"] = plain(changed(request.params))
        for name in ("prompt_token_ids", "output_token_ids"):
            if ids := getattr(request, name):
                shown[name] = list(ids)
        if self.grammar_bitmask is not None:
            shown["grammar_bitmask"] = self.grammar_bitmask[row].tolist()
        if self.thinking is not None:
            shown["thinking"] = plain(asdict(self.thinking))
        return shown


def extremes(logits: npt.NDArray[np.float32]) -> dict[str, dict[str, Any]]:
    """The largest and the smallest finite logit of a row float32 [V]; of NaN, +inf and -inf how many and the first."""
    found: dict[str, dict[str, Any]] = {}
    finite = np.flatnonzero(np.isfinite(logits))
    for name, pick in (("largest", np.argmax), ("smallest", np.argmin)) if finite.size else ():
        token = int(finite[pick(logits[finite])])
        found[name] = {"token": token, "logit": float(logits[token])}
    kinds = {"NaN": np.isnan(logits), "+inf": np.isposinf(logits), "-inf": np.isneginf(logits)}
    for name, places in kinds.items():
        if places.any():
            found[name] = {"count": int(places.sum()), "first": int(places.argmax())}
    return found


def _copied(request: Request, name: str) -> Request:
    """The request under another id, its output list no longer shared."""
    return Request(
        id=name,
        params=request.params,
        prompt_token_ids=request.prompt_token_ids,
        output_token_ids=list(request.output_token_ids),
        draft_token_ids=request.draft_token_ids,
    )


def changed(params: SamplingParams) -> dict[str, Any]:
    """The fields of `params` that differ from the defaults."""
    values = {f.name: getattr(params, f.name) for f in fields(params)}
    return {name: value for name, value in values.items() if value != getattr(_DEFAULTS, name)}


def named(params: Mapping[Any, Any]) -> str:
    """Parameters as part of a check's id."""
    return ",".join(f"{name}={value}" for name, value in params.items()) or "plain"


def with_params(requests: Iterable[Request], **params: Any) -> Iterable[Request]:
    """The requests with some parameters replaced."""
    return (replace(r, params=replace(r.params, **params)) for r in requests)


def row(
    name: str,
    logits: Any,
    *,
    prompt: Iterable[int] = (),
    output: Iterable[int] = (),
    dtype: str = "float32",
    **params: Any,
) -> Case:
    """A case of one row; `params` are fields of SamplingParams."""
    request = Request(
        id=name,
        params=SamplingParams(**params),
        prompt_token_ids=tuple(prompt),
        output_token_ids=list(output),
    )
    values = np.asarray(logits, dtype=np.float32)[None]
    return Case(name=name, logits=values, requests=(request,), dtype=dtype)


def stacked(name: str, *cases: Case, **shared: Any) -> Case:
    """One batch of several cases' rows (same V and dtype); `shared` are fields of Case."""
    requests = tuple(
        replace(request, id=f"{i}:{request.id}")
        for i, request in enumerate(r for case in cases for r in case.requests)
    )
    logits = np.concatenate([case.logits for case in cases])
    return Case(name=name, logits=logits, requests=requests, dtype=cases[0].dtype, **shared)


def from_probs(probs: Iterable[float]) -> npt.NDArray[np.float32]:
    """Logits whose softmax is `probs` up to rounding; a zero gives -inf."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(list(probs), dtype=np.float64)).astype(np.float32)


def _number(value: Any) -> float | str:
    number = float(value)
    return number if np.isfinite(number) else str(number)


def plain(value: Any) -> Any:
    """JSON values: keys as text, tuples as lists, numbers that JSON does not have as text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return value
