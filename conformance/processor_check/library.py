"""Processors to try the checker on: ten that are wrong in one known way, ten that are right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from aliquot.contract.batch import BatchUpdate, MoveDirectionality
from aliquot.fast.processors.builtin import LogitBias, MinP, MinTokens
from aliquot.fast.processors.interface import LogitsProcessor, RequestParams
from aliquot.fast.processors.per_request import PerRequestProcessor, RequestCallable

SWAP = MoveDirectionality.SWAP


def require(params: Any, name: str, ok: Any, allowed: str) -> None:
    """Raise ValueError unless an extra argument is absent or `ok(value)`."""
    value = params.extra_args.get(name)
    if name in params.extra_args and not ok(value):
        raise ValueError(f"extra_args: {name} is {value!r}, allowed is {allowed}")


def is_token(value: Any) -> bool:
    """A whole number that may be a token id."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_positive(value: Any) -> bool:
    """A finite number above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < torch.inf


class Bias(LogitsProcessor):
    """Adds 1 for each output token, and 1 more, to the logit of `extra_args["token"]`. Right."""

    def __init__(self, config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self.rows: dict[int, tuple[int, list[int]]] = {}

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """`token` is a token id."""
        require(params, "token", is_token, "a token id")

    def is_argmax_invariant(self) -> bool:
        """The token may become the best."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Removed, added, moved."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self.remove(row)
        for row, params, _, output in batch_update.added:
            self.add(row, params, output)
        for a, b, how in batch_update.moved:
            self.move(a, b, swap=how is SWAP)

    def remove(self, row: int) -> None:
        """Forget a row."""
        self.rows.pop(row, None)

    def add(self, row: int, params: Any, output: list[int]) -> None:
        """Remember a row's token and its live output, or that it has none."""
        self.rows.pop(row, None)
        if "token" in params.extra_args:
            self.rows[row] = (params.extra_args["token"], output)

    def move(self, a: int, b: int, *, swap: bool) -> None:
        """Move or exchange what two rows hold."""
        from_a, from_b = self.rows.pop(a, None), self.rows.pop(b, None)
        if from_a is not None:
            self.rows[b] = from_a
        if swap and from_b is not None:
            self.rows[a] = from_b

    def apply(self, logits: Tensor) -> Tensor:
        """Add the bias of each row."""
        for row, (token, output) in self.rows.items():
            logits[row, token] += 1.0 + len(output)
        return logits


class OneOfEquals(Bias):
    """Keeps one token a row and says that the argmax stays: among equal maxima it keeps the highest id."""

    def is_argmax_invariant(self) -> bool:
        """False for equal maxima."""
        return True

    def apply(self, logits: Tensor) -> Tensor:
        """Mask all but the last of the sorted row."""
        for row in self.rows:
            order = logits[row].sort(stable=True).indices
            logits[row, order[:-1]] = -torch.inf
        return logits


class DampedWhenCold(Bias):
    """Takes 2 from the best token of requests colder than 1 and says that the argmax stays."""

    def is_argmax_invariant(self) -> bool:
        """False below temperature 1."""
        return True

    def add(self, row: int, params: Any, output: list[int]) -> None:
        """Remember cold requests only."""
        super().add(row, params, output)
        if params.temperature >= 1 or params.temperature == 0:
            self.rows.pop(row, None)

    def apply(self, logits: Tensor) -> Tensor:
        """Lower the largest logit."""
        for row in self.rows:
            logits[row, logits[row].argmax()] -= 2.0
        return logits


class StaleAfterSwap(Bias):
    """Takes a swap for a move."""

    def move(self, a: int, b: int, *, swap: bool) -> None:
        """Exchange nothing."""
        super().move(a, b, swap=False)


class StaleAfterMove(Bias):
    """Leaves its target as it was when the source of a move asks for nothing."""

    def move(self, a: int, b: int, *, swap: bool) -> None:
        """Forget to overwrite."""
        if swap or a in self.rows:
            super().move(a, b, swap=swap)


class CopiesOutput(Bias):
    """Copies the output list, so that later tokens are not seen."""

    def add(self, row: int, params: Any, output: list[int]) -> None:
        """Remember a copy."""
        super().add(row, params, list(output))


class WritesEveryRow(Bias):
    """Changes the token in every row of the batch."""

    def apply(self, logits: Tensor) -> Tensor:
        """Add to the column."""
        for token, output in self.rows.values():
            logits[:, token] += 1.0 + len(output)
        return logits


class KeepsRemoved(Bias):
    """Ignores that requests leave; what comes to their row without a token inherits theirs."""

    def remove(self, row: int) -> None:
        """Forget nothing."""

    def add(self, row: int, params: Any, output: list[int]) -> None:
        """Replace a row only by another token."""
        if "token" in params.extra_args:
            super().add(row, params, output)

    def apply(self, logits: Tensor) -> Tensor:
        """Add the bias of each row that the batch has."""
        for row, (token, output) in self.rows.items():
            if row < len(logits):
                logits[row, token] += 1.0 + len(output)
        return logits


class ChangesDtype(Bias):
    """Returns bfloat16."""

    def apply(self, logits: Tensor) -> Tensor:
        """Add and round."""
        after = super().apply(logits)
        return after.bfloat16() if self.rows else after


class RevivesMasked(Bias):
    """Sets the token's logit to 10, also where it was masked."""

    def apply(self, logits: Tensor) -> Tensor:
        """Overwrite."""
        for row, (token, _) in self.rows.items():
            logits[row, token] = 10.0
        return logits


class FirstComeFirstServed(Bias):
    """Serves the request that was added first twice: the result depends on the order of arrival."""

    def apply(self, logits: Tensor) -> Tensor:
        """Add twice for the first of the dictionary."""
        for place, (row, (token, output)) in enumerate(self.rows.items()):
            logits[row, token] += (1.0 + len(output)) * (2.0 if place == 0 else 1.0)
        return logits


