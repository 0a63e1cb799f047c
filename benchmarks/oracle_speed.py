"""How long the oracle takes: processor time, which is that of one thread; medians of several runs.

Run with `python benchmarks/oracle_speed.py`. Writes docs/certificate/speed.json. Goals: one row of
V = 128,256 with all parameters in 60 ms, 1,000 rows of V = 1,024 in 1 s; exit 1 beyond them.
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from aliquot.contract.accuracy import CLASSES
from aliquot.contract.batch import Batch, Request, ThinkingMarkers
from aliquot.contract.params import SamplingParams
from aliquot.oracle import bounds, pipeline

OUT = Path(__file__).parent.parent / "docs" / "certificate" / "speed.json"
ROW_MS, ROWS_MS = 60.0, 1000.0


def batch_of(rows: int, vocab_size: int) -> Batch:
    """A batch in which every parameter of every request acts."""
    params = SamplingParams(
        temperature=0.8,
        top_k=vocab_size // 2,
        top_p=0.95,
        min_p=1e-3,
        repetition_penalty=1.1,
        frequency_penalty=0.2,
        presence_penalty=0.1,
        min_tokens=99,
        eos_token_id=2,
        stop_token_ids=(5, 6),
        logit_bias={3: 1.5, 900: -2.0},
        allowed_token_ids=range(vocab_size - 9),
        bad_words=[(1, 2), (4,)],
        thinking_token_budget=5,
    )
    requests = [
        Request(
            id=str(row),
            params=params,
            prompt_token_ids=range(100),
            output_token_ids=list(range(50, 90)),
        )
        for row in range(rows)
    ]
    mask = np.full((rows, -(-vocab_size // 32)), -1, dtype=np.int32)
    mask[:, ::7] = 0x7FFFFFFF
    return Batch(
        requests=requests,
        vocab_size=vocab_size,
        grammar_bitmask=mask,
        thinking=ThinkingMarkers(start=(1,), end=(9,)),
    )


def median_ms(run: Callable[[], object], repeats: int) -> float:
    """The median processor time of a call in milliseconds, after one call to warm up."""
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(1000 * (time.process_time() - start))
    return round(statistics.median(times), 1)


def main() -> int:
    """Measure, write, print, and return the exit code."""
    rng = np.random.default_rng(0)
    row, rows = (rng.normal(size=s).astype(np.float32) for s in ((1, 128_256), (1000, 1024)))
    one, many = batch_of(1, 128_256), batch_of(1000, 1024)
    accuracy = CLASSES["float32"]
    result = {
        "law of one row, V = 128,256, all parameters, ms": median_ms(
            lambda: pipeline.run(row, one), 15
        ),
        "laws of 1,000 rows, V = 1,024, all parameters, ms": median_ms(
            lambda: pipeline.run(rows, many), 5
        ),
        "must and may of one row, V = 128,256, ms": median_ms(
            lambda: bounds.keep_bounds(row, one, accuracy=accuracy), 7
        ),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))
    times = [value for value in result.values() if isinstance(value, float)]
    return int(times[0] > ROW_MS or times[1] > ROWS_MS)


if __name__ == "__main__":
    sys.exit(main())
