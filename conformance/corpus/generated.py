"""Strategies for small rows that shrink: ties, masked tokens, extremes, and parameters that meet them."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from aliquot.conformance.case import Case, row

MOST_TOKENS = 40
LEVELS = (0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 8.0, -8.0, 30.0, -30.0, 1e4, -1e4, 1e-40)
TEMPERATURES = (1.0, 0.5, 2.0, 0.7, 1.3)


def logits(vocab: int) -> st.SearchStrategy[list[float]]:
    """Logits of `vocab` tokens, at least one of them finite."""
    tied = st.sampled_from((*LEVELS, -np.inf))
    free = st.floats(-20.0, 20.0, width=32)
    rows = st.lists(tied, min_size=vocab, max_size=vocab) | st.lists(
        free, min_size=vocab, max_size=vocab
    )
    return rows.filter(lambda values: max(values) > -np.inf)


def ids(vocab: int, most: int = 6) -> st.SearchStrategy[list[int]]:
    """Token ids of the vocabulary, repeats included."""
    return st.lists(st.integers(0, vocab - 1), max_size=most)


def fractions(*named: float) -> st.SearchStrategy[float]:
    """Numbers in (0, 1], the named ones often."""
    return st.sampled_from(named) | st.floats(2.0**-20, 1.0)


def filters(vocab: int) -> dict[str, st.SearchStrategy[Any]]:
    """Filter parameters with their strategies."""
    return {
        "top_k": st.integers(1, vocab),
        "top_p": fractions(0.5, 0.9, 0.25, 1.0, 0.999),
        "min_p": fractions(0.1, 0.5, 1.0),
        "temperature": st.sampled_from(TEMPERATURES),
    }


def edits(vocab: int) -> dict[str, st.SearchStrategy[Any]]:
    """Penalties, bias and masks with their strategies."""
    one = st.integers(0, vocab - 1)
    signed = st.sampled_from((0.5, -0.5, 2.0, -2.0, 1.25))
    return {
        "repetition_penalty": st.sampled_from((2.0, 0.5, 1.3)),
        "frequency_penalty": signed,
        "presence_penalty": signed,
        "logit_bias": st.dictionaries(one, st.sampled_from((1.0, -0.5, 100.0, -100.0)), max_size=3),
        "allowed_token_ids": st.lists(one, min_size=1, max_size=vocab, unique=True),
        "bad_words": st.lists(st.lists(one, min_size=1, max_size=3), max_size=3),
        "min_tokens": st.integers(0, 4),
        "eos_token_id": one,
        "stop_token_ids": st.lists(one, max_size=2),
    }


@st.composite
def cases(
    draw: st.DrawFn, declared: frozenset[str], *, edited: bool = False, greedy: bool = False
) -> Case:
    """One row of up to `MOST_TOKENS` tokens under filters, or with `edited` under masks and penalties as well.

    Only parameters in `declared` are set.
    """
    vocab = draw(st.integers(1, MOST_TOKENS))
    choices = {**({} if greedy else filters(vocab)), **(edits(vocab) if edited else {})}
    able = {name: choices[name] for name in choices if name in declared}
    chosen = {name: draw(st.none() | values) for name, values in able.items()}
    params: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    if greedy:
        params["temperature"] = 0.0
    return row(
        "generated",
        draw(logits(vocab)),
        prompt=draw(ids(vocab)) if edited else (),
        output=draw(ids(vocab)) if edited else (),
        **params,
    )
