"""Which accuracy class holds a backend's values: its logprobs, filters and penalties judged under each in turn."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from aliquot.conformance.backend import Backend, load
from aliquot.conformance.run import run
from aliquot.reports.results import CheckResult, Verdict

CLASSES = ("float64", "float32-wide-sum", "float32", "float32-lanes", "float32-sequential")
CHECKS = ("LOGP0", "MINP", "TOPP", "PEN")
SPEC, CLASS = "ALIQUOT_ACCURACY_BACKEND", "ALIQUOT_ACCURACY_CLASS"


def reclassed() -> Backend:
    """The backend named in the environment, its accuracy class replaced."""
    backend = load(os.environ[SPEC])
    backend.capabilities = replace(backend.capabilities, accuracy=os.environ[CLASS])
    return backend


def search(spec: str) -> dict[str, dict[str, Any]]:
    """Judge the classes, the strictest first, up to the first that holds: checks decided and checks failed."""
    os.environ[SPEC] = spec
    found: dict[str, dict[str, Any]] = {}
    for name in CLASSES:
        os.environ[CLASS] = name
        checks = [check for check in _checks() if check.verdict is not Verdict.UNSUPPORTED]
        failed = [check.id for check in checks if check.verdict is Verdict.FAIL]
        found[name] = {"decided": len(checks), "failed": failed}
        print(f"accuracy class {name}: {len(failed)} of {len(checks)} checks fail", flush=True)
        if not failed:
            break
    return found


def _checks() -> Iterator[CheckResult]:
    """The checks under the class in the environment; each worker makes the backend anew."""
    os.chdir(os.path.dirname(__file__))
    for prefix in CHECKS:
        yield from run("accuracy:reclassed", tier="smoke", seed=0, workers=1, only=prefix).checks
