"""The persistent batch: updates, live lists, and that nothing is recomputed without need."""

import pytest
import torch
from fast_cases import NEG, P

from aliquot.contract.batch import BatchUpdate, MoveDirectionality
from aliquot.contract.params import ParameterError
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState

UNI, SWAP = MoveDirectionality.UNIDIRECTIONAL, MoveDirectionality.SWAP
V = 6


def only(token, **more):
    """Parameters that allow one token and penalise, bias and forbid others."""
    return P(allowed_token_ids=[token, 5], bad_words=[[5]], min_p=0.5, **more)


def added(*pairs):
    """Additions (row, params) without prompt and output."""
    return [(row, params, (), []) for row, params in pairs]


def state_of(*params):
    """A state with one row for each of `params`."""
    state = BatchState(V)
    state.update(BatchUpdate(batch_size=len(params), added=added(*enumerate(params))))
    return state


def drawn(state):
    """Tokens drawn from flat logits."""
    return (
        Sampler(seed=1)(torch.zeros(state.batch_size, V), state)
        .sampled_token_ids.flatten()
        .tolist()
    )


def test_removed_added_moved_in_this_order():
    """Row 0 leaves, a new request takes its place, then the rows are exchanged."""
    state = state_of(only(0), only(1))
    state.update(
        BatchUpdate(batch_size=2, removed=[0], added=added((0, only(2))), moved=[(0, 1, SWAP)])
    )
    assert drawn(state) == [1, 2]


def test_add_overwrites():
    """An addition at an occupied row replaces the request, its masks included."""
    state = state_of(only(0), only(1))
    state.update(BatchUpdate(batch_size=2, added=added((0, P(allowed_token_ids=[4])))))
    assert drawn(state) == [4, 1]


def test_unidirectional_move():
    """The source is freed and the target overwritten."""
    state = state_of(only(0), only(1), only(2))
    state.update(BatchUpdate(batch_size=2, removed=[0], moved=[(2, 0, UNI)]))
    assert drawn(state) == [2, 1]


def test_recycled_row_keeps_nothing():
    """A request without masks in a row that had some is unrestricted."""
    state = state_of(P(temperature=0.0), only(1, presence_penalty=2.0, logit_bias={1: 3.0}))
    state.update(BatchUpdate(batch_size=1, removed=[1]))
    state.update(BatchUpdate(batch_size=2, added=added((1, P(temperature=0.0)))))
    logits = torch.tensor([[0.0] * V, [0.0, 1, 2, 3, 4, 5]])
    assert Sampler()(logits, state).sampled_token_ids.flatten().tolist() == [0, 5]


def test_swap_with_an_empty_row():
    """Swapping with an empty row moves the request there."""
    state = state_of(only(0), only(1))
    state.update(BatchUpdate(batch_size=2, removed=[1]))
    state.update(BatchUpdate(batch_size=2, moved=[(0, 1, SWAP)], added=[]))
    assert drawn(state)[1] == 0


def test_three_cycle():
    """Two swaps rotate three rows, parameters and masks together."""
    state = state_of(only(0), only(1, temperature=0.0), only(2, top_k=1))
    state.update(BatchUpdate(batch_size=3, moved=[(0, 1, SWAP), (1, 2, SWAP)]))
    assert drawn(state) == [1, 2, 0]


def greedy_row(state, row):
    """One greedy step on `row`, the logits after the edits included."""
    logits = torch.tensor([row])
    Sampler()(logits, state)
    return logits[0].tolist()


def test_live_output_list():
    """Tokens appended between steps are counted, a placeholder only once it is replaced."""
    output: list[int] = []
    state = BatchState(3)
    params = P(temperature=0.0, frequency_penalty=1.0)
    state.update(BatchUpdate(batch_size=1, added=[(0, params, (), output)]))
    seen = [greedy_row(state, [0.0, 0.0, 0.0])]
    for change in (
        lambda: output.append(1),
        lambda: output.append(-1),
        lambda: output.__setitem__(1, 1),
    ):
        change()
        seen.append(greedy_row(state, [0.0, 0.0, 0.0]))
    assert seen == [[0, 0, 0], [0, -1, 0], [0, -1, 0], [0, -2, 0]]


def test_shortened_list_is_read_anew():
    """A list that lost tokens, or had its last one replaced, is counted from the start."""
    output = [1, 2]
    state = BatchState(3)
    params = P(temperature=0.0, presence_penalty=1.0)
    state.update(BatchUpdate(batch_size=1, added=[(0, params, (), output)]))
    seen = [greedy_row(state, [0.0, 0.0, 0.0])]
    output.pop()
    seen.append(greedy_row(state, [0.0, 0.0, 0.0]))
    output[0] = 0
    seen.append(greedy_row(state, [0.0, 0.0, 0.0]))
    assert seen == [[0, -1, -1], [0, -1, 0], [-1, 0, 0]]


