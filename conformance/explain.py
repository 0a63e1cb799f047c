"""`aliquot explain`: one row through every step, as a table in the terminal."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from rich.table import Table

from aliquot.conformance.case import Case, changed, row
from aliquot.conformance.corpus import real
from aliquot.contract.accuracy import CLASSES, AccuracyClass
from aliquot.contract.batch import ThinkingMarkers
from aliquot.contract.params import SamplingParams, validate
from aliquot.oracle.explain import StepView, TokenView, explain

FIELDS = frozenset(SamplingParams.__dataclass_fields__)


class ExplainError(ValueError):
    """A row that cannot be explained; the message says what is wrong and what is allowed."""


def from_file(path: Path, params: dict[str, Any]) -> Case:
    """The case in a JSON file with `logits` and optionally `params`, token ids, bitmask and thinking markers.

    The witness of a finding has this form when it holds the whole row. `params` win over the file's.
    Raises ExplainError.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data["logits"], list):
            raise TypeError("logits are no list; a witness of a large row holds only some of them")
        with np.errstate(over="ignore"):
            logits = np.array([float(x) for x in data["logits"]], dtype=np.float32)
        prompt, output = (
            [int(t) for t in data.get(name, ())]
            for name in ("prompt_token_ids", "output_token_ids")
        )
        case = _case(str(path), logits, prompt, output, {**data.get("params", {}), **params})
        return replace(case, **_steering(data))
    except ExplainError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ExplainError(
            f"{path}: {type(error).__name__}: {error}; allowed is a JSON object with a list "
            '"logits", and optionally "params", "prompt_token_ids", "output_token_ids", "grammar_bitmask" '
            'and "thinking"'
        ) from error


def _steering(data: dict[str, Any]) -> dict[str, Any]:
    """The grammar bitmask and the thinking markers of a witness, as fields of Case."""
    found: dict[str, Any] = {}
    if "grammar_bitmask" in data:
        found["grammar_bitmask"] = np.array([data["grammar_bitmask"]], dtype=np.int32)
    if "thinking" in data:
        markers = data["thinking"]
        found["thinking"] = ThinkingMarkers(
            start=tuple(markers["start"]), end=tuple(markers.get("end", ()))
        )
    return found


def from_corpus(corpus: str, number: int, params: dict[str, Any]) -> Case:
    """Row `number` of a packaged corpus or of an npz file, with its own history; raises ExplainError."""
    try:
        rows = real.rows(corpus)
    except real.CorpusError as error:
        raise ExplainError(str(error)) from error
    if not 0 <= number < len(rows):
        raise ExplainError(f"--row {number}: corpus {corpus} has rows 0 to {len(rows) - 1}")
    chosen = rows[number]
    history = chosen.prompt_token_ids, chosen.output_token_ids
    return _case(chosen.name, chosen.logits, *history, params)


def _case(
    name: str, logits: Any, prompt: Sequence[int], output: Sequence[int], given: dict[str, Any]
) -> Case:
    unknown = sorted(set(given) - FIELDS)
    if unknown:
        raise ExplainError(
            f"params: {', '.join(unknown)} unknown, allowed are {', '.join(sorted(FIELDS))}"
        )
    if not np.size(logits):
        raise ExplainError(f"{name}: has no logits, allowed is at least one")
    try:
        if "logit_bias" in given:
            given["logit_bias"] = {int(k): v for k, v in given["logit_bias"].items()}
        case = row(name, logits, prompt=prompt, output=output, **given)
        validate(case.requests[0].params, case.vocab_size, name)
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ExplainError(f"params {given}: {error}") from error
    return case


def parse(text: str) -> dict[str, Any]:
    """The parameters in a JSON object; raises ExplainError."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ExplainError(f"--params {text}: not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ExplainError(f"--params {text}: is no JSON object")
    return given


def accuracy_class(name: str) -> AccuracyClass:
    """The accuracy class of that name; raises ExplainError."""
    if name not in CLASSES:
        raise ExplainError(f"--accuracy {name}: unknown, allowed are {', '.join(CLASSES)}")
    return CLASSES[name]


def views(case: Case, accuracy: AccuracyClass) -> tuple[StepView, ...]:
    """What each step did to the case's row; raises ExplainError for a row without a law."""
    try:
        return explain(case.logits, case.batch(), 0, accuracy=accuracy)
    except ValueError as error:
        raise ExplainError(str(error)) from error


def table(case: Case, steps: Sequence[StepView]) -> Table:
    """The steps as a table: tokens alive, mass kept, what was removed, undecided, and the top five."""
    params = ", ".join(f"{k} = {v}" for k, v in changed(case.requests[0].params).items())
    made = Table(title=f"{case.name}, V = {case.vocab_size}: {params or 'no parameters set'}",
                 title_justify="left", box=None, pad_edge=False, header_style="bold")  # fmt: skip
    made.add_column("step", no_wrap=True)
    for heading in ("alive", "mass kept", "removed", "changed", "undecided"):
        made.add_column(heading, justify="right")
    made.add_column("top five: id (probability)")
    for step in steps:
        made.add_row(
            step.name,
            f"{step.alive:,}",
            f"{step.mass:.4f}",
            _count(step.removed),
            _count(step.changed),
            _count(step.undecided),
            top(step.top),
        )
    return made


def write_page(case: Case, steps: Sequence[StepView], path: Path) -> None:
    """Write the steps as one self-contained page; raises ExplainError when it cannot be written."""
    environment = Environment(loader=PackageLoader("aliquot.conformance"), autoescape=True)
    page = environment.get_template("explain.html").render(
        case=case, params=changed(case.requests[0].params), steps=steps
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ExplainError(f"--html {path}: cannot be written: {error.strerror}") from error


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"


def top(tokens: Sequence[TokenView]) -> str:
    """Tokens as `id (probability)`, the likeliest first."""
    return "  ".join(f"{t.token} ({t.prob:.3g})" for t in tokens)
