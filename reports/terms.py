"""What the words of the statistical tests mean."""

from aliquot.reports.results import RunResults
from aliquot.reports.text import ALPHA

TV = "TV"
TERMS = {
    TV: "total variation: half the sum of |p - q| over all tokens, p the contract's law and q the sampler's; a sampler "
    "that far away or farther is found with probability 0.99",
    "e-process": "a bet against the contract's law, settled draw by draw: e is what a stake of 1 has become. "
    f"If the law is right, it reaches 1 / {ALPHA} with probability at most {ALPHA}, however long one looks",
    "replay": "the oracle draws with the noise that the sampler used and must draw the same tokens, up to rounding",
    "support": "every drawn id must be in the set that the contract allows; how the draws share the set is not seen",
    "chi-square": "drawn counts against expected ones, rare tokens pooled",
    "mass rank": "tokens from the likeliest to the least likely, in so many groups of equal probability",
    "mass octave": "tokens by the probability of all that are no likelier, in powers of two",
    "tail 2^-": "the least likely tokens, of this probability together, against all others",
    "head identity": "each of the 64 likeliest tokens by itself, all others together",
    "id order": "tokens in the order of their ids, in so many groups of equal probability",
    "id mod": "tokens by the remainder of their id",
    "id block": "tokens by blocks of so many consecutive ids",
    "id slice": "tokens by id, in so many parts of equal length",
}
"""By word; those from "mass rank" on are groups of tokens: the ones in which draws and law differ most."""


def terms(results: RunResults) -> dict[str, str]:
    """The words of `TERMS` that the tests and failures of a run use, with what they mean."""
    said = {s.method for check in results.checks for s in check.statistics}
    said |= {check.reason for check in results.failures}
    said |= {TV} if results.effects else set()
    return {term: text for term, text in TERMS.items() if any(term in words for words in said)}
