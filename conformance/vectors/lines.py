"""The cases once more as lines of words, for programs without a JSON reader: what is given and what is asked."""

from collections.abc import Iterator
from typing import Any

TITLE = "aliquot-vectors 1"


def of(cases: list[dict[str, Any]], table: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines of cases.txt, from the cases as in cases.jsonl and the table of arrays."""
    yield TITLE
    for case in cases:
        rows = case["rows"]
        yield f"case {case['case']} {len(rows)} {case['vocab_size']} {case['dtype']} {case['check']}"
        for kind, told in case["asks"].items():
            noise = [str(table[told["noise"]]["offset"])] if "noise" in told else []
            yield " ".join(["ask", kind, str(told.get("draws", 1)), *noise])
        for row in rows:
            yield " ".join(["row", *_words(case, row, table)])


def _words(
    case: dict[str, Any], row: dict[str, Any], table: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """A row's words `name=value`: first its logits, then only what is set."""
    for name in ("logits", "grammar"):
        if name in row:
            yield f"{name}={table[row[name]]['offset']}"
    for name in ("prompt_token_ids", "output_token_ids"):
        if name in row:
            yield f"{name}={_value(row[name])}"
    for name, value in row.get("params", {}).items():
        yield f"{name}={_value(value)}"
    if "given" in row:
        yield f"given={row['given']}"
    if "logprobs_mode" in case:
        yield f"logprobs_mode={case['logprobs_mode']}"
    for name, marker in case.get("thinking", {}).items():
        yield f"thinking_{name}={_value(marker)}"


def _value(value: Any) -> str:
    """Lists with commas, lists of lists with semicolons, maps as `id:number`; numbers as JSON writes them."""
    if isinstance(value, dict):
        return ",".join(f"{key}:{entry}" for key, entry in value.items())
    if isinstance(value, list):
        between = ";" if any(isinstance(entry, list) for entry in value) else ","
        return between.join(_value(entry) for entry in value)
    return str(value)
