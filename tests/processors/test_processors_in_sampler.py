"""Custom processors at their places in the sampler, against rows worked out by hand."""

import numpy as np
import pytest
import torch
from processor_cases import CONFIG, CPU, NEG, SWAP, Custom, P, made

from aliquot.contract.batch import Batch, BatchUpdate, Request
from aliquot.contract.profile import Profile, ProfileError
from aliquot.fast.processors.collection import LogitsProcessors
from aliquot.fast.processors.loading import build_logits_processors
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState
from aliquot.oracle import pipeline
from aliquot.oracle.plugins import Processor, placed


class Sees(Custom):
    """Keeps the logits and updates that it gets."""

    def __init__(self, config, device, is_pin_memory):
        self.logits, self.updates = [], []

    def apply(self, logits):
        """Keep a copy."""
        self.logits.append(logits.tolist())
        return logits

    def update_state(self, batch_update):
        """Keep the update."""
        self.updates.append(batch_update)


class SeesLate(Sees):
    """The same after temperature."""

    invariant = True


class AddsToTwo(Custom):
    """Adds 4 to token 2 of every row, and returns a new tensor."""

    def apply(self, logits):
        """Add."""
        return logits + torch.tensor([0.0, 0.0, 4.0, 0.0])


class OnlyBest(Custom):
    """Masks all but the best tokens, which leaves the argmax."""

    invariant = True

    def apply(self, logits):
        """Mask."""
        return logits.masked_fill(logits < logits.amax(1, keepdim=True), -torch.inf)


class DropsBest(Custom):
    """Says that the argmax stays and masks it: shows which rows it reaches."""

    invariant = True

    def apply(self, logits):
        """Mask the best token."""
        return logits.masked_fill(logits == logits.amax(1, keepdim=True), -torch.inf)


PLAIN = (P(),)


def state_of(*processors, params=PLAIN, output=(), mode="raw_logprobs", profile=None):
    """A state of four tokens with custom processors and one row for each of `params`."""
    state = BatchState(
        4, logprobs_mode=mode, processors=LogitsProcessors(processors), profile=profile or Profile()
    )
    added = [(row, p, (), list(output)) for row, p in enumerate(params)]
    state.update(BatchUpdate(batch_size=len(params), added=added))
    return state


def sampled(state, *rows):
    """The tokens and the logprob values of one step."""
    out = Sampler(seed=1)(torch.tensor(rows), state)
    values = None if out.logprobs is None else out.logprobs.values.tolist()
    return out.sampled_token_ids.flatten().tolist(), values


def test_PLUG01_others_reach_greedy_rows():
    """A processor that may change the argmax decides a greedy row."""
    state = state_of(made(AddsToTwo), params=(P(temperature=0.0),))
    assert sampled(state, [3.0, 0, 0, 0])[0] == [2]


def test_PLUG01_invariant_ones_leave_greedy_rows():
    """In a mixed batch a processor that claims invariance reaches the random row alone."""
    state = state_of(made(DropsBest), params=(P(temperature=0.0), P(top_k=1)))
    assert sampled(state, [3.0, 1, 0, 0], [3.0, 1, 0, 0])[0] == [0, 1]


def test_PLUG01_others_run_after_bias_and_before_penalties():
    """Token 2 has 1, gets the bias 2, is seen as 3, then presence takes 1.5."""
    sees = made(Sees)
    params = P(logit_bias={2: 2.0}, presence_penalty=1.5, logprobs=-1, temperature=0.0)
    state = state_of(sees, params=(params,), output=[2], mode="processed_logits")
    _, values = sampled(state, [0.0, 0, 1, 0])
    assert (sees.logits, values) == ([[[0, 0, 3, 0]]], [[0, 0, 1.5, 0]])


def test_PLUG01_invariant_ones_run_after_temperature_and_min_p():
    """Halved by temperature 2; min_p = .5 has masked the token 2 nats below, greedy rows are as they were."""
    late = made(SeesLate)
    state = state_of(late, params=(P(temperature=2.0, min_p=0.5), P(temperature=0.0)))
    sampled(state, [4.0, 3, 0, 0], [4.0, 3, 0, 0])
    assert late.logits == [[[2, 1.5, NEG, NEG], [4, 3, 0, 0]]]


def test_PLUG01_invariant_ones_run_before_top_k():
    """Top-k = 1 after the best token was masked keeps the second."""
    assert sampled(state_of(made(DropsBest), params=(P(top_k=1),)), [3.0, 2, 0, 0])[0] == [1]


def test_PLUG02_processors_run_in_their_order():
    """The second of one class sees what the first wrote."""
    sees = made(Sees)
    sampled(state_of(made(AddsToTwo), sees), [0.0, 0, 0, 0])
    assert sees.logits == [[[0, 0, 4, 0]]]


def test_PLUG02_built_ins_act_once():
    """The built-in processors of a build are the sampler's own steps and do not act twice."""
    both = build_logits_processors(CONFIG, CPU, custom=[Sees])
    state = BatchState(4, processors=both)
    params = P(logit_bias={1: 2.0}, temperature=0.0)
    state.update(BatchUpdate(batch_size=1, added=[(0, params, (), [])]))
    sampled(state, [0.0, 0, 0, 0])
    assert both.non_argmax_invariant[-1].logits == [[[0, 2, 0, 0]]]