def test_counts_grow_over_many_steps():
    """3,000 tokens appended one a step leave each of three tokens penalised 1,000 times."""
    output: list[int] = []
    state = BatchState(3000)
    params = P(temperature=0.0, frequency_penalty=0.5)
    state.update(BatchUpdate(batch_size=1, added=[(0, params, (), output)]))
    for step in range(3000):
        output.append(step)
        if step % 100 == 99:
            row = greedy_row(state, [0.0] * 3000)
    assert set(row) == {-0.5}


def test_penalties_follow_a_moved_row():
    """After a swap each history stays with its request."""
    state = BatchState(2)
    penalised = P(temperature=0.0, presence_penalty=1.0)
    rows = [(0, penalised, (), [0]), (1, penalised, (), [1])]
    state.update(BatchUpdate(batch_size=2, added=rows))
    logits = torch.zeros(2, 2)
    Sampler()(logits, state)
    state.update(BatchUpdate(batch_size=2, moved=[(0, 1, SWAP)]))
    swapped = torch.zeros(2, 2)
    Sampler()(swapped, state)
    assert [logits.tolist(), swapped.tolist()] == [[[-1, 0], [0, -1]], [[0, -1], [-1, 0]]]


def test_no_update_recomputes_nothing():
    """Steps without a change keep the same plan and the same device tensors."""
    state = state_of(P(seed=1), only(2, presence_penalty=1.0))
    drawn(state)
    plan = state.plan
    state.update(None)
    drawn(state)
    assert state.plan is plan


def test_move_keeps_the_histories():
    """A move hands the counted history on, it is not counted again."""
    state = state_of(P(presence_penalty=1.0), P())
    before = list(state.edits[4]._rows.values())
    state.update(BatchUpdate(batch_size=2, moved=[(0, 1, SWAP)]))
    assert [h for h in state.edits[4]._rows.values() if h is before[0]] == before


def test_refused_addition_leaves_the_state():
    """A bad parameter names the row and changes nothing."""
    state = state_of(only(3))
    with pytest.raises(ParameterError, match="request at row 0: min_p is 7"):
        state.update(BatchUpdate(batch_size=1, added=added((0, P(min_p=7)))))
    assert drawn(state) == [3]


def test_min_tokens_ends_without_an_update():
    """The stop token is free from the step at which the output is long enough."""
    output: list[int] = []
    state = BatchState(2)
    params = P(temperature=0.0, min_tokens=1, eos_token_id=1)
    state.update(BatchUpdate(batch_size=1, added=[(0, params, (), output)]))
    first = greedy_row(state, [0.0, 1.0])
    output.append(0)
    assert [first, greedy_row(state, [0.0, 1.0])] == [[0, NEG], [0, 1]]


def test_moving_a_request_without_masks_frees_the_target():
    """After a unidirectional move the target has the source's parameters only, masks or none."""
    state = state_of(only(0), P(temperature=0.0))
    state.update(BatchUpdate(batch_size=1, moved=[(1, 0, UNI)]))
    logits = torch.tensor([[0.0, 1, 2, 3, 4, 5]])
    assert Sampler()(logits, state).sampled_token_ids.tolist() == [[5]]


def test_change_after_a_step():
    """A request that replaces another between two steps is drawn by its own parameters."""
    state = state_of(P(temperature=0.0))
    logits = torch.tensor([[0.0, 1, 2, 3, 4, 5]])
    hook = lambda _, noise: torch.zeros_like(noise)  # noqa: E731
    sampler = Sampler(noise_hook=hook)
    steps = [sampler(logits.clone(), state).sampled_token_ids.item()]
    for params in (P(), P(top_k=2)):
        state.update(BatchUpdate(batch_size=1, added=added((0, params))))
        steps.append(sampler(logits.clone(), state).sampled_token_ids.item())
    assert steps == [5, 0, 4]


def test_requests_that_share_their_parameters_keep_their_rows():
    """Two kinds of shared parameters between greedy and seeded rows: each row has its own kind's values."""
    warm, cold, greedy = P(temperature=2.0, top_k=2), P(temperature=0.5), P(temperature=0.0)
    seeded = P(temperature=0.5, seed=7)
    plan = state_of(warm, cold, greedy, warm, seeded, cold, warm).plan
    filtered, plain = plan.groups
    assert filtered.rows.tolist() == [0, 3, 6]
    assert filtered.temperature.tolist() == [2.0, 2.0, 2.0]
    assert filtered.top_k.tolist() == [2, 2, 2]
    assert plain.rows.tolist() == [1, 4, 5]
    assert plain.temperature.tolist() == [0.5, 0.5, 0.5]
    assert (filtered.seeded, plain.seeded) == (False, True)
    assert (plan.seeded_rows, plan.seeds.tolist()) == ((4,), [7])


def test_a_row_is_edited_though_others_beside_it_are_not():
    """An edit that no row of the first batch wants is found when a later request wants it, and leaves with it."""
    state = state_of(P(temperature=0.0), P(temperature=0.0))
    biased = P(temperature=0.0, logit_bias={3: 1.0})
    state.update(BatchUpdate(batch_size=3, added=added((2, biased))))
    assert drawn(state) == [0, 0, 3]
    state.update(BatchUpdate(batch_size=3, removed=[2], added=added((2, P(temperature=0.0)))))
    assert drawn(state) == [0, 0, 0]
