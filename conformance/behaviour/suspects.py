"""Which comparison may explain a failed check, by the clauses that it tests."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from aliquot.conformance.behaviour.answers import of_call, of_id, of_logprobs, of_token
from aliquot.conformance.behaviour.batches import of_crowd
from aliquot.conformance.behaviour.noise import of_noise, of_probes
from aliquot.conformance.behaviour.state import of_state
from aliquot.conformance.case import Case
from aliquot.conformance.causes import Cause, merged

RAISED = (Exception, SystemExit, GeneratorExit)
Explainer = Callable[[Any, Case, int], Cause | None]
EXPLAINERS: tuple[tuple[tuple[str, ...], Explainer], ...] = (
    (("ERR", "IO06", "IO07", "IO09", "IO10"), of_call),
    (("IO08",), of_id),
    (("DRAW03", "DRAW04", "SEED"), of_probes),
    (("DRAW05", "DRAW06", "DRAW08", "DRAW09"), of_noise),
    (("INV03", "INV08"), of_crowd),
    (("STATE", "SEED"), of_state),
    (("LOGP", "RANK", "IO04"), of_logprobs),
    (("GREEDY", "MINP", "IO", "ALLOW", "BADW", "MINTOK", "BIAS", "GRAM", "PEN", "THINK"), of_token),
)


KINDS = {
    "independence": ("DRAW03", "DRAW04", "SEED"),
    "injected noise": ("DRAW05", "DRAW06", "DRAW08"),
    "state": ("STATE",),
    "bad input": ("ERR",),
    "form": ("IO06", "IO07", "IO08", "IO09", "IO10"),
    "relations": ("INV",),
}


def suspected(backend: Any, clause_ids: Sequence[str], case: Case, r: int) -> Cause | None:
    """The faults that answer as the backend does, asked anew, where a check of these clauses failed at row `r`."""
    found = []
    for prefixes, explain in EXPLAINERS:
        if any(clause.startswith(prefixes) for clause in clause_ids):
            with contextlib.suppress(*RAISED):
                found.append(explain(backend, case, r))
    return merged(*found)


def evidence_of(clause_ids: Sequence[str]) -> str:
    """The kind of evidence that the checks of these clauses go by, unless they say otherwise."""
    chosen = (kind for kind, prefixes in KINDS.items() if clause_ids[0].startswith(prefixes))
    return next(chosen, "exact")
