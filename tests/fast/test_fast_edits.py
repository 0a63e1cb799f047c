"""Masks, bias, penalties and the grammar, read from processed logits of greedy batches."""

import numpy as np
import pytest
import torch
from fast_cases import NEG, P, after_filters, run, tokens

from aliquot.fast.penalties import Penalties


def edited(row, params, **options):
    """The row after step 6 as a list."""
    greedy = P(**{**vars(params), "temperature": 0.0})
    return after_filters(torch.tensor([row]), greedy, **options)[0].tolist()


def test_allowed_ids():
    """Only listed tokens keep their logits; a row without a list keeps all."""
    rows = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    got = after_filters(rows, P(temperature=0.0, allowed_token_ids=[0, 1]), P(temperature=0.0))
    assert got.tolist() == [[1, 2, NEG], [1, 2, 3]]


@pytest.mark.parametrize(
    ("words", "output", "wanted"),
    [
        ([[2]], [], [0, 0, NEG]),
        ([[0, 1]], [0], [0, NEG, 0]),
        ([[0, 1]], [1], [0, 0, 0]),
        ([[0, 1]], [], [0, 0, 0]),
        ([[0, 1, 2]], [0, 1], [0, 0, NEG]),
        ([[0, 1, 2]], [1], [0, 0, 0]),
        ([[0, 1, 2]], [2, 0, 1], [0, 0, NEG]),
        ([[0, 1], [0, 2], [1]], [0], [0, NEG, NEG]),
    ],
)
def test_bad_words(words, output, wanted):
    """A word's last token is masked iff its other tokens end the output."""
    assert edited([0.0, 0.0, 0.0], P(bad_words=words), outputs=[output], prompts=[[0, 1]]) == wanted


@pytest.mark.parametrize(
    ("length", "wanted"), [(0, [NEG, 0, NEG]), (1, [NEG, 0, NEG]), (2, [0, 0, 0])]
)
def test_min_tokens(length, wanted):
    """EOS and stop ids are masked until two tokens are out."""
    params = P(min_tokens=2, eos_token_id=0, stop_token_ids=[2])
    assert edited([0.0, 0.0, 0.0], params, outputs=[[1] * length]) == wanted


def test_logit_bias():
    """Bias is added, clipped to 100, and leaves -inf."""
    params = P(logit_bias={0: 0.5, 1: 250.0, 2: -250.0, 3: 9.0})
    assert edited([1.0, 1.0, 1.0, NEG, 1.0], params) == [1.5, 101, -99, NEG, 1]


def test_min_tokens_before_bias():
    """A biased stop token stays masked."""
    assert edited([0.0, 0.0], P(min_tokens=1, eos_token_id=0, logit_bias={0: 50.0}))[0] == NEG


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        (P(repetition_penalty=2.0), [1, -4, 2, 0, NEG]),
        (P(frequency_penalty=0.5), [2, -3, 2, 0, NEG]),
        (P(presence_penalty=0.5), [2, -2.5, 2, 0, NEG]),
        (P(frequency_penalty=-0.5), [2, -1, 2, 0, NEG]),
        (
            P(repetition_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25),
            [1, -5.25, 2, 0, NEG],
        ),
    ],
)
def test_penalties(params, wanted):
    """Prompt 0 4, output 1 1 4: repetition sees both, frequency and presence the output alone."""
    row = [2.0, -2.0, 2.0, 0.0, NEG]
    assert edited(row, params, prompts=[[0, 0, 4]], outputs=[[1, 1, 4]]) == wanted


def test_padding_and_placeholders_count_as_nothing():
    """Ids V and -1 in a history change no logit."""
    params = P(repetition_penalty=2.0, presence_penalty=1.0)
    assert edited([1.0, 1.0], params, prompts=[[2, -1]], outputs=[[2, -1]]) == [1, 1]


def test_penalties_stay_in_their_row():
    """A row without penalties keeps its logits beside a penalised one."""
    rows = torch.ones(2, 3)
    got = after_filters(
        rows, P(temperature=0.0, presence_penalty=1.0), P(temperature=0.0), outputs=[[0], [1]]
    )
    assert got.tolist() == [[0, 1, 1], [1, 1, 1]]


def test_penalties_round_once():
    """Repetition and frequency are combined before the result is rounded to float32."""
    value, penalty = np.float32(1.1), np.float32(1.3)
    wanted = np.float32(np.float64(value) / np.float64(penalty) - np.float64(np.float32(0.7)) * 3)
    params = P(repetition_penalty=1.3, frequency_penalty=0.7)
    assert edited([1.1, 0.0], params, outputs=[[0, 0, 0]])[0] == wanted


@pytest.mark.parametrize("width", [5, 32, 40])
def test_grammar_bitmask(width):
    """Cleared bits are masked, bit 31 like any other, bits beyond V without effect."""
    words = np.full((2, -(-width // 32)), -1, dtype=np.int32)
    words[0, 0] = 0x7FFFFFFD
    rows = torch.zeros(2, width)
    kept = after_filters(rows, P(), P(), grammar_bitmask=words) > NEG
    masked = [i for i in (1, 31) if i < width]
    assert (~kept).nonzero().tolist() == [[0, i] for i in masked]


def test_masks_act_before_greedy():
    """The best token that the grammar, the list and the words leave is taken."""
    words = np.array([[0b01111]], dtype=np.int32)
    row = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0]])
    params = P(temperature=0.0, allowed_token_ids=[0, 1, 2, 4], bad_words=[[2]])
    assert tokens(row, params, grammar_bitmask=words) == [1]


def test_no_row_no_edit():
    """Penalties without a penalised row return the same logits untouched."""
    logits = torch.ones(2, 3)
    assert Penalties(3, logits.device).apply(logits) is logits
    assert logits.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_sixteen_bit_input_is_not_touched():
    """Edits and masks leave float16 and bfloat16 input as it was."""
    for dtype in (torch.float16, torch.bfloat16):
        rows = torch.ones(1, 4, dtype=dtype)
        run(rows, P(bad_words=[[0]], logit_bias={1: 2.0}, presence_penalty=1.0), outputs=[[2]])
        assert rows.tolist() == [[1, 1, 1, 1]]


def test_rows_that_share_memory_are_not_edited_twice():
    """Expanded rows with different masks are masked each by itself."""
    rows = torch.zeros(1, 3).expand(2, 3)
    kept = after_filters(rows, P(bad_words=[[0]]), P(bad_words=[[1]])) > NEG
    assert kept.tolist() == [[False, True, True], [True, False, True]]
