"""Which clauses a backend's declaration puts to the test: those of a parameter that it does not take are not."""

from aliquot.conformance.backend import Capabilities

PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")
EDITS = (
    "allowed_token_ids",
    "bad_words",
    "min_tokens",
    "logit_bias",
    "grammar_bitmask",
    *PENALTIES,
)
NEEDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("TEMP", ("temperature",)),
    ("MINP", ("min_p",)),
    ("TOPK", ("top_k",)),
    ("TOPP", ("top_p",)),
    ("SEED", ("seed",)),
    ("PEN", PENALTIES),
    ("BIAS", ("logit_bias",)),
    ("ALLOW", ("allowed_token_ids",)),
    ("BADW", ("bad_words",)),
    ("MINTOK", ("min_tokens",)),
    ("GRAM", ("grammar_bitmask",)),
    ("THINK", ("thinking_token_budget",)),
    ("GREEDY05", EDITS),
    ("LOGP", ("logprobs", "logprob_token_ids")),
    ("RANK", ("logprobs", "logprob_token_ids")),
)
"""By the beginning of the clauses' ids: one of these parameters must be declared."""


def missing_for(clause: str, declared: Capabilities) -> str:
    """In words what a backend would have to declare for the clause to be tested; empty when it does."""
    for prefix, parameters in NEEDS:
        if clause.startswith(prefix) and not declared.parameters.intersection(parameters):
            return " or ".join(parameters)
    return ""
