"""`aliquot check-processor`: exit codes, one-line errors, the report, and the examples of the documentation."""

import importlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.conformance.cli import app
from aliquot.reports.results import Verdict, read

LIBRARY = "aliquot.conformance.processor_check.library"
TOKEN = '{"extra_args": {"token": 2}}'


def run(*arguments):
    """Exit code, standard output and standard error of the command."""
    done = CliRunner().invoke(app, ["check-processor", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_findings_end_with_1_and_the_counterexample():
    """A wrong processor ends with 1, its clause and its smallest history."""
    code, out, _ = run(f"{LIBRARY}:StaleAfterSwap", "--params", TOKEN)
    assert (code, "FAIL        STATE05 state-swap: wanted" in out) == (1, True)
    assert "swapped with" in out


def test_a_pass_ends_with_0():
    """A right processor ends with 0 and its counts."""
    code, out, _ = run(f"{LIBRARY}:Bias", "--params", TOKEN, "--seed", "5")
    assert (code, out.splitlines()[-2]) == (0, f"PASS: {LIBRARY}:Bias, seed 5: 21 PASS")


def test_no_action_ends_with_2():
    """A processor that never acts was not checked."""
    code, out, _ = run(f"{LIBRARY}:Bias")
    assert (code, "give requests that do with --params" in out) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "logits processor 'nothing': allowed is module:Qualified.Name"),
        (["no_such_module_x:A"], "cannot be loaded: No module named 'no_such_module_x'"),
        ([f"{LIBRARY}:Absent"], f"module {LIBRARY} has no Absent"),
        ([f"{LIBRARY}:is_token"], "is a function, allowed is a class"),
        (["aliquot.fast.processors.interface:LogitsProcessor"], "cannot be built"),
        ([f"{LIBRARY}:Bias", "--params", "{"], "--params: is not JSON"),
        ([f"{LIBRARY}:Bias", "--params", "[]"], "allowed is an object or a list of them"),
        (
            [f"{LIBRARY}:Bias", "--params", '{"minp": 1}'],
            "no field 'minp', allowed are temperature",
        ),
        ([f"{LIBRARY}:Bias", "--params", '{"min_p": 2}'], "min_p is 2, allowed is a finite number"),
        ([f"{LIBRARY}:Bias", "--params", '{"logit_bias": {"x": 1}}'], "--params: invalid literal"),
        ([f"{LIBRARY}:Bias", "--params", '{"logit_bias": 3}'], "--params: "),
        ([f"{LIBRARY}:Bias", "--report", "pyproject.toml"], "is a file, allowed is a folder"),
    ],
)
def test_wrong_use_ends_with_2_and_one_line(arguments, message):
    """Every wrong use is one line on standard error that says what is allowed."""
    code, out, said = run(*arguments)
    assert (code, out, said.count("\n"), message in said) == (2, "", 1, True)


def test_the_report_is_written(tmp_path: Path):
    """The pages of a run, with the processor's name and the finding."""
    code, out, _ = run(
        f"{LIBRARY}:RevivesMasked", "--params", TOKEN, "--report", str(tmp_path / "out")
    )
    results = read(tmp_path / "out" / "results.json")
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert (code, results.verdict, "DRAW02" in page, "index.html" in out) == (
        1,
        Verdict.FAIL,
        True,
        True,
    )


def test_numbers_in_keys_are_token_ids():
    """JSON keys of logit_bias are strings; they become token ids."""
    request = json.dumps({"logit_bias": {"2": 4.0}})
    code, _, _ = run("aliquot.fast.processors.builtin:LogitBias", "--params", request)
    assert code == 0


def test_nothing_depends_on_the_folder(tmp_path: Path, monkeypatch):
    """The search says the same in another folder, whatever sources lie there, and leaves nothing behind."""
    arguments = (f"{LIBRARY}:StaleAfterMove", "--params", TOKEN)
    here = [line for line in run(*arguments)[1].splitlines() if "time of a step" not in line]
    (tmp_path / "constants.py").write_text("A = 3; B = 2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("constants")
    there = [line for line in run(*arguments)[1].splitlines() if "time of a step" not in line]
    left = {path.name for path in tmp_path.iterdir()} - {"constants.py", "__pycache__"}
    assert (there, left) == (here, set())
