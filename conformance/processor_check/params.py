"""The requests that a processor is checked with."""

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from aliquot.contract.params import validate
from aliquot.fast.processors.interface import RequestParams

LARGEST_VOCAB = 1 << 18
FIELDS = {f.name: f for f in fields(RequestParams)}

STANDARD = (
    RequestParams(min_p=0.5),
    RequestParams(min_p=0.05),
    RequestParams(min_tokens=2, eos_token_id=1, stop_token_ids=(3,)),
    RequestParams(min_tokens=1, stop_token_ids=(0, 2)),
    RequestParams(logit_bias={2: 5.0, 0: -3.0}),
    RequestParams(logit_bias={1: 100.0}),
    RequestParams(thinking_token_budget=1),
    RequestParams(thinking_token_budget=0),
    RequestParams(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.5),
    RequestParams(allowed_token_ids=(0, 2), bad_words=((1,),)),
)
"""Requests that use every standard parameter; a processor that reads none of them needs `--params`."""


class ParamsError(ValueError):
    """Parameters on the command line that are no requests."""


def parse(text: str) -> tuple[RequestParams, ...]:
    """Read one JSON object, or a list of them, as parameters of requests.

    Keys are the fields of SamplingParams and `extra_args`. Raises ParamsError with one line.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ParamsError(f"--params: is not JSON: {error}") from error
    objects = data if isinstance(data, list) and data else [data]
    return tuple(_request(item) for item in objects)


def _request(item: Any) -> RequestParams:
    if not isinstance(item, dict):
        raise ParamsError(
            f"--params: {item!r} is no request, allowed is an object or a list of them"
        )
    unknown = sorted(set(item) - set(FIELDS))
    if unknown:
        raise ParamsError(
            f"--params: no field {unknown[0]!r}, allowed are {', '.join(FIELDS)}; "
            "parameters of your own belong into extra_args"
        )
    try:
        if "logit_bias" in item:
            item = item | {"logit_bias": {int(t): b for t, b in item["logit_bias"].items()}}
        params = RequestParams(**item)
        validate(params, LARGEST_VOCAB, "in --params")
    except (AttributeError, TypeError, ValueError) as error:
        raise ParamsError(f"--params: {error}") from error
    return params


def numbers(params: RequestParams) -> set[int]:
    """Every whole number in the parameters that could be a token id."""
    found = {n for name in FIELDS for n in _integers(getattr(params, name))}
    return {n for n in found if 0 <= n < LARGEST_VOCAB}


def _integers(item: Any) -> Iterator[int]:
    if isinstance(item, bool):
        return
    if isinstance(item, int):
        yield item
    elif isinstance(item, dict):
        yield from _integers([*item.keys(), *item.values()])
    elif isinstance(item, list | tuple):
        for entry in item:
            yield from _integers(entry)


def as_json(params: RequestParams) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    return {
        name: getattr(params, name)
        for name, field in FIELDS.items()
        if getattr(params, name) != _default(field)
    }


def _default(field: Any) -> Any:
    return field.default if field.default is not MISSING else field.default_factory()
