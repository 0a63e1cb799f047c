"""Write the suites' cases into a folder that any program can read."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import aliquot
from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import plain
from aliquot.conformance.run import Listener
from aliquot.conformance.vectors import lines
from aliquot.conformance.vectors.archive import Archive
from aliquot.conformance.vectors.expected import Expected
from aliquot.conformance.vectors.judge import NOT_IN_DATA
from aliquot.conformance.vectors.question import REPLAYS, Question, request_of, update_of
from aliquot.conformance.vectors.recorder import Entry, Recorder
from aliquot.conformance.vectors.run import Setting, run
from aliquot.contract.accuracy import CLASSES
from aliquot.contract.batch import LOGPROBS_MODES
from aliquot.contract.profile import Profile
from aliquot.reports.results import RunResults, Verdict

FORMAT = "aliquot-vectors/1"
FILES = ("cases.jsonl", "cases.txt", "arrays.npz", "arrays.json", "schema.json")
STORED = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}


class ExportError(Exception):
    """Vectors that cannot be exported; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the vectors hold for: a profile, an accuracy class, and the tier and seed of the suites."""

    profile: Profile
    accuracy: str
    tier: str
    seed: int
    only: str | None = None

    def capabilities(self, **more: Any) -> Capabilities:
        """A backend that offers everything under this declaration, but for what `more` says."""
        offered: dict[str, Any] = {
            "name": "oracle",
            "dtypes": tuple(STORED),
            "logprobs_modes": LOGPROBS_MODES,
            "validates": True,
            "stateful": True,
            "given_logprobs": True,
            "noise": "replayable",
        }
        return Capabilities(accuracy=self.accuracy, profile=self.profile, **{**offered, **more})


def record(declared: Declared, listener: Listener) -> list[Entry]:
    """The cases that the suites ask, with the oracle's answers.

    Raises ExportError when the oracle does not pass its own check: then the suites are at fault.
    """
    recorder = Recorder(declared.profile)
    setting = Setting(
        capabilities=declared.capabilities(),
        tier=declared.tier,
        seed=declared.seed,
        only=declared.only,
    )
    _require_pass(run(recorder, setting, listener))
    return recorder.entries


def _require_pass(results: RunResults) -> None:
    for check in results.checks:
        if check.verdict in (Verdict.FAIL, Verdict.ERROR):
            raise ExportError(
                f"the oracle itself ends as {check.verdict} in {check.id}: {check.reason}"
            )


def write(entries: list[Entry], declared: Declared, folder: Path) -> None:
    """Write the cases into `folder`, which is made if needed; the manifest comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = Archive()
    expected = Expected(archive, declared.profile, CLASSES[declared.accuracy])
    cases = [_case(entry, archive, expected) for entry in entries]
    _after(cases)
    archive.write(folder / "arrays.npz")
    _write_lines(folder / "cases.jsonl", (json.dumps(case) for case in cases))
    _write_lines(folder / "cases.txt", lines.of(cases, archive.table))
    _write_lines(folder / "arrays.json", [json.dumps(archive.table, indent=0)])
    schema = files("aliquot.conformance.vectors").joinpath("schema.json").read_text("utf-8")
    (folder / "schema.json").write_text(schema, encoding="utf-8")
    manifest = {
        "format": FORMAT,
        "aliquot": aliquot.__version__,
        "tier": declared.tier,
        "seed": declared.seed,
        "only": declared.only,
        "accuracy": declared.accuracy,
        "profile": asdict(declared.profile),
        "cases": len(cases),
        "left_out": NOT_IN_DATA,
        "sha256": {name: sha256(folder / name) for name in FILES},
    }
    _write_lines(folder / "manifest.json", [json.dumps(manifest, indent=1)])


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_lines(path: Path, texts: Iterable[str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def _case(entry: Entry, archive: Archive, expected: Expected) -> dict[str, Any]:
    """One case as JSON values that name arrays."""
    question, case = entry.question, entry.question.case
    told: dict[str, Any] = {
        "case": entry.number,
        "check": entry.check,
        "digest": question.digest,
        "vocab_size": case.vocab_size,
        "dtype": case.dtype,
        "asks": {kind: _ask(entry, kind, archive) for kind in entry.asks},
    }
    if case.batch().wants_logprobs:
        told["logprobs_mode"] = case.mode
    if case.thinking is not None:
        told["thinking"] = plain(asdict(case.thinking))
    if question.step is not None:
        told |= {"step": question.step, "update": update_of(question.update)}
        assert entry.ids is not None
        told["next_token_ids"] = entry.ids.tolist()
    if entry.refused:
        told["refused"] = entry.refused
    rows = [_row(question, r, archive) for r in range(len(case.requests))]
    told["rows"] = [
        row | {"expected": wanted} for row, wanted in zip(rows, expected.of(entry), strict=True)
    ]
    return told


def _ask(entry: Entry, kind: str, archive: Archive) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if entry.asks[kind] > 1 or kind in ("draws", *REPLAYS):
        told["draws"] = entry.asks[kind]
    noise = entry.question.noise
    if kind in REPLAYS and noise is not None:
        told["noise"] = archive.add(np.moveaxis(noise, 1, 0))
    return told


def _row(question: Question, r: int, archive: Archive) -> dict[str, Any]:
    case = question.case
    told: dict[str, Any] = {"logits": archive.add(_stored(case.logits[r], case.dtype))}
    told |= {name: value for name, value in request_of(case.requests[r]).items() if value}
    if case.grammar_bitmask is not None:
        told["grammar"] = archive.add(case.grammar_bitmask[r].astype(np.uint32))
    if question.tokens is not None:
        told["given"] = int(question.tokens[r])
    return told


def _stored(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[Any]:
    """Logits in the case's dtype; bfloat16 as the upper 16 bits of float32."""
    if dtype == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(STORED[dtype])


def _after(cases: list[dict[str, Any]]) -> None:
    """Name for each later step of a history the case of the step before."""
    last: dict[str, int] = {}
    for case in cases:
        if "step" in case:
            if case["step"]:
                case["after"] = last[case["check"]]
            last[case["check"]] = case["case"]
