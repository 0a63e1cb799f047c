"""A batch of requests with their logits, small and full of ties: what one step of a processor sees."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from aliquot.conformance.processor_check.compare import plain
from aliquot.conformance.processor_check.params import as_json
from aliquot.conformance.processor_check.subject import Subject, apply
from aliquot.contract.batch import Request
from aliquot.fast.processors.interface import RequestParams

LEVELS = (0.0, 1.0, -torch.inf, -1.0, 3.0, 5.0, 0.5, 30.0)
SCALES = (1.0, 100.0, 0.01)
RESTS = (0.0, -1.0, -10.0, -torch.inf)
TEMPERATURES = (1.0, 0.25, 2.0, 0.0)
MOST_ROWS = 3


@dataclass(frozen=True)
class Row:
    """One request and its logits: `values` for the tokens that may matter, `rest` for all others, times `scale`."""

    kind: int
    temperature: float
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    values: tuple[float, ...]
    rest: float
    scale: float

    def request(self, subject: Subject) -> Request:
        """The request, with a running list of its own."""
        return Request(
            id="",
            params=self.params(subject),
            prompt_token_ids=self.prompt,
            output_token_ids=list(self.output),
        )

    def params(self, subject: Subject) -> RequestParams:
        """The parameters of its kind at its temperature."""
        return replace(subject.kinds[self.kind], temperature=self.temperature)

    def logits(self, subject: Subject) -> Tensor:
        """Its logits float32 `[V]`; divided by temperature where the processor would see them so (PLUG01)."""
        row = torch.full((subject.vocab_size,), self.rest)
        row[list(subject.tokens)] = torch.tensor(self.values)
        divided = subject.claims_invariance and self.temperature > 0
        return row * (self.scale / (self.temperature if divided else 1.0))

    def witness(self, subject: Subject) -> dict[str, Any]:
        """The row as JSON values."""
        logits = self.logits(subject).tolist()
        other = self.logits(subject)[_other(subject)].item()
        shown = {str(t): logits[t] for t in subject.tokens if logits[t] != other}
        return {
            "params": as_json(self.params(subject)),
            "prompt": list(self.prompt),
            "output": list(self.output),
            "logits": {token: plain(value) for token, value in shown.items()},
            "other_logits": plain(other),
        }


@dataclass(frozen=True)
class Rows:
    """A batch of one step."""

    rows: tuple[Row, ...]

    @property
    def size(self) -> int:
        """The number of requests."""
        return len(self.rows)

    def requests(self, subject: Subject) -> list[Request]:
        """The requests by row."""
        return [row.request(subject) for row in self.rows]

    def logits(self, subject: Subject) -> Tensor:
        """Their logits float32 `[n, V]`."""
        return torch.stack([row.logits(subject) for row in self.rows])

    def applied(self, subject: Subject) -> Tensor:
        """What a fresh processor makes of them."""
        return apply(subject.fresh(self.requests(subject)), self.logits(subject))

    def witness(self, subject: Subject) -> dict[str, Any]:
        """The batch as JSON values."""
        return {f"row {r}": row.witness(subject) for r, row in enumerate(self.rows)}


def batches(subject: Subject, most: int) -> st.SearchStrategy[Rows]:
    """Batches of one to `most` requests, the plain ones first."""
    chosen = st.lists(rows(subject), min_size=1, max_size=most)
    return chosen.map(lambda made: Rows(tuple(made)))


def rows(subject: Subject, kind: int | None = None) -> st.SearchStrategy[Row]:
    """Rows, of one kind if given, with at least one token that is not masked."""
    size = len(subject.tokens)
    made = st.builds(
        Row,
        kind=kinds(subject) if kind is None else st.just(kind),
        temperature=st.sampled_from(TEMPERATURES),
        prompt=token_lists(subject),
        output=token_lists(subject),
        values=st.lists(st.sampled_from(LEVELS), min_size=size, max_size=size).map(tuple),
        rest=st.sampled_from(RESTS),
        scale=st.sampled_from(SCALES),
    )
    return made.filter(lambda row: max(*row.values, row.rest) > -torch.inf)


def kinds(subject: Subject) -> st.SearchStrategy[int]:
    """The plain kind of request, and those that make the processor act once these are known."""
    return st.sampled_from((0, *subject.acting) if subject.acting else range(len(subject.kinds)))


def token_lists(subject: Subject) -> st.SearchStrategy[tuple[int, ...]]:
    """Up to four of the tokens that may matter."""
    return st.lists(st.sampled_from(subject.tokens), max_size=4).map(tuple)


def _other(subject: Subject) -> int:
    return next(t for t in range(subject.vocab_size) if t not in subject.tokens)
