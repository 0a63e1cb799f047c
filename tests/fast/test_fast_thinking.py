"""Thinking budget: which token is forced after which history."""

import pytest
import torch
from fast_cases import P, after_filters, tokens

from aliquot.contract.batch import ThinkingMarkers
from aliquot.fast.thinking import Section


def forced(budget, output, *, prompt=(), start=(1,), end=(2,)):
    """The forced token after a history, None if free."""
    return Section(budget, ThinkingMarkers(start=start, end=end), prompt, output).forced()


@pytest.mark.parametrize(
    ("budget", "prompt", "output", "wanted"),
    [
        (2, [], [5, 5, 5], None),
        (2, [], [1, 5], None),
        (2, [], [1, 5, 5], 2),
        (2, [1], [5, 5], 2),
        (2, [1, 5], [5], 2),
        (0, [], [1], 2),
        (0, [1], [], 2),
        (2, [2], [1, 5, 5], 2),
        (2, [], [1, 5, 2, 1, 5], None),
        (2, [], [1, 5, 2, 1, 5, 5], 2),
        (2, [], [1, 5, 5, 2], None),
        (2, [], [1, 5, 5, 2, 1], 2),
        (2, [1, 5, 5, 5, 2], [1, 5], None),
        (2, [], [1, 1, 5], 2),
        (2, [], [1, 5, -1], None),
    ],
)
def test_one_token_markers(budget, prompt, output, wanted):
    """Start 1, end 2: forced once the budget is used up, at once after a forced end, not after a natural one."""
    assert forced(budget, output, prompt=prompt) == wanted


@pytest.mark.parametrize(
    ("budget", "output", "wanted"),
    [
        (3, [1, 5, 6, 2], 3),
        (3, [1, 5, 6, 7], 2),
        (3, [1, 5, 6, 7, 2], 3),
        (3, [1, 5, 6, 7, 2, 3], None),
        (3, [1, 5, 2, 3, 1, 5, 6], None),
        (2, [1, 2, 2], 3),
    ],
)
def test_two_token_end_marker(budget, output, wanted):
    """End 2 3: a begun end marker goes on, one token a step."""
    assert forced(budget, output, end=(2, 3)) == wanted


def test_two_token_start_marker():
    """Start 1 4: only the whole sequence opens a section."""
    assert forced(1, [1, 5, 5], start=(1, 4)) is None
    assert forced(1, [1, 4, 5], start=(1, 4)) == 2


def test_live_list_and_step_by_step():
    """Tokens appended to the running list are counted once each."""
    output = [1]
    section = Section(2, ThinkingMarkers(start=(1,), end=(2,)), (), output)
    seen = []
    for token in (5, 5, 2, 7):
        seen.append(section.forced())
        output.append(token)
    assert seen == [None, None, 2, None]


def test_forced_logit_is_raised_after_penalties():
    """The forced token's logit is 1e9 whatever the penalties did, and it is drawn."""
    rows = torch.tensor([[9.0, 0.0, -50.0]])
    options = {"outputs": [[1]], "thinking": ThinkingMarkers(start=(1,), end=(2,))}
    params = P(temperature=0.0, thinking_token_budget=0, presence_penalty=2.0)
    assert after_filters(rows.clone(), params, **options).tolist() == [[9, -2, 1e9]]
    assert tokens(rows, P(thinking_token_budget=0), u=0.0, **options) == [2]


def test_no_end_marker_no_effect():
    """Without an end marker the budget changes nothing."""
    options = {"outputs": [[1]], "thinking": ThinkingMarkers(start=(1,))}
    assert tokens([[9.0, 0.0]], P(temperature=0.0, thinking_token_budget=0), **options) == [0]
