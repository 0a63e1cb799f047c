"""Laws, faults, draws and result files shared by the benchmarks of aliquot.statistical."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

Floats = npt.NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "statistics"
CORPUS = ROOT / "conformance" / "corpus"
VOCAB = 128_256
RUN_ALPHA = 1e-6
SEED = 20_240_601
DRAW_CHUNK = 1 << 20


@dataclass
class Report:
    """Result file of one benchmark: where and how it ran, and what it found.

    Attributes:
        name: of the benchmark; also the name of the file.
        seed: of every random generator in it.
        results: rows, each a flat mapping.
    """

    name: str
    seed: int = SEED
    results: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def add(self, **row: Any) -> None:
        """Add a row, print it and save the file."""
        self.results.append(row)
        print(json.dumps(row), flush=True)
        self.save()

    def save(self) -> None:
        """Write docs/statistics/<name>.json."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        content = {
            "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
            "seed": self.seed,
            "seconds": round(time.monotonic() - self.started, 1),
            "machine": machine(),
            "results": self.results,
        }
        path = RESULTS / f"{self.name}.json"
        path.write_text(json.dumps(content, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """Processor, cores and versions."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions["scipy"] = scipy.__version__
    if "torch" in sys.modules:
        versions["torch"] = sys.modules["torch"].__version__
    return {"processor": _processor(), "cores": os.cpu_count(), "versions": versions}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def arguments(**defaults: Any) -> argparse.Namespace:
    """Command line: --corpus, and an option for each default given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="folder or npz with `logits`")
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args()


def normal_logits(vocab: int = VOCAB, seed: int = SEED) -> Floats:
    """Logits N(0, 1), float32 values in float64."""
    return np.random.default_rng(seed).normal(size=vocab).astype(np.float32).astype(np.float64)


def corpus_logits(path: Path) -> Floats:
    """Logits of every npz under a path that has the key `logits`, float64 [rows, vocab]."""
    files = [path] if path.is_file() else sorted(path.glob("*.npz"))
    tables = [np.load(file) for file in files]
    rows = [table["logits"].astype(np.float64) for table in tables if "logits" in table]
    if not rows:
        raise SystemExit(f"--corpus {path}: no npz file with the key `logits` there")
    return np.concatenate(rows)


def decode_logits(path: Path) -> Floats:
    """Logits of every npz under a path with the key `logits_bf16_bits`, float64 [rows, vocab]."""
    files = [path] if path.is_file() else sorted(path.glob("*.npz"))
    tables = [np.load(file) for file in files]
    bits = [table["logits_bf16_bits"] for table in tables if "logits_bf16_bits" in table]
    if not bits:
        raise SystemExit(f"--corpus {path}: no npz file with the key `logits_bf16_bits` there")
    words = np.concatenate([part.reshape(-1, part.shape[-1]) for part in bits]).astype(np.uint32)
    return (words << 16).view(np.float32).astype(np.float64)


def softmax(logits: Floats) -> Floats:
    """Law of a row."""
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def tempered(logits: Floats, temperature: float) -> Floats:
    """Law at another temperature."""
    return softmax(logits / temperature)


def without_tail(logits: Floats, mass: float) -> Floats:
    """Law that lost its least likely tokens of total mass at most ``mass``."""
    law = softmax(logits)
    order = np.argsort(law, kind="stable")
    law[order[np.cumsum(law[order]) <= mass]] = 0
    return np.asarray(law / law.sum())


def odd_even(logits: Floats, bias: float) -> Floats:
    """Law whose odd ids are ``bias`` likelier and whose even ids are ``bias`` less likely."""
    law = softmax(logits) * np.where(np.arange(len(logits)) % 2, 1 + bias, 1 - bias)
    return np.asarray(law / law.sum())


def total_variation(left: Floats, right: Floats) -> float:
    """Total-variation distance of two laws."""
    return 0.5 * float(np.abs(left - right).sum())


def sampler(law: Floats) -> Callable[[int, np.random.Generator], npt.NDArray[np.int64]]:
    """Float64 inverse-CDF sampler of a law: a function of count and generator."""
    support = np.flatnonzero(law)
    upper = np.cumsum(law[support])
    upper /= upper[-1]

    def draw(count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        parts = [min(DRAW_CHUNK, count - i) for i in range(0, count, DRAW_CHUNK)]
        places = [np.searchsorted(upper, rng.random(n), side="right") for n in parts]
        return np.asarray(support[np.concatenate(places)])

    return draw
