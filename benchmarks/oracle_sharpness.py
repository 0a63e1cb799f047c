"""How sharp the bounds are: undecided tokens, and the bound on the mass against what torch's float32 loses.

Run with `python benchmarks/oracle_sharpness.py [--rows N]`. Rows are N(0, 1), V = 128,256. For each
top-p: the median number of undecided tokens; at the token where the exact mass crosses p, torch's
error (softmax and cumsum of the descending row, one thread) and half the width of the oracle's
interval, both in units of 2^-24. Also torch's worst error on real logits, where its lanes lose
small terms. Writes docs/certificate/sharpness.json. Exit 1 when a median exceeds 3 tokens or the
bound 8 times the error at the median.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from aliquot.contract.accuracy import CLASSES
from aliquot.contract.batch import Batch, Request
from aliquot.contract.params import SamplingParams
from aliquot.oracle import bounds
from aliquot.oracle.intervals import Arithmetic, Held

DOCS = Path(__file__).parent.parent / "docs"
CORPUS = Path(__file__).parent.parent / "conformance" / "corpus"
VOCAB, UNIT, P = 128_256, 2.0**-24, (0.5, 0.9, 0.99)
FLOAT32 = CLASSES["float32"]
MOST_UNDECIDED, MOST_RATIO = 3, 8


def masses(row: npt.NDArray[np.float32]) -> tuple[Any, Any]:
    """The mass before each token of the descending row: exactly, and by torch in float32."""
    ordered = torch.from_numpy(row).sort(descending=True).values
    weights = torch.exp(ordered.double() - ordered[0].double())
    exact = torch.cumsum(weights, 0) / weights.sum()
    single = torch.cumsum(torch.softmax(ordered, 0), 0)
    return exact, single.double()


def at_the_edge(row: npt.NDArray[np.float32], p: float) -> tuple[int, float, float]:
    """Undecided tokens, torch's error and the half width of the bound where the mass crosses p."""
    request = Request(id="row", params=SamplingParams(top_p=p))
    kept = bounds.keep_bounds(
        row[None], Batch(requests=[request], vocab_size=row.size), accuracy=FLOAT32
    )
    exact, single = masses(row)
    edge = int((exact < p).sum())
    held = Held.around(row.astype(np.float64), np.zeros(row.size))
    mass = bounds.preceding_mass(held, "keep_all", Arithmetic(FLOAT32))
    token = np.argsort(-row, kind="stable")[edge + 1]
    width = float(mass.hi[token] - mass.lo[token]) / 2
    return int(kept.undecided.sum()), abs(float(single[edge] - exact[edge])) / UNIT, width / UNIT


def on_real_rows() -> float:
    """Torch's worst error of the running mass on real float32 logits, in units of 2^-24."""
    rows = np.load(CORPUS / "prompts_f32.npz")["logits"]
    return max(float((single - exact).abs().max()) for exact, single in map(masses, rows)) / UNIT


def main() -> int:
    """Measure, write, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = np.random.default_rng(1).normal(size=(arguments.rows, VOCAB)).astype(np.float32)
    result: dict[str, Any] = {"rows": arguments.rows, "vocab": VOCAB, "torch": torch.__version__}
    good = True
    for p in P:
        found = np.array([at_the_edge(row, p) for row in rows])
        undecided, error, width = np.median(found, axis=0).round(3).tolist()
        ratio = round(width / error, 2)
        result[f"p = {p}"] = {
            "undecided": undecided, "torch error": error, "bound": width, "ratio": ratio,
            "torch error, largest": round(float(found[:, 1].max()), 2),
        }  # fmt: skip
        good &= undecided <= MOST_UNDECIDED and ratio <= MOST_RATIO
    result["torch error on real rows, largest"] = round(on_real_rows(), 1)
    (DOCS / "certificate").mkdir(parents=True, exist_ok=True)
    (DOCS / "certificate" / "sharpness.json").write_text(
        json.dumps(result, indent=1) + "\n", "utf-8"
    )
    print(json.dumps(result, indent=1))
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
