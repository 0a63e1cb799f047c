"""The results file: its schema and its round trip."""

import copy
import json
from importlib import resources
from typing import Any

import jsonschema
import pytest
import report_samples as samples

from aliquot.reports.results import ResultsError, check_to_dict, from_json, to_json

RUNS = [
    samples.passing_run,
    samples.failing_run,
    samples.known_run,
    samples.error_run,
    samples.empty_run,
    samples.hostile_run,
]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """The packaged schema, itself checked."""
    text = resources.files("aliquot.reports").joinpath("schema.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def _broken(path: tuple[str | int, ...], value: Any) -> Any:
    """The failing run's data with the value at `path` replaced, or dropped if `value` is `...`."""
    data = copy.deepcopy(json.loads(to_json(samples.failing_run())))
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


@pytest.mark.parametrize("make", RUNS)
def test_results_fit_the_schema(make: Any, validator: jsonschema.Draft202012Validator) -> None:
    """What to_json writes is what the schema describes."""
    errors = [error.message for error in validator.iter_errors(json.loads(to_json(make())))]
    assert errors == []


FIRST_FAILURE = next(
    number for number, check in enumerate(samples.failing_run().checks) if check.finding
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "aliquot-results/1"),
        (("spent",), ...),
        (("effects", 0, "method"), ...),
        (("checks", FIRST_FAILURE, "verdict"), "KNOWN"),
        (("checks", 0, "known"), {}),
        (("seed",), "one"),
        (("colour",), "red"),
        (("alpha",), 2.0),
        (("backend", "noise"), ...),
        (("backend", "colour"), "red"),
        (("checks", 0, "verdict"), "MAYBE"),
        (("checks", 0, "reason"), ...),
        (("checks", FIRST_FAILURE, "finding"), ...),
        (("checks", FIRST_FAILURE, "finding", "reproduce"), ...),
        (("checks", FIRST_FAILURE, "statistics", 0, "p_value"), None),
        (("checks", FIRST_FAILURE, "statistics", 0, "log10_e"), 3.0),
        (("checks", FIRST_FAILURE, "frequencies", "drawn"), [-1]),
        (("clauses", 0, "id"), ""),
    ],
)
def test_schema_refuses_a_wrong_file(
    path: tuple[str | int, ...], value: Any, validator: jsonschema.Draft202012Validator
) -> None:
    """One wrong, missing or additional value is enough to be refused, at its own place."""
    errors = list(validator.iter_errors(_broken(path, value)))
    assert errors
    assert all(
        place == wanted
        for error in errors
        for place, wanted in zip(error.absolute_path, path, strict=False)
    )


@pytest.mark.parametrize("make", RUNS)
def test_results_survive_the_round_trip(make: Any) -> None:
    """Reading a results file gives the run that was written."""
    run = make()
    assert from_json(to_json(run)) == run


def test_check_without_clause_survives_the_round_trip() -> None:
    """A check that names no clause can be written and read back."""
    run = samples.run([samples.exact("TOPK03", "free", clauses=())])
    assert "clauses" not in check_to_dict(run.checks[0])
    assert from_json(to_json(run)) == run


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "3",
        json.dumps(_broken(("checks", 0, "verdict"), "MAYBE")),
        json.dumps(_broken(("backend",), "fast")),
        json.dumps(_broken(("checks", FIRST_FAILURE, "finding"), "none")),
    ],
)
def test_unreadable_results_raise_one_error(text: str) -> None:
    """Whatever is wrong with a file, reading it raises ResultsError."""
    with pytest.raises(ResultsError, match="results file"):
        from_json(text)
