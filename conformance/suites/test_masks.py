"""GRAM, ALLOW, BADW, MINTOK, BIAS: masks and additions before the penalties."""

from dataclasses import replace

import numpy as np
import pytest

from aliquot.conformance.case import Case, named, row, stacked
from aliquot.conformance.judge import Judge

FIVE = (5.0, 4.0, 3.0, 2.0, 1.0)
NEGATIVE = (-5.0, -6.0, -7.0, -8.0, -9.0)


def both(judge: Judge, case: Case) -> None:
    """Judge the case as random rows, and its rows again as greedy ones."""
    judge.filters(case)
    greedy = replace(
        case,
        name=f"{case.name}, greedy",
        requests=tuple(
            replace(r, params=replace(r.params, temperature=0.0)) for r in case.requests
        ),
    )
    judge.greedy(greedy)
    judge.processed(greedy)


def exactly(judge: Judge, case: Case) -> None:
    """As `both`, for a change of values that no support shows: UNSUPPORTED where neither values nor laws tell."""
    if not judge.unseen_alpha:
        judge.needs("processed_logits", "processed_logprobs")
    both(judge, case)


def masked(case: Case, *forbidden: int) -> Case:
    """The case with a grammar bitmask that forbids some ids in every row."""
    words = -(-case.vocab_size // 32)
    bits = np.ones((len(case.requests), words * 32), dtype=np.uint8)
    bits[:, list(forbidden)] = 0
    packed = np.packbits(bits, axis=1, bitorder="little").view("<i4")
    return replace(case, grammar_bitmask=packed.astype(np.int32))


WIDE = row("V = 70", np.linspace(3, -3, 70))


@pytest.mark.parametrize("forbidden", [(0,), (1, 5), (32,), (0, 33, 64, 69)], ids=str)
def test_GRAM01_GRAM02_a_cleared_bit_forbids(judge: Judge, forbidden: tuple[int, ...]) -> None:
    """Token t is forbidden iff bit t % 32 of word t // 32 is cleared."""
    both(judge, masked(WIDE, *forbidden))


def test_GRAM03_raw_values_see_the_grammar(judge: Judge) -> None:
    """Raw logprobs show -inf for tokens that the grammar forbids."""
    judge.raw(masked(WIDE, 0, 40))


def test_GRAM04_a_row_without_a_grammar_is_unchanged(judge: Judge) -> None:
    """A row whose bits are all set keeps its law beside a restricted one."""
    case = masked(stacked("restricted and free", WIDE, WIDE), 0)
    assert case.grammar_bitmask is not None
    mask = case.grammar_bitmask.copy()
    mask[1] = -1
    both(judge, replace(case, grammar_bitmask=mask))


def test_GRAM05_bits_beyond_the_vocabulary(judge: Judge) -> None:
    """Cleared bits at V and above change nothing, neither in their row nor in the next one."""
    both(judge, masked(stacked("two rows", WIDE, WIDE), 70, 71, 95))


def test_GRAM06_bit_31(judge: Judge) -> None:
    """The sign bit of a word forbids token 31 or 63 alone."""
    both(judge, masked(WIDE, 31, 63))


@pytest.mark.parametrize("allowed", [(2,), (1, 3), (0, 1, 2, 3, 4)], ids=str)
def test_ALLOW01_only_listed_tokens_survive(judge: Judge, allowed: tuple[int, ...]) -> None:
    """Every token outside the list is masked."""
    both(judge, row("five", FIVE, allowed_token_ids=allowed))
    both(judge, row("negative", NEGATIVE, allowed_token_ids=allowed))


def test_ALLOW02_a_neighbour_without_a_list(judge: Judge) -> None:
    """A row without a list keeps all its tokens beside a row with one."""
    both(judge, stacked("list, none", row("list", FIVE, allowed_token_ids=[2]), row("none", FIVE)))
    both(judge, stacked("none, list", row("none", FIVE), row("list", FIVE, allowed_token_ids=[2])))


def test_ALLOW03_the_list_acts_on_greedy_rows(judge: Judge) -> None:
    """The argmax is taken among the listed tokens."""
    judge.greedy(row("five", FIVE, allowed_token_ids=[3, 4], temperature=0.0))


def test_ALLOW04_listed_logits_keep_their_values(judge: Judge) -> None:
    """Listed tokens are neither ranked nor biased by the list's order."""
    both(judge, row("unordered list", FIVE, allowed_token_ids=[4, 1, 2]))


@pytest.mark.parametrize("output", [(7, 1, 2), (1, 2), (2, 1), (1, 2, 3), (2,), ()], ids=str)
def test_BADW01_BADW03_the_last_token_of_a_matching_word(
    judge: Judge, output: tuple[int, ...]
) -> None:
    """A word masks its last token iff the output ends in its first tokens."""
    both(judge, row("eight", range(8, 0, -1), output=output, bad_words=[(1, 2, 0)]))


@pytest.mark.parametrize("output", [(), (3,)], ids=str)
def test_BADW02_one_token_words(judge: Judge, output: tuple[int, ...]) -> None:
    """A word of one token is masked at every step."""
    both(judge, row("five", FIVE, output=output, bad_words=[(0,), (2,)]))


def test_BADW04_the_prompt_does_not_match(judge: Judge) -> None:
    """A word whose beginning stands only in the prompt, or spans both, masks nothing."""
    both(judge, row("prompt", FIVE, prompt=[1, 2], bad_words=[(1, 2, 0)]))
    both(judge, row("prompt and output", FIVE, prompt=[1], output=[2], bad_words=[(1, 2, 0)]))


def test_BADW05_words_are_independent(judge: Judge) -> None:
    """Every matching word masks its last token, words that do not match none."""
    words = [(3, 0), (2, 3, 1), (4, 2), (2,)]
    both(judge, row("four words", FIVE, output=[2, 3], bad_words=words))


@pytest.mark.parametrize("length", [0, 1, 2])
def test_MINTOK01_MINTOK02_stop_ids_below_the_minimum(judge: Judge, length: int) -> None:
    """Stop ids are masked below min_tokens and free from there on."""
    both(judge, row("five", FIVE, output=[4] * length, min_tokens=2, eos_token_id=0))


def test_MINTOK03_every_stop_id(judge: Judge) -> None:
    """EOS and all further stop ids are masked."""
    both(judge, row("five", FIVE, min_tokens=1, eos_token_id=0, stop_token_ids=[1, 3]))


def test_MINTOK04_other_rows_untouched(judge: Judge) -> None:
    """A row's stop ids do not mask its neighbour."""
    waiting = row("waiting", FIVE, min_tokens=3, eos_token_id=0)
    both(judge, stacked("waiting, free", waiting, row("free", FIVE, eos_token_id=0)))
    both(judge, stacked("free, waiting", row("free", FIVE, eos_token_id=0), waiting))


@pytest.mark.parametrize("bias", [{4: 10.0}, {0: -3.5, 1: 2.25}, {2: 100.0}], ids=named)
def test_BIAS01_the_bias_is_added(judge: Judge, bias: dict[int, float]) -> None:
    """Each biased logit moves by its bias, all others stay."""
    exactly(judge, row("five", FIVE, logit_bias=bias))


def test_BIAS02_clipped_to_100(judge: Judge) -> None:
    """A bias beyond 100 acts as 100."""
    exactly(judge, row("far apart", (0.0, 150.0, -40.0), logit_bias={0: 1000.0, 2: -1000.0}))


def test_BIAS03_masked_tokens_stay_masked(judge: Judge) -> None:
    """A bias does not revive a masked token."""
    exactly(judge, row("five", FIVE, allowed_token_ids=[3, 4], logit_bias={0: 100.0, 3: -1.0}))


def test_BIAS04_fractions_count(judge: Judge) -> None:
    """A bias of half a nat is not rounded away."""
    exactly(judge, row("close", (1.0, 1.2), logit_bias={0: 0.5}))


def test_BIAS05_min_tokens_before_the_bias(judge: Judge) -> None:
    """A positive bias on a stop id does not undo min_tokens."""
    exactly(judge, row("five", FIVE, min_tokens=1, eos_token_id=2, logit_bias={2: 50.0}))
