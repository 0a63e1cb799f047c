"""Refusals of request parameters: each names the request, the field, the value and what is allowed."""

import math

import pytest

from aliquot.contract.params import ParameterError, SamplingParams, validate

INF, NAN = math.inf, math.nan


def refusal(**params):
    """The message with which a request of eight tokens is refused, '' if it is not."""
    try:
        validate(SamplingParams(**params), 8, "q7")
    except ParameterError as error:
        return str(error)
    return ""


def refused(name, value, field=None):
    """Whether a value is refused with request, field and value in the message, and what is allowed."""
    message = refusal(**{name: value})
    shown = value if field is None else field[1]
    named = name if field is None else field[0]
    return message.startswith(f"request q7: {named} is {shown!r}, allowed is ")


@pytest.mark.parametrize("value", [-1e-9, INF, NAN, "1", True, None])
def test_ERR01_temperature(value):
    """Negative, not finite, not a number."""
    assert refused("temperature", value)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.0000001, NAN, INF])
def test_ERR02_top_p(value):
    """Outside (0, 1]."""
    assert refused("top_p", value)


@pytest.mark.parametrize("value", [-2, 1.0, "5", True])
def test_ERR03_top_k(value):
    """Below -1, or no integer."""
    assert refused("top_k", value)


@pytest.mark.parametrize("value", [-0.1, 1.1, NAN])
def test_ERR04_min_p(value):
    """Outside [0, 1]."""
    assert refused("min_p", value)


@pytest.mark.parametrize("value", [0.0, -1.0, INF, NAN])
def test_ERR05_repetition_penalty(value):
    """Not above 0, or not finite."""
    assert refused("repetition_penalty", value)


@pytest.mark.parametrize("name", ["frequency_penalty", "presence_penalty"])
@pytest.mark.parametrize("value", [-2.1, 2.1, NAN, INF])
def test_ERR06_frequency_and_presence(name, value):
    """Outside [-2, 2]."""
    assert refused(name, value)


@pytest.mark.parametrize("value", [-1, 1.5])
def test_ERR07_min_tokens(value):
    """Negative, or no integer."""
    assert refused("min_tokens", value)


@pytest.mark.parametrize("value", [-2, 2.0])
def test_ERR08_logprobs(value):
    """Below -1, or no integer."""
    assert refused("logprobs", value)


@pytest.mark.parametrize(
    ("name", "value", "token"),
    [
        ("stop_token_ids", [1, 8], 8),
        ("allowed_token_ids", [-1], -1),
        ("logit_bias", {9: 1.0}, 9),
        ("logprob_token_ids", [8], 8),
        ("eos_token_id", 8, 8),
        ("bad_words", [(1, 8)], 8),
        ("bad_words", [(1.0,)], 1.0),
    ],
)
def test_ERR09_token_ids(name, value, token):
    """Ids outside [0, V) in any list."""
    assert refused(name, value, (name, token))


@pytest.mark.parametrize(
    ("name", "value", "shown"), [("allowed_token_ids", [], []), ("bad_words", [(1,), ()], ())]
)
def test_ERR10_empty_lists(name, value, shown):
    """An empty allowed list, an empty word."""
    assert refused(name, value, (name, shown))


@pytest.mark.parametrize("value", [-1, 0.5])
def test_ERR11_thinking_budget(value):
    """Negative, or no integer."""
    assert refused("thinking_token_budget", value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1.0])
def test_ERR12_seed(value):
    """Outside 64 signed bits, or no integer."""
    assert refused("seed", value)


@pytest.mark.parametrize("value", [INF, NAN, "1"])
def test_ERR13_bias(value):
    """Not a finite number."""
    assert refused("logit_bias", {1: value}, ("logit_bias[1]", value))


def test_ERR15_message_says_what_is_allowed():
    """The whole sentence once, literally."""
    assert refusal(top_p=1.5) == "request q7: top_p is 1.5, allowed is a number in (0, 1]"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0, "top_p": 5e-324, "top_k": -1, "min_p": 1, "repetition_penalty": 1e300},
        {"frequency_penalty": -2, "presence_penalty": 2, "logprobs": -1, "seed": -(2**63)},
        {"seed": 2**63 - 1, "thinking_token_budget": 0, "logit_bias": {7: -1e300}, "top_k": 99},
        {"allowed_token_ids": [0], "bad_words": [(0, 7)], "stop_token_ids": [7], "eos_token_id": 0},
    ],
)
def test_ends_of_the_ranges_are_legal(params):
    """What the contract allows is not refused."""
    assert refusal(**params) == ""


def test_GREEDY03_effective_parameters_filter_nothing():
    """A greedy request's filters are off, a random one's stay."""
    asks = {"top_k": 3, "top_p": 0.5, "min_p": 0.1}
    greedy = SamplingParams(temperature=9e-6, **asks).effective()
    random = SamplingParams(temperature=1e-5, **asks)
    assert (greedy.top_k, greedy.top_p, greedy.min_p, random.effective()) == (0, 1.0, 0.0, random)


def test_stop_ids_are_eos_and_stop_tokens_once():
    """Ascending, each once."""
    assert SamplingParams(eos_token_id=5, stop_token_ids=[7, 5, 1]).stop_ids == (1, 5, 7)
