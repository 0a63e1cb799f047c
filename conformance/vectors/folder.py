"""An export as its judge reads it: the manifest, the files' hashes and the index of the cases."""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aliquot
from aliquot.conformance.tiers import TIERS
from aliquot.conformance.vectors.export import FILES, FORMAT, Declared, sha256
from aliquot.contract.accuracy import CLASSES
from aliquot.contract.profile import Profile


class FolderError(Exception):
    """A folder that holds no usable export; the message is one line that names the file."""


@dataclass(frozen=True)
class Folder:
    """The cases by number, and by check and digest the cases that ask the same, in the order of asking."""

    declared: Declared
    cases: dict[int, dict[str, Any]]
    asked: dict[tuple[str, str], list[dict[str, Any]]]


def read(folder: Path) -> Folder:
    """Read an export and see that no file was changed; raises FolderError."""
    manifest = _manifest(folder / "manifest.json")
    for name in FILES:
        _require_unchanged(folder / name, manifest["sha256"][name])
    cases: dict[int, dict[str, Any]] = {}
    asked: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in (folder / "cases.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        cases[case["case"]] = case
        asked[case["check"], case["digest"]].append(case)
    return Folder(_declared(folder / "manifest.json", manifest), cases, dict(asked))


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text("utf-8"))
        found = manifest["format"], manifest["aliquot"]
        missing = set(FILES) - set(manifest["sha256"])
    except OSError as error:
        raise FolderError(f"{path}: {error.strerror}, allowed is an export's folder") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{path}: no manifest of an export: {error!r}") from error
    for name, value, allowed in zip(
        ("format", "aliquot"), found, (FORMAT, aliquot.__version__), strict=True
    ):
        if value != allowed:
            raise FolderError(f"{path}: {name} is {value!r}, allowed is {allowed!r}")
    if missing:
        raise FolderError(f"{path}: sha256 has no {', '.join(sorted(missing))}")
    return dict(manifest)


def _require_unchanged(path: Path, wanted: str) -> None:
    try:
        found = sha256(path)
    except OSError as error:
        raise FolderError(f"{path}: {error.strerror}, the manifest names it") from error
    if found != wanted:
        raise FolderError(f"{path}: sha256 is {found}, allowed is the manifest's {wanted}")


def _declared(path: Path, manifest: dict[str, Any]) -> Declared:
    try:
        declared = Declared(
            profile=Profile(**manifest["profile"]),
            accuracy=CLASSES[manifest["accuracy"]].name,
            tier=TIERS[manifest["tier"]].name,
            seed=int(manifest["seed"]),
            only=manifest["only"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(
            f"{path}: profile, accuracy, tier, seed or only unknown: {error}"
        ) from error
    return declared
