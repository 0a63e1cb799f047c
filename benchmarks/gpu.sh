#!/usr/bin/env bash
# Checks and times the sampler on one CUDA GPU, in at most eight minutes. Run from the repository's root:
#   benchmarks/gpu.sh [FOLDER]    the results go to FOLDER, docs/benchmark if none is given
# Needs Python 3.11 or newer, an NVIDIA driver and the CUDA toolkit (FlashInfer compiles its kernels at first use).
set -euo pipefail
out=${1:-docs/benchmark}
within() { timeout $((480 - SECONDS)) "$@"; }

venv=$(mktemp -d)/venv
python3 -m venv "$venv"
within "$venv/bin/pip" install --quiet -e '.[cuda]'
"$venv/bin/python" -c '
import sys, torch
torch.cuda.is_available() or sys.exit("benchmarks/gpu.sh: torch sees no CUDA device, allowed is a machine with one")'

within "$venv/bin/python" -m pytest -q -m flashinfer tests/fast
within "$venv/bin/python" benchmarks/sampler_cuda.py --out "$out"
within "$venv/bin/aliquot" run --backend aliquot.conformance.adapters.fast:FastCudaBackend --tier pr -n 0 \
    --report "$out/suite_cuda"
