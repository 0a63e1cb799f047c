"""Logit bias, penalties and thinking budget, value by value."""

import pytest
from oracle_cases import INF, after, request, run

from aliquot.contract.batch import ThinkingMarkers
from aliquot.oracle import thinking

FOUR = [1.0, -2.0, 3.0, -4.0]


def test_BIAS01_BIAS04_bias_is_added():
    """A fractional bias moves its token by exactly that and no other token."""
    assert after("logit_bias", FOUR, request(logit_bias={1: 0.25})) == [[1.0, -1.75, 3.0, -4.0]]


@pytest.mark.parametrize(("bias", "logit"), [(1000.0, 101.0), (-1000.0, -99.0), (100.0, 101.0)])
def test_BIAS02_clipped_to_100(bias, logit):
    """A bias beyond 100 acts as 100, on both sides."""
    assert after("logit_bias", FOUR, request(logit_bias={0: bias}))[0][0] == logit


def test_BIAS03_masked_stays_masked():
    """A bias does not revive a masked token."""
    asks = request(allowed_token_ids=[0], logit_bias={2: 50.0})
    assert after("logit_bias", FOUR, asks) == [[1.0, -INF, -INF, -INF]]


def test_BIAS05_bias_comes_before_the_penalties():
    """The penalty divides what the bias made positive."""
    asks = request([1], logit_bias={1: 6.0}, repetition_penalty=2.0)
    assert after("penalties", FOUR, asks)[0][1] == 2.0


def test_PEN01_repetition_then_frequency_then_presence():
    """8 becomes 4, loses 2 * 0.5, then 1: another order gives another number."""
    asks = request([0, 0], repetition_penalty=2.0, frequency_penalty=0.5, presence_penalty=1.0)
    assert after("penalties", [8.0, 0.0], asks)[0][0] == 2.0


@pytest.mark.parametrize(("logit", "wanted"), [(3.0, 1.5), (-3.0, -6.0), (0.0, 0.0)])
def test_PEN02_divided_or_multiplied_by_sign(logit, wanted):
    """Positive logits are divided, the others multiplied."""
    asks = request([0], repetition_penalty=2.0)
    assert after("penalties", [logit, 0.0], asks)[0][0] == wanted


def test_PEN03_PEN04_PEN07_prompt_counts_for_repetition_alone():
    """A prompt token is divided once and neither counted nor present; repeats do not matter."""
    asks = request([1], [0, 0], repetition_penalty=2.0, frequency_penalty=1.0, presence_penalty=0.5)
    assert after("penalties", [4.0, 4.0, 4.0], asks) == [[2.0, 0.5, 4.0]]


@pytest.mark.parametrize(("count", "wanted"), [(0, 5.0), (1, 4.5), (3, 3.5), (1000, -495.0)])
def test_PEN05_PEN08_frequency_counts_the_whole_output(count, wanted):
    """Half a nat for every occurrence, however long ago."""
    asks = request([0] * count + [1] * 50, frequency_penalty=0.5)
    assert after("penalties", [5.0, 0.0], asks)[0][0] == wanted


def test_PEN06_PEN11_presence_is_flat_and_may_promote():
    """Presence -1 raises by 1 whether a token came once or three times."""
    asks = request([0, 1, 1, 1], presence_penalty=-1.0)
    assert after("penalties", [1.0, 1.0, 1.0], asks) == [[2.0, 2.0, 1.0]]


def test_PEN09_padding_and_placeholder_are_nothing():
    """Ids -1 and V in histories change no logit."""
    asks = request([-1, 3], [3, 3, -1], repetition_penalty=2.0, frequency_penalty=1.0)
    assert after("penalties", [1.0, 2.0, 3.0], asks) == [[1.0, 2.0, 3.0]]


def test_PEN10_neutral_values():
    """Penalties of 1, 0 and 0 leave a row with a history as it was."""
    assert after("penalties", FOUR, request([0, 1, 2], [3])) == [FOUR]


def test_PEN12_greedy_rows_are_penalised():
    """The former maximum loses against the second."""
    asks = request([0], temperature=0.0, presence_penalty=2.0)
    assert run([3.0, 2.0], asks).greedy_ids.tolist() == [1]


def test_PEN13_masked_stays_masked():
    """No penalty makes -inf finite or NaN."""
    asks = request([1], allowed_token_ids=[0], repetition_penalty=0.5, frequency_penalty=-2.0)
    assert after("penalties", [0.0, 1.0], asks) == [[0.0, -INF]]


def test_PEN14_rows_have_their_own_histories():
    """Only the row that saw the token pays."""
    asks = request([0], presence_penalty=1.0), request([1], presence_penalty=1.0)
    assert after("penalties", [[2.0, 2.0], [2.0, 2.0]], *asks) == [[1.0, 2.0], [2.0, 1.0]]


