#!/usr/bin/env bash
# Checks and times the sampler on one CUDA GPU, in at most eight minutes. Run from the repository's root.
# Needs Python 3.11 or newer, an NVIDIA driver and the CUDA toolkit (FlashInfer compiles its kernels at first use).
set -euo pipefail
venv=$(mktemp -d)/venv
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet -e '.[cuda]'
"$venv/bin/python" -c 'import torch; assert torch.cuda.is_available(), "no CUDA device: nothing to check here"'
timeout 420 "$venv/bin/python" benchmarks/sampler_cuda.py --device cuda --out "${1:-docs/benchmark}"
