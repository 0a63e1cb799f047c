"""Batches whose parts contradict each other, freedoms, accuracy classes and the page."""

from pathlib import Path

import numpy as np
import pytest

from aliquot.contract import document
from aliquot.contract.accuracy import CLASSES
from aliquot.contract.batch import Batch, BatchError, Request
from aliquot.contract.params import ParameterError, SamplingParams
from aliquot.contract.profile import CANONICAL, FREEDOMS, Profile, ProfileError

ROOT = Path(__file__).parents[2]


def requests(*params):
    """Requests with ids 0, 1, ..."""
    return [Request(id=str(i), params=SamplingParams(**p)) for i, p in enumerate(params)]


GREEDY, RANDOM = {"temperature": 0.0}, {"temperature": 1.0}


def test_GREEDY06_flags_exclude_each_other():
    """Both at once is an error."""
    with pytest.raises(BatchError, match="all_greedy and all_random are both true"):
        Batch(requests=requests(GREEDY), vocab_size=2, all_greedy=True, all_random=True)


@pytest.mark.parametrize(("flag", "params"), [("all_greedy", RANDOM), ("all_random", GREEDY)])
def test_GREEDY06_flags_agree_with_the_requests(flag, params):
    """A flag that the temperatures contradict is refused by name."""
    with pytest.raises(
        BatchError, match=f"{flag} is True, the requests' temperatures say otherwise"
    ):
        Batch(requests=requests(GREEDY, RANDOM, params), vocab_size=2, **{flag: True})


@pytest.mark.parametrize(
    ("params", "flags"),
    [((GREEDY,), (True, False)), ((RANDOM,), (False, True)), ((GREEDY, RANDOM), (False, False))],
)
def test_GREEDY06_flags_are_computed(params, flags):
    """Flags that are not given follow from the temperatures."""
    batch = Batch(requests=requests(*params), vocab_size=2)
    assert (batch.all_greedy, batch.all_random) == flags


@pytest.mark.parametrize(
    "mask", [np.zeros((1, 1), np.int32), np.zeros((2, 2), np.int32), np.zeros((1, 2), np.int64)]
)
def test_ERR14_bitmask_of_another_shape(mask):
    """33 tokens need two int32 words a row."""
    with pytest.raises(BatchError, match=r"grammar_bitmask is .* allowed is int32 \(1, 2\)"):
        Batch(requests=requests({}), vocab_size=33, grammar_bitmask=mask)


def test_unknown_logprobs_mode():
    """The message lists the four modes."""
    with pytest.raises(
        BatchError, match="logprobs_mode is 'cooked', allowed are raw_logprobs, raw_log"
    ):
        Batch(requests=requests({}), vocab_size=2, logprobs_mode="cooked")


@pytest.mark.parametrize(
    ("params", "most", "wants"),
    [
        (({}, {}), None, False),
        (({"logprobs": 0}, {}), 0, True),
        (({"logprobs": 2}, {"logprobs": 9}), 5, True),
        (({"logprobs": 2}, {"logprobs": -1}), -1, True),
        (({"logprob_token_ids": [1], "logprobs": 4}, {}), None, True),
        (({"logprob_token_ids": [1], "logprobs": 4}, {"logprobs": 1}), 1, True),
    ],
)
def test_LOGP12_most_logprobs_of_a_batch(params, most, wants):
    """The largest number, at most V = 5; a request with explicit ids has none."""
    batch = Batch(requests=requests(*params), vocab_size=5)
    assert (batch.max_num_logprobs, batch.wants_logprobs) == (most, wants)


def test_ERR15_validation_names_the_request():
    """The second of two requests is at fault."""
    with pytest.raises(ParameterError, match="request 1: top_k is -7"):
        Batch(requests=requests({}, {"top_k": -7}), vocab_size=2).validate()


@pytest.mark.parametrize("freedom", FREEDOMS, ids=lambda f: f.name)
def test_profile_refuses_unknown_choices(freedom):
    """Every field of the profile lists its choices; the first is the default."""
    with pytest.raises(
        ProfileError, match=f"{freedom.name} is 'x', allowed are {freedom.choices[0]}"
    ):
        Profile(**{freedom.name: "x"})
    assert getattr(CANONICAL, freedom.name) == freedom.choices[0]


def test_profile_floor_and_departures():
    """The temperature floor is at most 0.01; departures list what is not canonical."""
    with pytest.raises(ProfileError, match=r"temperature_floor is 0\.1"):
        Profile(temperature_floor=0.1)
    assert Profile(id_dtype="int32").departures() == {"id_dtype": "int32"}


def test_accuracy_classes_order_their_sums():
    """Wider accumulators, trees, lanes and loops err more in this order, each by its own count."""
    u = 2.0**-24
    names = ("float32-wide-sum", "float32", "float32-lanes", "float32-sequential")
    assert [CLASSES[name].sum_error(1024) / u for name in names] == [1, 10, 131, 1023]


def test_page_is_current():
    """docs/contract.md is what the module prints today."""
    page = (ROOT / "docs" / "contract.md").read_text("utf-8")
    assert page == document.markdown(), (
        "run: python -m aliquot.contract.document > docs/contract.md"
    )
