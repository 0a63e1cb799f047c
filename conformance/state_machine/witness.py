"""A departure told: the history in words, what was wanted, and what the row looks like instead."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from aliquot.conformance.arrays import FormError
from aliquot.conformance.case import Case, changed
from aliquot.conformance.causes import Cause
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Concluded
from aliquot.conformance.state_machine.engine import Change, Step
from aliquot.conformance.state_machine.expected import Expected
from aliquot.conformance.state_machine.requests import Key, Requests
from aliquot.contract.batch import MoveDirectionality

WAYS = {MoveDirectionality.UNIDIRECTIONAL: "to", MoveDirectionality.SWAP: "swapped with"}


class Departure(Exception):
    """A history whose last step has a row, or an answer, that is not what it should be."""

    def __init__(
        self,
        changes: Sequence[Change],
        steps: Sequence[Step],
        row: int,
        broken: FormError | str | None = None,
    ) -> None:
        super().__init__("a row departs")
        self.changes, self.steps = tuple(changes), tuple(steps)
        self.row, self.broken = row, broken

    @property
    def requests(self) -> int:
        """How many requests arrived."""
        return len({number for step in self.steps for number, _ in step.added})

    @property
    def size(self) -> tuple[int, int, int]:
        """Steps, requests and the kinds' numbers, which grow with what they ask for."""
        kinds = sum(kind for step in self.steps for _, (kind, _) in step.added)
        return len(self.steps), self.requests, kinds


def report(judge: Judge, asked: Requests, expected: Expected, found: Departure) -> NoReturn:
    """End the check as FAIL with the departure and the history before it."""
    history = told(found.steps, asked)
    try:
        _fail(judge, asked, expected, found)
    except Concluded:
        assert judge.finding is not None
        witness = {**judge.finding.witness, "history": history}
        judge.finding = replace(judge.finding, witness=witness)
        raise


def _fail(judge: Judge, asked: Requests, expected: Expected, found: Departure) -> NoReturn:
    last, row = found.steps[-1] if found.steps else Step(None, ()), found.row
    case = asked.case(f"history of {len(found.steps)} steps", last.keys)
    if isinstance(found.broken, str):
        judge.raised(case, found.broken)
    if isinstance(found.broken, FormError):
        judge.fail(case, row, found.broken.wanted, found.broken.got)
    if asked.shown:
        judge.processed(case)  # what departs in a fresh batch as well needs no history
        _fail_values(judge, asked, expected, found, case)
    place, token = expected.place[last.keys[row]], int(last.answer.ids[row])
    if not expected.may[place][token]:
        judge.fail(case, row, "a token of the row's support", f"id {token}", tokens=[token])
    wanted = f"id {expected.alone[place]}, as its seed gives in a fresh batch"
    judge.fail(case, row, wanted, f"id {token}", tokens=[token])


def _fail_values(
    judge: Judge, asked: Requests, expected: Expected, found: Departure, case: Case
) -> None:
    last, row = found.steps[-1], found.row
    place, values = expected.place[last.keys[row]], last.values[row]
    low, high = expected.low[place], expected.high[place]
    off = np.flatnonzero(~((low <= values) & (values <= high)))
    if off.size:
        t = int(off[0])
        judge.fail(
            case, row,
            f"{asked.mode} of token {t} in [{low[t]:.9g}, {high[t]:.9g}]",
            f"{values[t]:.9g}",
            effect=f"{off.size} of {len(values)} values",
            cause=_cause(judge, asked, found),
        )  # fmt: skip


def _cause(judge: Judge, asked: Requests, found: Departure) -> Cause | None:
    """What the row is instead: that of another request of the history, or its own from before."""
    last, row = found.steps[-1], found.row
    own, values = last.keys[row], last.values[row]
    for text, (kind, output) in _others(found.steps, own):
        case = asked.case("other", [(kind, output)])
        case = replace(case, logits=asked.logits_of([own]))
        shown = judge.expect(case).shown
        if ((shown.lo[0] <= values) & (values <= shown.hi[0])).all():
            return Cause(text, ())
    return None


def _others(steps: Sequence[Step], own: Key) -> Iterator[tuple[str, Key]]:
    kind, output = own
    for length in range(len(output) - 1, -1, -1):
        text = f"the row fits the request with {length} of its {len(output)} output tokens"
        yield text, (kind, output[:length])
    for number, (other, _) in (added for step in steps for added in step.added):
        yield f"the row fits the parameters of request {number}", (other, output)
    for step in reversed(steps):
        for row, key in enumerate(step.keys):
            yield f"the row fits the request that stood in row {row}", key


def told(steps: Sequence[Step], asked: Requests) -> list[str]:
    """Each step's update: `removed 0; request 2 added at row 0 (seed=7, prompt=[1, 4]); row 2 to 1`."""
    return [_step(step, asked) for step in steps]


def _step(step: Step, asked: Requests) -> str:
    update = step.update
    if update is None:
        return "no update"
    parts = [f"row {row} removed" for row in update.removed]
    for (row, *_), (number, key) in zip(update.added, step.added, strict=True):
        parts.append(f"request {number} at row {row} ({_request(key, asked)})")
    parts += [f"row {a} {WAYS[how]} {b}" for a, b, how in update.moved]
    return "; ".join(parts)


def _request(key: Key, asked: Requests) -> str:
    number, output = key
    kind = asked.kinds[number]
    said = {name: value for name, value in changed(kind.params).items() if name != "logprobs"}
    if kind.prompt:
        said["prompt"] = list(kind.prompt)
    if output:
        said["output"] = list(output)
    return ", ".join(f"{name}={value}" for name, value in said.items()) or "plain"
