"""Real logits, and the benchmarks' modules, for the oracle's tests."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
CORPUS = ROOT / "conformance" / "corpus"


@pytest.fixture(scope="session")
def real_rows():
    """Real logits as float32: the prompts' rows and the bfloat16 decode steps."""
    bits = np.load(CORPUS / "decode_bf16.npz")["logits_bf16_bits"]
    widened = (bits.astype(np.uint32) << 16).view(np.float32)
    return np.load(CORPUS / "prompts_f32.npz")["logits"], widened
