"""Bad words: token sequences that must not be completed.

BADW01: when the last m-1 output tokens equal the first m-1 tokens of a word of length m, its last
token gets the logit -inf. BADW02: a word of one token is always masked. BADW03: with fewer than m-1
output tokens nothing matches. BADW04: the prompt is not looked at. BADW05: every word that matches
masks its own last token.
"""

from collections.abc import Sequence

import numpy as np

from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = ("BADW01", "BADW02", "BADW03", "BADW04", "BADW05")


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with -inf at the last token of each word that the history is about to complete."""
    out = rows.copy()
    for row, params, history in zip(out, context.params, context.histories, strict=True):  # BADW04
        for word in params.bad_words:  # BADW05
            if about_to_complete(word, history):
                row[word[-1]] = -np.inf  # BADW01
    return out


def about_to_complete(word: Sequence[int], history: Sequence[int]) -> bool:
    """Whether the history ends in all of the word but its last token."""
    start = tuple(word[:-1])
    if len(history) < len(start):  # BADW03
        return False
    return tuple(history[len(history) - len(start) :]) == start  # BADW01 BADW02