START, END = 1, 2
ONE = ThinkingMarkers(start=(START,), end=(END,))
LONG = ThinkingMarkers(start=(1, 4), end=(2, 3, 2))


@pytest.mark.parametrize(
    ("budget", "output", "wanted"),
    [
        (2, [START, 5], None),
        (2, [START, 5, 5], END),
        (2, [START, 5, 5, 5], END),
        (2, [5, 5, 5], None),
        (2, [START, 5, 5, END], None),
    ],
)
def test_THINK01_forced_when_the_budget_is_used_up(budget, output, wanted):
    """The end marker comes after as many tokens as the budget has, and only in a section."""
    assert thinking.forced((), output, ONE, budget) == wanted


def test_THINK02_raised_to_1e9_after_the_penalties():
    """The forced logit is 1e9 whatever mask or penalty it had."""
    asks = request([1], allowed_token_ids=[0], presence_penalty=2.0, thinking_token_budget=0)
    assert after("thinking_budget", [0.0, 1.0, 5.0], asks, thinking=ONE) == [[0.0, -INF, 1e9]]


def test_THINK03_budget_0():
    """The end marker follows the start marker directly."""
    assert thinking.forced((), [START], ONE, 0) == END


@pytest.mark.parametrize(("prompt", "wanted"), [([START, 5], END), ([START], None), ([5], None)])
def test_THINK04_sections_begun_in_the_prompt(prompt, wanted):
    """Tokens of the section in the prompt count."""
    assert thinking.forced(prompt, [5], ONE, 2) == wanted


@pytest.mark.parametrize(
    ("output", "wanted"),
    [([1, 5, 4, 5], None), ([1, 4, 5], 2), ([1, 4, 2, 3, 2], None), ([1, 4, 2, 5], 2)],
)
def test_THINK05_markers_match_as_whole_sequences(output, wanted):
    """1 4 opens, 2 3 2 closes; parts of them do neither."""
    assert thinking.forced((), output, LONG, 1) == wanted


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ([1, 4, 5, 5], 2),
        ([1, 4, 5, 5, 2], 3),
        ([1, 4, 5, 2], 3),
        ([1, 4, 5, 2, 3], 2),
        ([1, 4, 2, 3, 3], 2),
        ([1, 4, 5, 5, 2, 3, 2], None),
    ],
)
def test_THINK06_a_begun_end_marker_goes_on(output, wanted):
    """Budget 2: what stands there of 2 3 2 is continued, one token a step."""
    assert thinking.forced((), output, LONG, 2) == wanted


def test_THINK07_a_natural_end_gives_the_budget_back():
    """After an early end the next section has the full budget."""
    used = [START, 5, END, START, 5]
    assert [thinking.forced((), out, ONE, 2) for out in (used, [*used, 5])] == [None, END]


@pytest.mark.parametrize("between", [[], [5, 5, 5]])
def test_THINK08_reopening_after_a_forced_end(between):
    """A section after a forced end is closed at once, also the third."""
    forced_end = [START, 5, 5, END, *between, START]
    third = [*forced_end, END, START]
    assert [thinking.forced((), out, ONE, 2) for out in (forced_end, third)] == [END, END]


@pytest.mark.parametrize("markers", [ThinkingMarkers(start=(1,)), None])
def test_THINK09_no_end_marker_no_effect(markers):
    """Without an end marker nothing is forced."""
    asks = request([1, 0, 0], thinking_token_budget=0)
    assert after("thinking_budget", [0.0, 1.0], asks, thinking=markers) == [[0.0, 1.0]]


def test_THINK10_an_earlier_end_marker_does_not_close():
    """An end marker in the prompt says nothing of a later section."""
    assert thinking.forced([END], [START, 5, 5], ONE, 2) == END


def test_THINK11_a_start_inside_a_section_is_a_token():
    """Writing the start marker again gives no budget back."""
    assert thinking.forced((), [START, START, 5], ONE, 2) == END


@pytest.mark.parametrize(
    ("prompt", "output", "wanted"),
    [
        ([START, 5, 5, 5, END], [START], None),
        ([START, 5, 5, 5], [END, START], END),
        ([], [START, 5, END, START], None),
        ([], [START, 5, 5, END, START], END),
    ],
)
def test_THINK12_what_makes_an_end_a_forced_one(prompt, output, wanted):
    """An end beyond the budget was forced, unless it lies in the prompt."""
    assert thinking.forced(prompt, output, ONE, 2) == wanted


def test_padding_is_no_thinking_token():
    """Placeholder and padding ids do not use up the budget."""
    asks = request([1, -1, 3], thinking_token_budget=1)
    assert after("thinking_budget", [0.0, 1.0, 2.0], asks, thinking=ONE) == [[0.0, 1.0, 2.0]]
