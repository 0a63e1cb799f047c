"""Real logits: the packaged subset, or a larger file of the same layout read by path."""

import json
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

PACKAGED = ("prompts_f32", "decode_bf16")


class CorpusError(ValueError):
    """A corpus that is not there or not of the expected layout."""


@dataclass(frozen=True)
class RealRow:
    """One decode step: `logits` float32 [V], exact in `dtype`, and the ids that led to it."""

    name: str
    logits: npt.NDArray[np.float32]
    dtype: str
    prompt_token_ids: tuple[int, ...] = ()
    output_token_ids: tuple[int, ...] = ()


@cache
def rows(corpus: str = "prompts_f32") -> tuple[RealRow, ...]:
    """The rows of a packaged corpus, or of the npz file at the path `corpus`.

    A file holds `logits` (float32, [.., V]) or `logits_bf16_bits` (uint16, [.., V]). Raises CorpusError naming
    the file and what is missing.
    """
    if corpus in PACKAGED:
        return _packaged(corpus)
    logits, dtype = _load(Path(corpus))
    stem = Path(corpus).stem
    return tuple(RealRow(f"{stem}[{i}]", row, dtype) for i, row in enumerate(logits))


def _packaged(corpus: str) -> tuple[RealRow, ...]:
    folder = files("aliquot.conformance.corpus")
    histories = json.loads(folder.joinpath("real.json").read_text("utf-8"))[corpus]
    with as_file(folder.joinpath(f"{corpus}.npz")) as path:
        logits, dtype = _load(path)
    return tuple(
        RealRow(
            f"{corpus}[{i}]",
            row,
            dtype,
            tuple(history["prompt_token_ids"]),
            tuple(history["output_token_ids"]),
        )
        for i, (row, history) in enumerate(zip(logits, histories, strict=True))
    )


def _load(path: Path) -> tuple[npt.NDArray[np.float32], str]:
    try:
        with _archive(path) as data:
            if "logits" in data:
                logits, dtype = data["logits"].astype(np.float32), "float32"
            elif "logits_bf16_bits" in data:
                logits, dtype = widen_bfloat16(data["logits_bf16_bits"]), "bfloat16"
            else:
                raise CorpusError(
                    f"corpus {path}: holds {', '.join(data) or 'nothing'}, "
                    "allowed are arrays named logits or logits_bf16_bits"
                )
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, CorpusError):
            raise
        raise CorpusError(
            f"corpus {path}: {error}; allowed are {', '.join(PACKAGED)} or the path of an npz file"
        ) from error
    if logits.ndim == 0 or not logits.size:
        raise CorpusError(f"corpus {path}: logits have shape {logits.shape}, allowed is [.., V]")
    return logits.reshape(-1, logits.shape[-1]), dtype


def _archive(path: Path) -> NpzFile:
    found = np.load(path, allow_pickle=False)
    if not isinstance(found, NpzFile):
        raise CorpusError(f"corpus {path}: is no npz file, allowed is one with logits")
    return found


def widen_bfloat16(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """The float32 values of bfloat16 bit patterns, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
