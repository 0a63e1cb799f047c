"""PLUG07: validate_params accepts what it should and rejects what apply cannot bear."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aliquot.conformance.backend import one_line
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed, passed
from aliquot.conformance.processor_check.params import as_json
from aliquot.conformance.processor_check.search import Difference
from aliquot.conformance.processor_check.subject import (
    ProcessorRaised,
    Subject,
    additions,
    apply,
    update,
)
from aliquot.contract.batch import Request
from aliquot.fast.processors.interface import RequestParams

WRONG: tuple[Any, ...] = (None, "x", "", [], {}, -1, 0, True, 0.5, float("nan"), float("inf"))


def check_hook(subject: Subject) -> Outcome:
    """Good parameters are accepted, and wrong ones are rejected by ValueError or borne."""
    for params in subject.kinds:
        said = verdict(subject, params)
        if said is not None:
            return _failed(params, "these parameters accepted", said)
    tried = [wrong for params in subject.given for wrong in altered(params)]
    for params in tried:
        found = _borne(subject, params)
        if found is not None:
            return found
    if not tried:
        return passed("no extra_args given: the engine validates the standard parameters itself")
    return passed(f"{len(tried)} alterations of extra_args are rejected or borne")


def verdict(subject: Subject, params: RequestParams) -> str | None:
    """What validate_params raises, None when it accepts."""
    try:
        subject.validate(params)
    except Exception as error:
        return one_line(error)
    return None


def _borne(subject: Subject, params: RequestParams) -> Outcome | None:
    try:
        subject.validate(params)
    except ValueError:
        return None
    except Exception as error:
        return _failed(params, "ValueError or no exception from validate_params", one_line(error))
    try:
        step(subject, params)
    except ProcessorRaised as error:
        return _failed(params, "a ValueError of validate_params", f"acceptance, then {error}")
    return None


def step(subject: Subject, params: RequestParams) -> None:
    """One step of a request; raises ProcessorRaised, also for NaN or +inf."""
    request = Request(
        id="",
        params=params,
        prompt_token_ids=subject.tokens[:2],
        output_token_ids=list(subject.tokens[:2]),
    )
    processor = subject.make()
    update(processor, additions([request]))
    after = apply(processor, subject.reference[:1])
    if after.isnan().any() or (after == float("inf")).any():
        raise ProcessorRaised("apply wrote NaN or +inf")


def altered(params: RequestParams) -> Iterator[RequestParams]:
    """The parameters with one of the extra arguments missing or replaced by something odd."""
    for name in params.extra_args:
        rest = {key: value for key, value in params.extra_args.items() if key != name}
        yield replace(params, extra_args=rest)
        for wrong in WRONG:
            yield replace(params, extra_args=rest | {name: wrong})


def _failed(params: RequestParams, wanted: str, got: str) -> Outcome:
    shown = {name: repr(v) if name == "extra_args" else v for name, v in as_json(params).items()}
    return failed(Difference(wanted=wanted, got=got, witness={"params": shown}))


CHECKS = (
    Check(
        id="validate-params",
        clauses=("PLUG07",),
        title="Validation hook",
        run=check_hook,
    ),
)
