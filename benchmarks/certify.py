"""The certificate: the oracle against an independent 50-digit evaluation on generated rows.

Run with `nox -s certify`, or `python benchmarks/certify.py --rows N`. Writes
docs/certificate/result.json and docs/certificate.md. Exit 1 when a claim does not hold.
"""

import argparse
import json
import math
import platform
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import oracle_mpmath
from mpmath import mpf

from aliquot.contract.accuracy import CLASSES
from aliquot.contract.batch import Batch, Request, ThinkingMarkers
from aliquot.contract.params import SamplingParams
from aliquot.oracle import bounds, pipeline
from aliquot.oracle.softmax import log_softmax

DOCS = Path(__file__).parent.parent / "docs"
ROWS, BLOCK, SEED = 100_000, 250, 20_250_701
LOGPROB_UNITS = 4.0
SIZES = (1, 2, 3, 4, 5, 8, 12, 16, 33, 64)
SHARES = (0.02, 0.14, 0.14, 0.15, 0.15, 0.15, 0.13, 0.1, 0.015, 0.005)
KINDS = ("normal", "wide", "offset", "ties", "near ties", "flat", "extreme", "bfloat16")


@dataclass
class Tally:
    """What was found; errors in units of 2^-53."""

    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    raw_logprob: float = 0.0
    held_logprob: float = 0.0
    law_sum: float = 0.0
    bound_share: float = 0.0
    keep_differs: int = 0
    keep_unexplained: int = 0
    outside_may: int = 0
    undecided_rows: int = 0
    greedy_differs: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        largest = {"raw_logprob", "held_logprob", "law_sum", "bound_share"}
        mine, theirs = vars(self), vars(other)
        return Tally(
            **{k: max(v, theirs[k]) if k in largest else v + theirs[k] for k, v in mine.items()}
        )

    def claims(self) -> dict[str, bool]:
        """Each claim and whether it holds."""
        return {
            "raw logprobs within 4 * 2^-53 relative": self.raw_logprob <= LOGPROB_UNITS,
            "logprobs of processed rows within 4 * 2^-53 relative": self.held_logprob
            <= LOGPROB_UNITS,
            "laws sum to 1 within 1e-15 relative": self.law_sum * 2.0**-53 <= 1e-15,
            "end-to-end logprobs inside the float64 bounds": self.bound_share <= 1,
            "keep sets equal unless the margin is below the bound": self.keep_unexplained == 0,
            "no kept token outside may, no must token dropped": self.outside_may == 0,
            "greedy ids equal unless the margin is below the bound": self.greedy_differs == 0,
        }


# Generated rows


