"""A program's answers: JSON lines, read and checked against the cases that they answer."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.vectors.folder import Folder
from aliquot.conformance.vectors.question import (
    DRAWS,
    GIVEN,
    IDS,
    KEPT,
    LOGPROBS,
    REPLAYS,
)

IN_FOLDER = "results.jsonl"
REFUSED = "refused"
NAMED = ("sampler", "version")
NUMBERS = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}
BITS_32 = (-(2**31), 2**31 - 1)


class AnswerError(Exception):
    """Answers that cannot be read; the message is one line with file, case, field, value and what is allowed."""


@dataclass
class Answers:
    """What a program says of itself, and its answers by case and kind, in NumPy."""

    sampler: str
    version: str = "unknown"
    by_case: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that are answered anywhere."""
        return frozenset(kind for answers in self.by_case.values() for kind in answers)


def read(path: Path, folder: Folder) -> Answers:
    """Read a file of JSON lines, or the file results.jsonl of a folder; raises AnswerError."""
    file = path / IN_FOLDER if path.is_dir() else path
    found = Answers(sampler=path.stem)
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AnswerError(f"{file}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            _Line(file, number).take(line, folder, found)
    return found


@dataclass
class _Line:
    """One line: its file and number, and the case that it answers once known."""

    file: Path
    number: int
    case: dict[str, Any] = field(default_factory=dict)

    def refuse(self, name: str, value: Any, allowed: str) -> AnswerError:
        of = f" case {self.case['case']}:" if self.case else ""
        shown = json.dumps(value, default=str)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return AnswerError(
            f"{self.file}:{self.number}:{of} {name} is {shown}, allowed is {allowed}"
        )

    def take(self, line: str, folder: Folder, found: Answers) -> None:
        """Add what the line says."""
        try:
            data = json.loads(line, parse_constant=_no_constant)
        except ValueError as error:
            raise AnswerError(f"{self.file}:{self.number}: no JSON: {error}") from error
        if not isinstance(data, dict):
            raise self.refuse("the line", data, "a JSON object")
        if "case" not in data:
            return self._about(data, found)
        number = data.pop("case")
        if not _is_int(number) or number not in folder.cases:
            raise self.refuse("case", number, f"a number in [0, {len(folder.cases)})")
        self.case = folder.cases[number]
        answers = found.by_case.setdefault(number, {})
        for kind, value in data.items():
            if kind in answers:
                raise self.refuse(kind, value, "one answer of each kind for a case")
            answers[kind] = self._answer(kind, value)

    def _about(self, data: dict[str, Any], found: Answers) -> None:
        for name, value in data.items():
            if name not in NAMED or not isinstance(value, str):
                raise self.refuse(name, value, "a text named sampler or version, or a case")
            setattr(found, name, value)

    def _answer(self, kind: str, value: Any) -> Any:
        """The answer in NumPy."""
        allowed = [*self.case["asks"], REFUSED]
        if kind not in allowed:
            raise self.refuse("field", kind, f"one of {', '.join(allowed)}")
        if kind in (DRAWS, *REPLAYS):
            count = self.case["asks"][kind]["draws"]
            return np.array(self._rows(kind, value, lambda r: self._ints(kind, r, count))).T
        readers: dict[str, Callable[[str, Any], Any]] = {
            IDS: lambda name, given: np.array(self._ints(name, given, self.rows)),
            KEPT: self._kept,
            LOGPROBS: self._logprobs,
            GIVEN: self._given,
            REFUSED: self._refused,
        }
        return readers[kind](kind, value) if kind in readers else self._whole_rows(kind, value)

    @property
    def rows(self) -> int:
        return len(self.case["rows"])

    def _rows(self, name: str, value: Any, of_row: Callable[[Any], Any]) -> list[Any]:
        """One entry a row."""
        if not isinstance(value, list) or len(value) != self.rows:
            raise self.refuse(name, value, f"a list of {self.rows}, one a row")
        return [of_row(entry) for entry in value]

    def _ints(self, name: str, value: Any, count: int | None = None) -> list[int]:
        right = isinstance(value, list) and count in (None, len(value))
        if not right or not all(_is_int(x) and BITS_32[0] <= x <= BITS_32[1] for x in value):
            number = "" if count is None else f"{count} "
            raise self.refuse(name, value, f"a list of {number}integers of 32 bits")
        return list(value)

    def _numbers(self, name: str, value: Any, count: int) -> npt.NDArray[np.float32]:
        """Numbers in float32; null and texts for those that JSON does not have."""
        if not isinstance(value, list) or len(value) != count:
            raise self.refuse(name, value, f"a list of {count} numbers")
        return np.array([self._number(name, x) for x in value], dtype=np.float32)

    def _number(self, name: str, value: Any) -> float:
        if value is None:
            return -np.inf
        if isinstance(value, str) and value in NUMBERS:
            return NUMBERS[value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                return float(np.float32(value))
        raise self.refuse(name, value, 'numbers, null for -inf, "inf", "-inf" and "nan"')

    def _tokens(self, name: str, value: Any) -> list[int]:
        """Different ids of the vocabulary."""
        ids, vocab = self._ints(name, value), self.case["vocab_size"]
        if len(set(ids)) != len(ids) or any(not 0 <= t < vocab for t in ids):
            raise self.refuse(name, value, f"different ids in [0, {vocab})")
        return ids

    def _kept(self, name: str, value: Any) -> npt.NDArray[np.bool_]:
        kept = np.zeros((self.rows, self.case["vocab_size"]), dtype=bool)
        for r, ids in enumerate(self._rows(name, value, lambda row: self._tokens(name, row))):
            kept[r, ids] = True
        return kept

    def _whole_rows(self, name: str, value: Any) -> npt.NDArray[np.float32]:
        return np.stack(self._rows(name, value, lambda row: self._whole_row(name, row)))

    def _whole_row(self, name: str, value: Any) -> npt.NDArray[np.float32]:
        """A row's V values: a list, or ids with their values and -inf elsewhere, or a place in a file."""
        vocab = self.case["vocab_size"]
        if isinstance(value, dict) and value.keys() == {"file", "offset"}:
            return self._filed(name, value, vocab)
        if not isinstance(value, dict):
            return self._numbers(name, value, vocab)
        if value.keys() != {"ids", "values"}:
            raise self.refuse(
                name, value, "a list, or an object with ids and values or file and offset"
            )
        ids = self._tokens(f"{name}.ids", value["ids"])
        row = np.full(vocab, -np.inf, dtype=np.float32)
        row[ids] = self._numbers(f"{name}.values", value["values"], len(ids))
        return row

    def _filed(self, name: str, value: dict[str, Any], vocab: int) -> npt.NDArray[np.float32]:
        path = Path(str(value["file"]))
        if path.is_absolute() or ".." in path.parts or not _is_int(value["offset"]):
            raise self.refuse(name, value, "a file beside the results and an offset in bytes")
        try:
            with (self.file.parent / path).open("rb") as file:
                file.seek(max(value["offset"], 0))
                read = file.read(4 * vocab)
        except OSError as error:
            raise self.refuse(name, value, f"a file that can be read ({error.strerror})") from error
        if len(read) < 4 * vocab:
            raise self.refuse(name, value, f"a place with {4 * vocab} bytes")
        return np.frombuffer(read, dtype="<f4")

    def _object(self, name: str, value: Any, *keys: str) -> Iterator[Any]:
        if not isinstance(value, dict) or value.keys() != set(keys):
            raise self.refuse(name, value, f"an object with {', '.join(keys)}")
        return (value[key] for key in keys)

    def _logprobs(self, name: str, value: Any) -> dict[str, Any]:
        """Sampled ids, ranks, and the columns padded to one width with -inf."""
        sampled, ids, values, ranks = self._object(name, value, "sampled", "ids", "values", "ranks")
        columns = self._rows(f"{name}.ids", ids, lambda row: self._ints(f"{name}.ids", row))
        entries = self._rows(f"{name}.values", values, lambda row: row)
        width = max(map(len, columns))
        token_ids = np.zeros((self.rows, width), dtype=np.int64)
        found = np.full((self.rows, width), -np.inf, dtype=np.float32)
        for r, (own, row) in enumerate(zip(columns, entries, strict=True)):
            token_ids[r, : len(own)] = own
            found[r, : len(own)] = self._numbers(f"{name}.values", row, len(own))
        return {
            "sampled": np.array(self._ints(f"{name}.sampled", sampled, self.rows)),
            "ids": token_ids,
            "values": found,
            "ranks": np.array(self._ints(f"{name}.ranks", ranks, self.rows)),
        }

    def _given(self, name: str, value: Any) -> dict[str, Any]:
        values, ranks = self._object(name, value, "values", "ranks")
        return {
            "values": self._numbers(f"{name}.values", values, self.rows),
            "ranks": np.array(self._ints(f"{name}.ranks", ranks, self.rows)),
        }

    def _refused(self, name: str, value: Any) -> dict[str, Any]:
        keys = ("row", "field") if isinstance(value, dict) and "field" in value else ("row",)
        told = dict(zip(keys, self._object(name, value, *keys), strict=True))
        if not _is_int(told["row"]) or not 0 <= told["row"] < self.rows:
            raise self.refuse(f"{name}.row", told["row"], f"a row in [0, {self.rows})")
        return told


def _no_constant(text: str) -> float:
    raise ValueError(
        f"{text} is no JSON, allowed are null for -inf and the texts inf, -inf and nan"
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
