"""Grammar, allowed ids, bad words and min tokens, token by token."""

import numpy as np
import pytest
from oracle_cases import INF, after, request, run

FOUR = [1.0, 2.0, 3.0, 4.0]


def bits(*words):
    """One row of a packed mask."""
    return np.array([words], dtype=np.uint32).view(np.int32)


def test_GRAM01_GRAM02_packed_bits_mask():
    """Bits 0 and 2 of word 0 allow tokens 0 and 2, the others become -inf."""
    assert after("grammar", FOUR, request(), grammar_bitmask=bits(0b0101)) == [
        [1.0, -INF, 3.0, -INF]
    ]


def test_GRAM01_second_word():
    """Token 33 is bit 1 of word 1."""
    row = after("grammar", [0.0] * 34, request(), grammar_bitmask=bits(1, 2))[0]
    assert [t for t, logit in enumerate(row) if logit > -INF] == [0, 33]


def test_GRAM03_raw_values_see_the_mask():
    """The raw rows hold -inf where the grammar forbids."""
    raw = run(FOUR, request(allowed_token_ids=[0]), grammar_bitmask=bits(0b0111)).raw
    assert raw.tolist() == [[1.0, 2.0, 3.0, -INF]]


def test_GRAM04_all_bits_set_is_no_change():
    """A mask of ones leaves the row as it was."""
    assert after("grammar", FOUR, request(), grammar_bitmask=bits(0xFFFFFFFF)) == [FOUR]


def test_GRAM05_bits_beyond_the_vocabulary():
    """Bits 4 to 31 mean nothing for four tokens."""
    assert after("grammar", FOUR, request(), grammar_bitmask=bits(0xFFFFFFF3)) == [
        [1.0, 2.0, -INF, -INF]
    ]


def test_GRAM06_the_sign_bit_is_a_bit():
    """Only bit 31 set allows token 31 alone."""
    row = after("grammar", [0.0] * 40, request(), grammar_bitmask=bits(1 << 31, 0))[0]
    assert [t for t, logit in enumerate(row) if logit > -INF] == [31]


def test_ALLOW01_ALLOW02_ALLOW04_only_listed_tokens_survive():
    """The list masks its own row and keeps the listed logits."""
    got = after("allowed_token_ids", [FOUR, FOUR], request(allowed_token_ids=[3, 1]), request())
    assert got == [[-INF, 2.0, -INF, 4.0], FOUR]


def test_ALLOW03_greedy_rows_are_masked():
    """A greedy row takes the best listed token."""
    assert run(FOUR, request(temperature=0.0, allowed_token_ids=[0, 1])).greedy_ids.tolist() == [1]


@pytest.mark.parametrize(
    ("words", "output", "masked"),
    [
        ([(2,)], [], [2]),
        ([(0, 1)], [0], [1]),
        ([(0, 1)], [0, 0], [1]),
        ([(0, 1)], [], []),
        ([(0, 1)], [0, 2], []),
        ([(0, 1, 2)], [1], []),
        ([(0, 1, 2)], [3, 0, 1], [2]),
        ([(1,), (0, 2), (3, 3)], [0], [1, 2]),
    ],
)
def test_BADW01_BADW02_BADW03_BADW05_last_token_of_each_match(words, output, masked):
    """Each word whose beginning ends the output masks its last token, and only then."""
    row = after("bad_words", FOUR, request(output, bad_words=words))[0]
    assert [t for t, logit in enumerate(row) if logit == -INF] == masked


def test_BADW04_the_prompt_does_not_match():
    """A word begun in the prompt masks nothing."""
    assert after("bad_words", FOUR, request(prompt=[0], bad_words=[(0, 1)])) == [FOUR]


@pytest.mark.parametrize(("length", "masked"), [(0, [1, 3]), (1, [1, 3]), (2, []), (3, [])])
def test_MINTOK01_MINTOK02_MINTOK03_until_the_minimum(length, masked):
    """EOS and the stop ids are masked while the output is shorter than two."""
    asks = request([0] * length, min_tokens=2, eos_token_id=3, stop_token_ids=[1])
    row = after("min_tokens", FOUR, asks)[0]
    assert [t for t, logit in enumerate(row) if logit == -INF] == masked


def test_MINTOK04_other_rows_stay():
    """A neighbour's stop ids mask nothing here."""
    got = after("min_tokens", [FOUR, FOUR], request(min_tokens=1, eos_token_id=0), request())
    assert got[1] == FOUR


@pytest.mark.parametrize(("drafts", "masked"), [((), True), ((2,), True), ((2, 2), False)])
def test_MINTOK05_drafts_count(drafts, masked):
    """With one output token and a minimum of three, two drafts end the mask."""
    row = after("min_tokens", FOUR, request([2], drafts=drafts, min_tokens=3, eos_token_id=0))[0]
    assert (row[0] == -INF) == masked
