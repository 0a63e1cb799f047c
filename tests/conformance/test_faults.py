"""The fault library: every fault is red, at the clause that it breaks, with its cause named."""

import json
from pathlib import Path

import pytest
from command import aliquot

from aliquot.conformance.faults import FAULTS

SHORT = {"DRAW01": "DRAW01_the_law["}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_red_at_its_clause_with_its_cause(name: str, tmp_path: Path) -> None:
    """The checks of the broken clause end red, first the clause itself, and name the fault."""
    fault = FAULTS[name]
    clause = fault.clauses[0]
    ended = aliquot(
        "run", "--backend", f"fault:{name}", "--tier", "smoke", "--only", SHORT.get(clause, clause),
        "-n", "0",
        "--report", "out", cwd=tmp_path,
    )  # fmt: skip
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    failed = [check for check in results["checks"] if check["verdict"] == "FAIL"]
    assert ended.code == 1
    assert ended.out.startswith(f"FAIL {clause}")
    assert failed[0]["finding"]["reproduce"].startswith(f"aliquot run --backend fault:{name} ")
    if fault.steps or fault.law or fault.shown:
        assert all(fault.about in check["finding"]["likely_cause"] for check in failed)
    assert results["verdict"] == "FAIL"
