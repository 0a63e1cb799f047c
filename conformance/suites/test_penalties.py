"""PEN: repetition, frequency and presence."""

from typing import Any

import pytest

from aliquot.conformance.case import Case, row, stacked
from aliquot.conformance.corpus.crafted import real_cases
from aliquot.conformance.judge import Judge
from aliquot.conformance.suites.test_masks import exactly

SIGNS = (4.0, 3.0, -1.0, -2.0, 0.0, 2.0, 1.0, -4.0)
ALL: dict[str, Any] = {
    "repetition_penalty": 1.7,
    "frequency_penalty": 0.6,
    "presence_penalty": -0.4,
}


def test_PEN01_repetition_then_frequency_then_presence(judge: Judge) -> None:
    """The three act in that order on the same token."""
    exactly(judge, row("all three", SIGNS, prompt=[0], output=[0, 0, 2, 3, 3, 3], **ALL))


@pytest.mark.parametrize("penalty", [1.5, 2.0, 0.5])
def test_PEN02_repetition_by_sign(judge: Judge, penalty: float) -> None:
    """Positive logits are divided, the others multiplied."""
    exactly(judge, row("signs", SIGNS, output=[0, 2, 3, 4, 7], repetition_penalty=penalty))


@pytest.mark.parametrize(("prompt", "output"), [([0], []), ([], [1]), ([0, 2], [1])])
def test_PEN03_repetition_sees_prompt_and_output(
    judge: Judge, prompt: list[int], output: list[int]
) -> None:
    """A token in the prompt or in the output counts as seen."""
    exactly(judge, row("signs", SIGNS, prompt=prompt, output=output, repetition_penalty=2.0))


def test_PEN04_once_per_distinct_token(judge: Judge) -> None:
    """A token seen three times is penalised as one seen once."""
    exactly(judge, row("thrice", SIGNS, prompt=[0, 0], output=[0, 3, 3], repetition_penalty=2.0))


@pytest.mark.parametrize("penalty", [0.5, 2.0])
def test_PEN05_frequency_times_the_count(judge: Judge, penalty: float) -> None:
    """The frequency penalty is subtracted once per occurrence."""
    exactly(judge, row("counts", SIGNS, output=[0, 0, 0, 1, 5, 5], frequency_penalty=penalty))


def test_PEN06_presence_is_flat(judge: Judge) -> None:
    """The presence penalty does not grow with the count."""
    exactly(judge, row("counts", SIGNS, output=[0, 0, 0, 1], presence_penalty=1.5))


@pytest.mark.parametrize("name", ["frequency_penalty", "presence_penalty"])
def test_PEN07_the_prompt_is_not_counted(judge: Judge, name: str) -> None:
    """Frequency and presence leave tokens of the prompt alone."""
    penalty: dict[str, Any] = {name: 2.0}
    exactly(judge, row("prompt", SIGNS, prompt=[0, 0, 0, 1], output=[5], **penalty))


def test_PEN08_the_whole_history(judge: Judge) -> None:
    """A token drawn 300 steps ago is still penalised."""
    output = [0, *[1 + i % 4 for i in range(300)]]
    long: dict[str, Any] = {"presence_penalty": 2.0, "repetition_penalty": 1.5}
    exactly(judge, row("long", SIGNS, output=output, **long))
    exactly(judge, row("new at the end", SIGNS, output=[*output, 5], **long))


def test_PEN09_padding_counts_as_nothing(judge: Judge) -> None:
    """The placeholder -1 and the padding id V change no logit, neither the last nor one of the next row."""
    exactly(judge, row("placeholder", SIGNS, output=[5, -1], frequency_penalty=1.0))
    padded = row("padding", SIGNS, prompt=[1, len(SIGNS)], repetition_penalty=2.0)
    exactly(judge, stacked("two padded rows", padded, padded))


@pytest.mark.parametrize("vocab", [32, 33, 64])
def test_PEN09_PEN14_the_padding_id(judge: Judge, vocab: int) -> None:
    """The padding id V in prompt or output changes no logit of its own row or of the next."""
    logits = [4.0 - 8.0 * i / vocab for i in range(vocab)]
    padded = row("padded", logits, prompt=[3, vocab, vocab], output=[vocab - 1, vocab], **ALL)
    exactly(
        judge,
        stacked("padded between", row("first", logits, **ALL), padded, row("next", logits, **ALL)),
    )


def test_PEN10_neutral_values(judge: Judge) -> None:
    """Neutral penalties change nothing."""
    exactly(judge, row("neutral", SIGNS, prompt=[0], output=[1, 1], repetition_penalty=1.0))


def test_PEN11_negative_penalties_promote(judge: Judge) -> None:
    """Negative frequency and presence raise the logits of drawn tokens."""
    promoted: dict[str, Any] = {"frequency_penalty": -1.5, "presence_penalty": -1.0}
    exactly(judge, row("promoted", SIGNS, output=[6, 6, 7], **promoted))


def test_PEN12_greedy_rows_are_penalised(judge: Judge) -> None:
    """A greedy row's argmax moves when the best token is penalised."""
    judge.greedy(row("moved", (2.0, 1.5), output=[0], presence_penalty=1.0, temperature=0.0))


def test_PEN13_masked_stays_masked(judge: Judge) -> None:
    """Penalties, also negative ones, leave masked tokens masked."""
    exactly(judge, row("masked", SIGNS, output=[0, 1], allowed_token_ids=[2, 3], **ALL))


def test_PEN14_row_by_row(judge: Judge) -> None:
    """Rows with different histories and parameters do not mix."""
    rows = (
        row("none", SIGNS, output=[0, 1]),
        row("repetition", SIGNS, prompt=[0], repetition_penalty=2.0),
        row("frequency", SIGNS, output=[0] * 20, frequency_penalty=0.25),
        row("presence", SIGNS, output=[7], presence_penalty=-2.0),
    )
    exactly(judge, stacked("four rows", *rows))
    exactly(judge, stacked("four rows reversed", *reversed(rows)))


REAL = [case for name in ("prompts_f32", "decode_bf16") for case in real_cases(name, 8, **ALL)]


@pytest.mark.parametrize("case", REAL, ids=str)
def test_PEN01_PEN05_PEN06_on_real_rows(judge: Judge, case: Case) -> None:
    """All penalties on logits of a language model with their own history."""
    exactly(judge, case)