def test_a_late_processor_decides_random_rows():
    """With all but the best masked every draw is the best."""
    state = state_of(made(OnlyBest), params=(P(),) * 50)
    assert set(sampled(state, *[[1.0, 1.5, 1.2, 1.4]] * 50)[0]) == {1}


def test_raw_logprobs_are_kept_before_processors():
    """Raw logits show the input, whatever an early or late processor writes."""
    params = P(logprobs=-1, temperature=2.0)
    state = state_of(made(AddsToTwo), made(OnlyBest), params=(params,), mode="raw_logits")
    assert sampled(state, [1.0, 2, 3, 4])[1] == [[1, 2, 3, 4]]


def test_raw_logprobs_are_not_tempered_for_late_processors():
    """With a late processor alone, raw logits are the input too."""
    state = state_of(made(OnlyBest), params=(P(logprobs=-1, temperature=2.0),), mode="raw_logits")
    assert sampled(state, [1.0, 2, 3, 4])[1] == [[1, 2, 3, 4]]


def test_processed_logits_show_the_late_processor():
    """After temperature 2, min-p and the processor."""
    params = P(logprobs=-1, temperature=2.0)
    state = state_of(made(OnlyBest), params=(params,), mode="processed_logits")
    assert sampled(state, [1.0, 2, 3, 4])[1] == [[NEG, NEG, NEG, 2]]


def test_the_oracle_agrees_with_the_places():
    """Processed logits with an early and a late processor are the oracle's; all values here are exact in float32."""

    def adds(rows, context):
        return rows + np.array([0.0, 0.0, 4.0, 0.0])

    def best(rows, context):
        return np.where(rows < rows.max(1, keepdims=True) - 1, -np.inf, rows)

    class NearBest(OnlyBest):
        def apply(self, logits):
            return logits.masked_fill(logits < logits.amax(1, keepdim=True) - 1, -torch.inf)

    params = P(temperature=2.0, repetition_penalty=2.0, min_p=0.1, logprobs=-1)
    rows = [[2.0, 4.5, 1.0, 3.0], [0.5, 0.0, -3.0, 0.25]]
    state = state_of(
        made(AddsToTwo), made(NearBest), params=(params,) * 2, output=[2], mode="processed_logits"
    )
    steps = placed(
        pipeline.CONTRACT,
        [
            Processor(pipeline.Step(name="adds", run=adds, clauses=()), argmax_invariant=False),
            Processor(pipeline.Step(name="best", run=best, clauses=()), argmax_invariant=True),
        ],
    )
    requests = [Request(id=str(r), params=params, output_token_ids=[2]) for r in range(2)]
    batch = Batch(requests=requests, vocab_size=4, logprobs_mode="processed_logits")
    wanted = pipeline.run(np.array(rows), batch, steps=steps).filtered
    assert sampled(state, *rows)[1] == wanted.tolist()


def test_STATE07_a_step_without_update_reaches_processors():
    """Early and late processors get None when nothing changed."""
    early, late = made(Sees), made(SeesLate)
    state = state_of(early, late)
    state.update(None)
    assert (early.updates[1:], late.updates[1:]) == ([None], [None])


def test_STATE05_a_swap_reaches_processors():
    """Both kinds get the update as it is."""
    early, late = made(Sees), made(SeesLate)
    state = state_of(early, late, params=(P(), P()))
    state.update(BatchUpdate(batch_size=2, moved=[(0, 1, SWAP)]))
    assert [p.updates[-1].moved for p in (early, late)] == [[(0, 1, SWAP)]] * 2


def test_PLUG07_the_hook_refuses_a_request_before_anything_changed():
    """The ValueError of the hook leaves the state and the processors as they were."""

    class Refuses(Sees):
        @classmethod
        def validate_params(cls, params):
            if params.seed == 13:
                raise ValueError("not 13")

    picky = made(Refuses)
    state = state_of(picky)
    with pytest.raises(ValueError, match="not 13"):
        state.update(BatchUpdate(batch_size=2, added=[(1, P(seed=13), (), [])]))
    assert (state.batch_size, len(picky.updates)) == (1, 1)


def test_a_wrong_result_is_refused():
    """A processor that returns another dtype is named."""

    class Rounds(Custom):
        def apply(self, logits):
            return logits.bfloat16()

    with pytest.raises(ValueError, match=r"processor Rounds: returned torch\.bfloat16"):
        sampled(state_of(made(Rounds)), [0.0, 0, 0, 0])


@pytest.mark.parametrize(
    "choice", [{"temperature_order": "after"}, {"minp_order": "after_filters"}]
)
def test_late_processors_need_filters_after_temperature(choice):
    """A profile that filters first has no place for them."""
    with pytest.raises(ProfileError, match="allowed with argmax-invariant logits processors is"):
        state_of(made(OnlyBest), profile=Profile(**choice))


def test_no_processor_no_stage():
    """Without custom processors the plan divides nothing and has no further edit."""
    state = state_of(params=(P(temperature=2.0, min_p=0.5),))
    assert (state.plan.temperature, state.plan.edits, len(state.late)) == (None, (), 0)


def test_a_seeded_request_draws_the_same_beside_an_idle_processor():
    """A late processor that changes nothing leaves a seeded draw at temperature 1 as it was."""
    params, row = P(seed=5), [0.1, 0.2, 0.3, 0.4]
    assert sampled(state_of(made(SeesLate), params=(params,)), row) == sampled(
        state_of(params=(params,)), row
    )
