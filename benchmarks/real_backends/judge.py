"""Judge an installed release: its witnesses, the suite with its known failures, the accuracy class that holds it.

`python benchmarks/real_backends/judge.py vllm-0.32.0` writes to out/vllm-0.32.0; further arguments go to
`aliquot run`. Exit code 1 if a witness shows its fault no more, or the suite finds what is not known.
"""

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import accuracy

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FLOAT64_NOISE = "aliquot.conformance.adapters.vllm:VllmFloat64Noise"


def main(name: str, *arguments: str) -> int:
    """Judge the release; for vLLM also its draw with float64 noise, which can be replayed."""
    backend = name.partition("-")[0]
    out = ROOT / "out" / name
    red = judged(backend, FOLDER / f"known-{name}.toml", out, *arguments)
    if backend == "vllm":
        known = FOLDER / "known-vllm-float64-noise.toml"
        beside = ROOT / "out" / f"{name}-float64-noise"
        red |= judged(FLOAT64_NOISE, known, beside, "--only", "DRAW", *arguments)
    (out / "accuracy.json").write_text(json.dumps(accuracy.search(backend), indent=1) + "\n")
    return red


def judged(spec: str, known: Path, out: Path, *arguments: str) -> int:
    """Run the witnesses and the suite; 0 if both end as known."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    entries = tomllib.loads(known.read_text())["known"]
    shown = [witness(link) for link in sorted({entry["link"] for entry in entries})]
    (out / "witnesses.json").write_text(json.dumps(shown, indent=1) + "\n")
    command = ["aliquot", "run", "--backend", spec, "--tier", "pr", "--known", known]
    code = subprocess.run([*command, "--report", out, *arguments]).returncode
    return code or int(not all(told["shows"] for told in shown))


def witness(link: str) -> dict[str, Any]:
    """What a witness prints, and whether it shows its fault."""
    told = (ast.get_docstring(ast.parse((ROOT / link).read_text())) or "").splitlines()[0]
    run = subprocess.run([sys.executable, ROOT / link], capture_output=True, text=True)
    said = dict(line.split(": ", 1) for line in run.stdout.splitlines() if ": " in line)
    if not {"wanted", "got"} <= set(said):
        sys.exit(f"{link}: ended with {run.returncode}: {run.stderr.strip()[-500:]}")
    found = {"script": link, "told": told, "wanted": said["wanted"], "got": said["got"]}
    print(f"{link}: {told}\n  wanted: {found['wanted']}\n  got: {found['got']}", flush=True)
    return {**found, "shows": run.returncode == 0}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