def logits_of(kind: str, size: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """A row of float32 logits of a kind."""
    normal = rng.normal(size=size)
    rows = {
        "normal": normal,
        "wide": 12 * normal,
        "offset": 3 * normal + rng.choice([-500.0, 30.0, 1e4]),
        "ties": rng.integers(-2, 3, size=size) / 2,
        "near ties": 1 + rng.integers(0, 3, size=size) * 2.0**-23,
        "flat": np.full(size, rng.normal()),
        "extreme": rng.choice([-3e38, -1e30, -1e5, -1e-30, 0.0, 1e-40, 1.0, 88.7], size=size),
        "bfloat16": 4 * normal,
    }
    row = rows[kind].astype(np.float32)
    if kind == "bfloat16":
        row = (row.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return row


def request_of(size: int, rng: np.random.Generator) -> Request:
    """A request with a random choice of every parameter, at least one token of it surviving."""

    def tokens(most: int) -> list[int]:
        return rng.integers(0, size, size=rng.integers(0, most + 1)).tolist()

    def sometimes(value: Any, other: Any, share: float = 0.3) -> Any:
        return value if rng.random() < share else other

    p = rng.choice([0.1, 0.25, 0.5, 0.75, 0.9, 0.999, max(rng.random(), 1e-6)])
    params = SamplingParams(
        temperature=float(rng.choice([0.0, 1.0, 1.0, 0.7, 0.05, 3.0, 1.5])),
        top_k=sometimes(int(rng.integers(-1, size + 2)), 0),
        top_p=sometimes(float(p), 1.0, 0.6),
        min_p=sometimes(float(rng.choice([0.05, 0.5, 1.0, rng.random()])), 0.0),
        repetition_penalty=sometimes(float(rng.choice([1.1, 0.8, 2.0])), 1.0),
        frequency_penalty=sometimes(float(rng.uniform(-2, 2)), 0.0),
        presence_penalty=sometimes(float(rng.uniform(-2, 2)), 0.0),
        min_tokens=sometimes(3, 0),
        eos_token_id=sometimes(0, None),
        logit_bias=sometimes({t: float(rng.uniform(-120, 120)) for t in tokens(2)}, {}),
        allowed_token_ids=sometimes(sorted({size - 1, *tokens(size)}), None, 0.15),
        bad_words=sometimes([[*tokens(1), int(rng.integers(0, size))]], ()),
        thinking_token_budget=sometimes(int(rng.integers(0, 3)), None, 0.2),
    )
    return Request(id="row", params=params, prompt_token_ids=tokens(4), output_token_ids=tokens(5))


def batch_of(block: int, rows: int) -> tuple[npt.NDArray[np.float32], Batch, list[str]]:
    """Block `block` of generated rows: logits `[rows, V]`, their batch and kinds."""
    rng = np.random.default_rng([SEED, block])
    size = int(rng.choice(SIZES, p=SHARES))
    kinds = rng.choice(KINDS, size=rows).tolist()
    logits = np.stack([logits_of(kind, size, rng) for kind in kinds])
    bits = rng.integers(-(2**31), 2**31, size=(rows, -(-size // 32))).astype(np.int32)
    bits[rng.random(rows) < 0.8] = -1
    batch = Batch(
        requests=[request_of(size, rng) for _ in range(rows)],
        vocab_size=size,
        logprobs_mode="processed_logprobs",
        grammar_bitmask=bits,
        thinking=ThinkingMarkers(start=(0,), end=(size - 1,)) if size > 1 else None,
    )
    return logits, batch, kinds


def with_law(
    logits: npt.NDArray[np.float32], batch: Batch, kinds: list[str]
) -> tuple[npt.NDArray[np.float32], Batch, list[str]]:
    """The rows of a block that have a law; masks may leave nothing of the others."""
    assert batch.grammar_bitmask is not None
    while True:
        try:
            pipeline.run(logits, batch)
            return logits, batch, kinds
        except pipeline.RowError as error:
            keep = [row for row in range(len(batch)) if row != error.row]
            logits, kinds = logits[keep], [kinds[row] for row in keep]
            batch = replace(
                batch,
                requests=[batch.requests[row] for row in keep],
                grammar_bitmask=batch.grammar_bitmask[keep],
                all_greedy=None,
                all_random=None,
            )


# Comparison


def certify_block(block: int, rows: int = BLOCK) -> Tally:
    """The tally of one block."""
    logits, batch, kinds = with_law(*batch_of(block, rows))
    if not len(batch):
        return Tally()
    outcome = pipeline.run(logits, batch)
    keep = bounds.keep_bounds(logits, batch, accuracy=CLASSES["float64"])
    values = bounds.value_bounds(logits, batch, accuracy=CLASSES["float64"])
    got = Compared(outcome, keep, values, log_softmax(outcome.raw), log_softmax(outcome.filtered))
    tallies = (
        compare(got, row, oracle_mpmath.evaluate(logits[row], request, batch, row))
        for row, request in enumerate(batch.requests)
    )
    return replace(total(tallies), kinds=Counter(kinds))


@dataclass(frozen=True)
class Compared:
    """What the oracle says of a block."""

    outcome: pipeline.Outcome
    keep: bounds.KeepBounds
    values: bounds.ValueBounds
    raw_logprobs: pipeline.Rows
    logprobs: pipeline.Rows


def compare(got: Compared, row: int, exact: oracle_mpmath.Exact) -> Tally:
    """One row of the oracle against its 50-digit evaluation."""
    filtered = got.outcome.filtered[row]
    as_held: oracle_mpmath.Logits = [mpf(float(x)) if x > -np.inf else None for x in filtered]
    tally = Tally(rows=1)
    tally.raw_logprob = worst(got.raw_logprobs[row], oracle_mpmath.logprobs(exact.raw))
    tally.held_logprob = worst(got.logprobs[row], oracle_mpmath.logprobs(as_held))
    tally.law_sum = abs(math.fsum([*got.outcome.law[row], -1.0])) * 2**53
    tally.greedy_differs = int(
        got.outcome.greedy_ids[row] != exact.greedy
        and exact.greedy_margin > stated_bound(got.outcome.penalised[row])
    )
    if got.outcome.law[row].max() == 1.0 and exact.margin == mpf("inf"):
        return tally
    kept = np.array([x is not None for x in exact.filtered])
    must, may = got.keep.must[row], got.keep.may[row]
    tally.undecided_rows = int((may & ~must).any())
    tally.outside_may = int((kept & ~may).any() or (must & ~kept).any())
    tally.keep_differs = int((kept != (filtered > -np.inf)).any())
    tally.keep_unexplained = int(tally.keep_differs and exact.margin > stated_bound(filtered))
    if not tally.keep_differs:
        tally.bound_share = end_to_end(got, row, exact)
    return tally


def stated_bound(filtered: pipeline.Rows) -> float:
    """Below this margin a decision in float64 may differ: 8 roundings and 4 of the largest logit's size."""
    largest = float(np.abs(filtered[filtered > -np.inf]).max())
    return (8 + 4 * largest) * 2.0**-53


def worst(got: pipeline.Rows, wanted: oracle_mpmath.Logits) -> float:
    """The largest relative error of a row in units of 2^-53; masked tokens must be -inf."""
    errors = [0.0]
    for value, exact in zip(got.tolist(), wanted, strict=True):
        if (exact is None) != (value == -math.inf):
            return math.inf
        if exact is not None:
            errors.append(oracle_mpmath.relative_error(value, exact, got.size))
    return max(errors)


def end_to_end(got: Compared, row: int, exact: oracle_mpmath.Exact) -> float:
    """The 50-digit logprobs' distance from the oracle's, as a share of the float64 bound, at most."""
    lo, hi = got.values.logprobs.lo[row], got.values.logprobs.hi[row]
    shares = [0.0]
    for token, wanted in enumerate(oracle_mpmath.logprobs(exact.filtered)):
        value = float(got.logprobs[row, token])
        ends_at_certainty = wanted is not None and wanted > value and hi[token] == 0
        if wanted is not None and lo[token] > -np.inf and not ends_at_certainty:
            room = hi[token] - value if wanted > value else value - lo[token]
            shares.append(float(abs(wanted - mpf(value)) / mpf(max(room, 5e-324))))
    return max(shares)


def total(tallies: Iterable[Tally]) -> Tally:
    """All tallies together."""
    return reduce(Tally.__add__, tallies, Tally())


# Writing


def page(result: dict[str, Any]) -> str:
    """The certificate as Markdown."""
    found = result["found"]
    claims = [f"| {name} | {'holds' if ok else 'FAILS'} |" for name, ok in result["claims"].items()]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found["kinds"].items()))
    return "\n".join(
        [
            "# Certificate of the oracle",
            "",
            "Made by `nox -s certify` (`benchmarks/certify.py`); the numbers are in `certificate/result.json`.",
            "The oracle's float64 pipeline was compared with a 50-digit evaluation (mpmath) that shares no",
            f"code with it, on {found['rows']:,} generated rows of 1 to {max(SIZES)} tokens with every",
            f"parameter set at random: {kinds}.",
            "",
            "| claim | |",
            "|---|---|",
            *claims,
            "",
            "| measured | |",
            "|---|---|",
            f"| largest error of a raw logprob, in 2^-53 relative | {found['raw_logprob']:.2f} |",
            f"| largest error of a logprob of a processed row, the same | {found['held_logprob']:.2f} |",
            f"| largest distance of a law's sum from 1, in 2^-53 | {found['law_sum']:.2f} |",
            f"| largest end-to-end logprob error, as a share of the float64 bound | {found['bound_share']:.3f} |",
            f"| rows whose keep set differs within the margin | {found['keep_differs']:,} |",
            f"| rows with undecided tokens in float64 | {found['undecided_rows']:,} |",
            "",
            "A logprob of a *processed* row is compared with the exact log-softmax of that row as float64 holds it:",
            "penalties and temperature round before, which the end-to-end row measures. A decision may differ",
            "when its exact margin is below (8 + 4 max|l|) * 2^-53, l the processed logits. Logprobs so close to 0",
            "that weights underflow are compared up to one smallest number, 2^-1074, for each token.",
            "",
            f"Python {result['python']}, NumPy {result['numpy']}, mpmath {result['mpmath']},",
            f"{result['machine']}, seed {result['seed']}.",
            "",
            *measured(),
        ]
    )


def measured() -> list[str]:
    """What the other two benchmarks of the oracle found, as Markdown lines."""
    folder = DOCS / "certificate"
    speed, sharp = (
        json.loads((folder / name).read_text("utf-8")) for name in ("speed.json", "sharpness.json")
    )
    times = [f"| {what} | {ms:g} |" for what, ms in speed.items() if isinstance(ms, float)]
    edges = [
        f"| {name} | {cell['undecided']:g} | {cell['torch error']:g} | {cell['bound']:g} | {cell['ratio']:g} |"
        for name, cell in sharp.items()
        if name.startswith("p = ")
    ]
    return [
        "## Speed",
        "",
        "Processor time of one thread, medians (`benchmarks/oracle_speed.py`).",
        "",
        "| what | |",
        "|---|---|",
        *times,
        "",
        "## Sharpness of the bounds",
        "",
        f"Medians over {sharp['rows']} rows of N(0, 1), V = {sharp['vocab']:,}, accuracy class float32",
        "(`benchmarks/oracle_sharpness.py`): tokens whose stay is undecided; where the mass crosses p, the error of",
        f"torch's softmax and cumsum on the descending row (torch {sharp['torch']}) and the oracle's bound, in 2^-24.",
        "",
        "| top-p | undecided tokens | error of torch | bound | bound / error |",
        "|---|---|---|---|---|",
        *edges,
        "",
    ]


def write(result: dict[str, Any], out: Path) -> None:
    """Write the result and the page."""
    folder = out / "certificate"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    (out / "certificate.md").write_text(page(result), "utf-8")


def main() -> int:
    """Certify, write, and return the exit code; with --page write the page of the last result anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="certify nothing, write the page")
    parser.add_argument("--rows", type=int, default=ROWS, help="least number of rows")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the page")
    arguments = parser.parse_args()
    if arguments.page:
        write(json.loads((DOCS / "certificate" / "result.json").read_text("utf-8")), arguments.out)
        return 0
    tally, block = Tally(), 0
    with ProcessPoolExecutor(arguments.workers) as pool:
        while tally.rows < arguments.rows:
            tally += total(pool.map(certify_block, range(block, block + 20)))
            block += 20
            print(f"{tally.rows:,} rows", file=sys.stderr)
    result = {
        "found": {**vars(tally), "kinds": dict(tally.kinds)},
        "claims": tally.claims(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "mpmath": mpmath.__version__,
        "machine": platform.machine(),
        "seed": SEED,
    }
    write(result, arguments.out)
    print(page(result))
    return 0 if all(tally.claims().values()) else 1


if __name__ == "__main__":
    sys.exit(main())
