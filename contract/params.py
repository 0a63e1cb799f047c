"""The parameters of one request and their validation (clauses ERR01-ERR16)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

GREEDY_BELOW = 1e-5
BIAS_LIMIT = 100.0
SEED_MIN, SEED_MAX = -(2**63), 2**63 - 1


class ParameterError(ValueError):
    """A request parameter outside what the contract allows."""


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """What one request asks of the sampler.

    `top_k` 0 and -1 switch top-k off. `logit_bias` maps token ids to nats. `eos_token_id` and
    `stop_token_ids` together are the stop ids of `min_tokens`. `logprobs` is None (none), 0 (the
    sampled token), n (the sampled token and the n largest) or -1 (the whole row);
    `logprob_token_ids` wins over it.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    min_tokens: int = 0
    eos_token_id: int | None = None
    stop_token_ids: Sequence[int] = ()
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    allowed_token_ids: Sequence[int] | None = None
    bad_words: Sequence[Sequence[int]] = ()
    thinking_token_budget: int | None = None
    seed: int | None = None
    logprobs: int | None = None
    logprob_token_ids: Sequence[int] | None = None

    @property
    def greedy(self) -> bool:
        """Whether the request takes the argmax (temperature below 1e-5, GREEDY01)."""
        return self.temperature < GREEDY_BELOW

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """EOS and the stop token ids, ascending, each once."""
        eos = () if self.eos_token_id is None else (self.eos_token_id,)
        return tuple(sorted({*eos, *self.stop_token_ids}))

    def effective(self) -> "SamplingParams":
        """The parameters as the sampler acts on them: a greedy request filters nothing (GREEDY03)."""
        if not self.greedy:
            return self
        return replace(self, top_k=0, top_p=1.0, min_p=0.0)  # GREEDY03


def validate(params: SamplingParams, vocab_size: int, request: str = "?") -> None:
    """Check every field against the contract.

    Raises ParameterError naming the request, the field, the value and what is allowed; `vocab_size`
    bounds the token ids.
    """
    checker = _Checker(request, vocab_size)
    checker.numbers(params)
    checker.integers(params)
    checker.token_ids(params)
    checker.sequences(params)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


@dataclass(frozen=True)
class _Checker:
    request: str
    vocab_size: int

    def require(self, ok: bool, name: str, value: Any, allowed: str) -> None:
        if not ok:
            raise ParameterError(  # ERR15
                f"request {self.request}: {name} is {value!r}, allowed is {allowed}"
            )

    def real(self, params: SamplingParams, name: str, low: float, high: float) -> None:
        value = getattr(params, name)
        bounds = f"a finite number in [{low:g}, {high:g}]"
        self.require(_is_real(value) and low <= value <= high, name, value, bounds)

    def positive(self, params: SamplingParams, name: str, high: float, allowed: str) -> None:
        value = getattr(params, name)
        self.require(_is_real(value) and 0 < value <= high, name, value, allowed)

    def numbers(self, params: SamplingParams) -> None:
        value = params.temperature  # ERR01
        self.require(_is_real(value) and value >= 0, "temperature", value, "a finite number >= 0")
        self.positive(params, "top_p", 1.0, "a number in (0, 1]")  # ERR02
        self.positive(params, "repetition_penalty", math.inf, "a finite number > 0")  # ERR05
        self.real(params, "min_p", 0.0, 1.0)  # ERR04
        self.real(params, "frequency_penalty", -2.0, 2.0)  # ERR06
        self.real(params, "presence_penalty", -2.0, 2.0)  # ERR06

    def integer(self, params: SamplingParams, name: str, low: int) -> None:
        value = getattr(params, name)
        self.require(_is_int(value) and value >= low, name, value, f"an integer >= {low}")

    def integers(self, params: SamplingParams) -> None:
        self.integer(params, "top_k", -1)  # ERR03
        self.integer(params, "min_tokens", 0)  # ERR07
        for name, low in (("logprobs", -1), ("thinking_token_budget", 0)):  # ERR08 ERR11
            if getattr(params, name) is not None:
                self.integer(params, name, low)
        seed = params.seed
        if seed is not None:
            ok = _is_int(seed) and SEED_MIN <= seed <= SEED_MAX  # ERR12
            self.require(ok, "seed", seed, "a signed 64-bit integer")

    def ids(self, name: str, values: Sequence[int]) -> None:
        for value in values:
            ok = _is_int(value) and 0 <= value < self.vocab_size  # ERR09
            self.require(ok, name, value, f"token ids in [0, {self.vocab_size})")

    def token_ids(self, params: SamplingParams) -> None:
        self.ids("stop_token_ids", params.stop_token_ids)
        self.ids("allowed_token_ids", params.allowed_token_ids or ())
        self.ids("logit_bias", tuple(params.logit_bias))
        self.ids("logprob_token_ids", params.logprob_token_ids or ())
        if params.eos_token_id is not None:
            self.ids("eos_token_id", (params.eos_token_id,))
        for word in params.bad_words:
            self.ids("bad_words", word)

    def sequences(self, params: SamplingParams) -> None:
        allowed = params.allowed_token_ids
        self.require(
            allowed is None or len(allowed) > 0,  # ERR10
            "allowed_token_ids",
            allowed,
            "None or at least one token id",
        )
        for word in params.bad_words:  # ERR10
            self.require(len(word) > 0, "bad_words", word, "words of at least one token id")
        for token, bias in params.logit_bias.items():  # ERR13
            self.require(_is_real(bias), f"logit_bias[{token}]", bias, "a finite number")