class Scale(PerRequestProcessor):
    """Multiplies the row by a power of two; the argmax stays."""

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """`exponent` is a small whole number."""
        require(
            params, "exponent", lambda e: type(e) is int and abs(e) <= 8, "an integer in [-8, 8]"
        )

    def is_argmax_invariant(self) -> bool:
        """Equal stays equal and less stays less."""
        return True

    def request_callable(self, params: Any) -> RequestCallable | None:
        """Scale in place."""
        exponent = params.extra_args.get("exponent")
        if exponent is None:
            return None
        return lambda output, row: row.mul_(2.0**exponent)


class NearBest(PerRequestProcessor):
    """Keeps the tokens at most `gap` below the best; the argmax stays."""

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """`gap` is a positive number."""
        require(params, "gap", is_positive, "a finite number > 0")

    def is_argmax_invariant(self) -> bool:
        """The best is never masked."""
        return True

    def request_callable(self, params: Any) -> RequestCallable | None:
        """Mask what is further below."""
        gap = params.extra_args.get("gap")
        if gap is None:
            return None
        return lambda output, row: row.masked_fill(row < row.amax() - gap, -torch.inf)


class LikelyEnough(PerRequestProcessor):
    """Keeps the tokens of at least `probability`, and always the best; the argmax stays."""

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """`probability` is a positive number."""
        require(params, "probability", is_positive, "a finite number > 0")

    def is_argmax_invariant(self) -> bool:
        """The best is never masked."""
        return True

    def request_callable(self, params: Any) -> RequestCallable | None:
        """Mask what is less likely than asked and less likely than the best."""
        least = params.extra_args.get("probability")
        if least is None:
            return None

        def keep(output: list[int], row: Tensor) -> Tensor:
            probs = row.softmax(dim=0)
            return row.masked_fill((probs < least) & (row < row.amax()), -torch.inf)

        return keep


class NoEcho(PerRequestProcessor):
    """Forbids the token that came last."""

    def is_argmax_invariant(self) -> bool:
        """The best may be forbidden."""
        return False

    def request_callable(self, params: Any) -> RequestCallable | None:
        """Mask the last output token."""
        if not params.extra_args.get("no_echo"):
            return None

        def forbid(output: list[int], row: Tensor) -> Tensor:
            if output and output[-1] >= 0:
                row[output[-1]] = -torch.inf
            return row

        return forbid


class FavoursPrompt(PerRequestProcessor):
    """Adds `favour` to the tokens of the prompt."""

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """`favour` is a positive number."""
        require(params, "favour", is_positive, "a finite number > 0")

    def is_argmax_invariant(self) -> bool:
        """A token of the prompt may become the best."""
        return False

    def request_callable(self, params: Any) -> RequestCallable | None:
        """Raise the prompt's tokens once each."""
        favour = params.extra_args.get("favour")
        if favour is None:
            return None

        def raise_prompt(prompt: Sequence[int], output: list[int], row: Tensor) -> Tensor:
            if prompt:
                row[sorted(set(prompt))] += favour
            return row

        return raise_prompt


class OnlyThese(PerRequestProcessor):
    """Allows the listed tokens only."""

    @classmethod
    def validate_params(cls, params: Any) -> None:
        """`only` is a list of token ids."""
        require(
            params,
            "only",
            lambda ids: isinstance(ids, list) and ids and all(map(is_token, ids)),
            "a list of token ids",
        )

    def is_argmax_invariant(self) -> bool:
        """The best may be forbidden."""
        return False

    def request_callable(self, params: Any) -> RequestCallable | None:
        """Mask all others."""
        only = params.extra_args.get("only")
        if only is None:
            return None

        def keep(output: list[int], row: Tensor) -> Tensor:
            kept = torch.full_like(row, -torch.inf)
            kept[only] = row[only]
            return kept

        return keep


@dataclass(frozen=True)
class Entry:
    """A processor with requests that make it act, and the checks that it must fail."""

    cls: type[LogitsProcessor]
    extra_args: dict[str, Any] | None
    fails: tuple[str, ...] = ()

    @property
    def requests(self) -> tuple[RequestParams, ...]:
        """Requests to check it with; none means the standard ones."""
        return () if self.extra_args is None else (RequestParams(extra_args=self.extra_args),)


_TOKEN = {"token": 2}

WRONG = (
    Entry(OneOfEquals, _TOKEN, ("argmax-claim",)),
    Entry(DampedWhenCold, _TOKEN, ("argmax-claim",)),
    Entry(StaleAfterSwap, _TOKEN, ("state-swap",)),
    Entry(StaleAfterMove, _TOKEN, ("state-move",)),
    Entry(CopiesOutput, _TOKEN, ("state-live-output",)),
    Entry(WritesEveryRow, _TOKEN, ("own-rows",)),
    Entry(KeepsRemoved, _TOKEN, ("state-overwrite",)),
    Entry(ChangesDtype, _TOKEN, ("form",)),
    Entry(RevivesMasked, _TOKEN, ("masked",)),
    Entry(FirstComeFirstServed, _TOKEN, ("own-rows", "state-swap")),
)

RIGHT = (
    Entry(MinTokens, None),
    Entry(LogitBias, None),
    Entry(MinP, None),
    Entry(Bias, _TOKEN),
    Entry(Scale, {"exponent": -1}),
    Entry(NearBest, {"gap": 2.5}),
    Entry(LikelyEnough, {"probability": 0.1}),
    Entry(NoEcho, {"no_echo": True}),
    Entry(FavoursPrompt, {"favour": 1.5}),
    Entry(OnlyThese, {"only": [1, 3]}),
)
