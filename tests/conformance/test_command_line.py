"""The command line: exit codes, one-line errors, lists and explanations."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import aliquot

from aliquot.conformance.backend import installed
from aliquot.conformance.case import row, stacked
from aliquot.conformance.faults import EQUIVALENTS, FAULTS
from aliquot.contract.batch import ThinkingMarkers
from aliquot.contract.clauses import clauses

BROKEN_BACKENDS = """
import os
import numpy as np
from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.contract.output import SamplerOutput

class Changed(OracleBackend):
    def sample(self, logits, batch):
        right = super().sample(logits, batch)
        return SamplerOutput(
            sampled_token_ids=self.change(right.sampled_token_ids, batch), logprobs=right.logprobs
        )

class Int32(Changed):
    def change(self, ids, batch):
        return ids.astype(np.int32)

class Flat(Changed):
    def change(self, ids, batch):
        return ids[:, 0]

class TooLarge(Changed):
    def change(self, ids, batch):
        return ids + batch.vocab_size

class Raises(Changed):
    def change(self, ids, batch):
        raise RuntimeError("device lost\\nsecond line")

class Crashes(Changed):
    def change(self, ids, batch):
        os._exit(3)

class ReturnsNone(OracleBackend):
    def sample(self, logits, batch):
        return None

class CannotBeMade:
    def __init__(self):
        raise OSError("no device")

class NoBackend:
    pass

class NoSample:
    capabilities = DECLARED

class NoCapabilities:
    def sample(self, logits, batch):
        return None

class OtherCapabilities(NoCapabilities):
    capabilities = {"name": "other"}

def sample(logits, batch):
    return None

class LeavesLate(OracleBackend):
    def sample(self, logits, batch):
        if len(batch) > 1:
            raise SystemExit("enough")
        return super().sample(logits, batch)

class AcceptsNan(OracleBackend):
    def sample(self, logits, batch):
        return SamplerOutput(sampled_token_ids=np.zeros((len(batch), 1), np.int64))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with a module of broken backends."""
    (tmp_path / "broken.py").write_text(BROKEN_BACKENDS)
    return tmp_path


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("nosuch", "no such backend; installed are fast, oracle"),
        ("nomodule:Name", "No module named 'nomodule'"),
        ("broken:Missing", "broken has no Missing"),
        ("broken:CannotBeMade", "cannot be made: OSError: no device"),
        ("broken:NoBackend", "is a NoBackend without sample() and capabilities"),
        ("broken:NoSample", "is a NoSample without sample()"),
        (
            "broken:NoCapabilities",
            "is a NoCapabilities without capabilities (an aliquot.conformance.backend.Capabilities)",
        ),
        ("broken:OtherCapabilities", "capabilities is a dict, allowed is an aliquot.conformance"),
        (
            "broken:sample",
            "missing a required argument: 'logits', allowed is a class or function without arguments",
        ),
        ("broken.py:Int32", "broken.py is a file, allowed is a module's name without .py"),
        ("no/such.py:Int32", "no/such.py is a file, allowed is a module's name without .py"),
        ("fault:nosuch", "no such fault; allowed are order-topp-first"),
    ],
)
def test_a_backend_that_cannot_be_loaded_is_one_line(folder: Path, backend: str, said: str) -> None:
    """Wrong use ends with exit code 2 and one line that names the backend."""
    ended = aliquot("run", "--backend", backend, "--tier", "smoke", cwd=folder)
    lines = ended.said.strip().splitlines()
    assert (ended.code, len(lines)) == (2, 1)
    assert lines[0].startswith(f"aliquot: backend {backend}: ")
    assert said in lines[0]


@pytest.mark.parametrize(
    ("name", "clause", "said"),
    [
        ("Int32", "IO07", "wanted sampled ids of dtype int64, got dtype int32"),
        ("Flat", "IO06", "wanted sampled ids of shape [1, 1], got shape [1]"),
        ("TooLarge", "IO08", "wanted sampled ids in [0, 4), got id 5"),
        ("ReturnsNone", "IO06", "wanted a SamplerOutput, got a NoneType"),
    ],
)
def test_an_answer_of_the_wrong_form_is_a_finding(
    folder: Path, name: str, clause: str, said: str
) -> None:
    """A malformed answer names the clause of the form, whatever check met it."""
    ended = aliquot(
        "run", "--backend", f"broken:{name}", "-n", "0", "--only", "IO01_logits", cwd=folder
    )
    assert ended.code == 1
    assert f"FAIL {clause} IO01_" in ended.out
    assert said in ended.out
    assert "Traceback" not in ended.said


def test_a_backend_that_raises_is_a_finding_with_its_message(folder: Path) -> None:
    """An exception in sample on a legal case is told in one line, with its place, and ends with exit code 1."""
    ended = aliquot("run", "--backend", "broken:Raises", "-n", "0", "--only", "TOPK04", cwd=folder)
    assert ended.code == 1
    assert "FAIL ERR18 TOPK04_k_of_one: wanted an answer in case 'one maximum'" in ended.out
    assert "got sample raised RuntimeError: device lost at broken.py:" in ended.out
    assert "second line" not in ended.said
    assert "Traceback" not in ended.said


def test_a_backend_that_ends_its_process_is_a_finding(folder: Path) -> None:
    """The run goes on after a crash and names the case."""
    ended = aliquot("run", "--backend", "broken:Crashes", "-n", "1", "--only", "TOPK04", cwd=folder)
    assert ended.code == 1
    assert "FAIL ERR18 TOPK04_k_of_one: wanted an answer or an exception" in ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--tier", "nosuch"),
        ("run", "--seed", "-1"),
        ("run", "--time-limit", "0"),
        ("run", "--budget", "-1"),
        ("list", "nosuch"),
        ("list",),
        ("nosuch",),
        ("run", "--backend", "oracle", "--only", "NOSUCH01"),
        ("explain", "nosuch.json"),
        ("explain", "--row", "99"),
        ("explain", "--corpus", "nosuch"),
        ("explain", "--params", "[1]"),
        ("explain", "--params", '{"nosuch": 1}'),
        ("explain", "--top-p", "2"),
        ("explain", "--accuracy", "nosuch"),
        ("explain", "--html", "no/such/folder.html"),
    ],
)
def test_wrong_use_ends_with_2_and_no_traceback(folder: Path, arguments: tuple[str, ...]) -> None:
    """Every wrong argument is told in one line, with exit code 2."""
    ended = aliquot(*arguments, cwd=folder)
    assert ended.code == 2
    assert ended.err.startswith("aliquot: ")
    assert (ended.out, ended.err.count("\n")) == ("", 1)


def test_a_report_path_that_is_a_file_is_refused_before_the_run(folder: Path) -> None:
    """Nothing is run and nothing is lost when the report cannot be written."""
    ended = aliquot("run", "--backend", "oracle", "--report", "broken.py", cwd=folder)
    assert (ended.code, ended.out) == (2, "")
    assert "--report broken.py: File exists, allowed is a folder that can be written" in ended.err
    assert (folder / "broken.py").read_text() == BROKEN_BACKENDS


def test_the_same_seed_gives_the_same_results_whatever_the_workers(folder: Path) -> None:
    """Two workers and a run without any write the same bytes."""
    for number, workers in (("0", ["--in-process"]), ("2", ["-n", "2"])):
        ended = aliquot(
            "run", "--backend", "oracle", "--tier", "smoke", "--only", "DRAW01_the_law[", *workers,
            "--report", f"out{number}", cwd=folder,
        )  # fmt: skip
        assert ended.code == 0
    names = ("results.json", "index.html", "junit.xml", "summary.md")
    assert all(
        (folder / "out0" / name).read_bytes() == (folder / "out2" / name).read_bytes()
        for name in names
    )


def test_another_seed_draws_other_tokens(folder: Path) -> None:
    """The seed reaches the backend's noise and the oracle's."""
    found = []
    for seed in ("1", "2"):
        aliquot(
            "run", "--backend", "oracle", "--tier", "smoke", "--only", "DRAW01_the_law[three",
            "-n", "0", "--seed", seed, "--report", seed, cwd=folder,
        )  # fmt: skip
        results = json.loads((folder / seed / "results.json").read_text())
        found.append(results["checks"][0]["frequencies"]["drawn"])
    assert found[0] != found[1]


def test_the_reproduce_command_fails_in_the_same_way(folder: Path) -> None:
    """A finding's command, as printed, ends red with the same reason."""
    first = aliquot(
        "run", "--backend", "fault:topp-edge-minus", "--tier", "smoke", "-n", "0",
        "--only", "TOPP03", cwd=folder,
    )  # fmt: skip
    command = next(line for line in first.out.splitlines() if line.startswith("     aliquot "))
    again = subprocess.run(
        command.strip().replace("aliquot", f"{sys.executable} -m aliquot", 1),
        shell=True, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == 1
    said = first.out.splitlines()[0]
    assert again.stdout.splitlines()[0] == re.sub(r" \(first of \d+\)", "", said)


@pytest.mark.parametrize(
    ("what", "said"),
    [("clauses", "TOPK02"), ("backends", "oracle"), ("faults", "order-topp-first")],
)
def test_lists(folder: Path, what: str, said: str) -> None:
    """Clauses, backends and faults are listed."""
    ended = aliquot("list", what, cwd=folder)
    assert ended.code == 0
    assert any(line.startswith(said) for line in ended.out.splitlines())


@pytest.mark.parametrize("what", ["clauses", "backends", "faults"])
def test_a_list_in_a_pipe_has_one_line_an_entry(folder: Path, what: str) -> None:
    """Without a terminal no entry is folded, however narrow the environment says that the screen is."""
    narrow = aliquot("list", what, cwd=folder, COLUMNS="40").out.splitlines()
    wide = aliquot("list", what, cwd=folder, COLUMNS="9999").out.splitlines()
    number = {
        "clauses": len(clauses()),
        "backends": len(installed()),
        "faults": len(FAULTS | EQUIVALENTS),
    }
    assert narrow == wide
    assert len(narrow) == 1 + number[what]
    assert all(line == line.strip() for line in narrow)


def test_help_claims_no_proof(folder: Path) -> None:
    """The first sentence of the help says what a run does, which is to look for faults."""
    assert "Looks for faults in a token sampler" in aliquot("--help", cwd=folder).out


def test_a_listed_backend_says_what_it_lacks(folder: Path) -> None:
    """An adapter whose package is absent is marked, and no other."""
    (folder / "lacking.py").write_text("import os\nimport nosuch.part\nBackend = object\n")
    metadata = folder / "lacking-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lacking\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[aliquot.backends]\nlacking = lacking:Backend\ngone = nosuch.adapter:Backend\n"
    )
    ended = aliquot("list", "backends", cwd=folder)
    lines = {line.split()[0]: line for line in ended.out.splitlines()}
    assert "needs nosuch, which is not installed" in lines["lacking"]
    assert "needs nosuch, which is not installed" in lines["gone"]
    assert "needs" not in lines["oracle"]


def test_help_does_not_import_torch() -> None:
    """The command line starts without torch, SciPy and matplotlib."""
    code = (
        "import sys; from aliquot.conformance import cli; "
        "print([m for m in ('torch', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_explain_shows_what_each_step_removed(folder: Path) -> None:
    """A witness in a file: k = 2 leaves two tokens and p = .5 one of them."""
    case = {"logits": [0.0, 1.0, 2.0, 3.0], "params": {"top_k": 2}, "output_token_ids": [1]}
    (folder / "case.json").write_text(json.dumps(case))
    ended = aliquot("explain", "case.json", "--top-p", "0.5", "--html", "page.html", cwd=folder)
    rows = {line.split()[0]: line.split()[1:5] for line in ended.out.splitlines()[1:]}
    assert ended.code == 0
    assert rows["top_k"] == ["2", "0.8808", "2", "-"]
    assert rows["top_p"] == ["1", "0.7311", "1", "-"]
    assert "removed 2 with" in (folder / "page.html").read_text()


def test_explain_replays_a_bitmask_and_thinking_markers(folder: Path) -> None:
    """A witness keeps the bits of its row and the markers, and they act when it is explained."""
    ids = [0.0] * 4
    masked = replace(
        stacked("two", row("a", ids), row("b", ids)),
        grammar_bitmask=np.array([[15], [5]], np.int32),
    )
    markers = ThinkingMarkers(start=(1,), end=(2,))
    thinking = replace(row("c", ids, output=[1, 3], thinking_token_budget=1), thinking=markers)
    for witness, step, shown in (
        (masked.witness(1), "grammar", ["2", "0.5000"]),
        (thinking.witness(0), "thinking_budget", ["4", "1.0000", "-", "1"]),
    ):
        (folder / "case.json").write_text(json.dumps(witness))
        ended = aliquot("explain", "case.json", cwd=folder)
        steps = {line.split()[0]: line.split()[1:] for line in ended.out.splitlines()[2:]}
        assert ended.code == 0
        assert steps[step][: len(shown)] == shown


def test_explain_on_a_real_row(folder: Path) -> None:
    """A packaged row is explained with its own history."""
    ended = aliquot("explain", "--row", "4", "--repetition-penalty", "2", cwd=folder)
    penalties = next(line for line in ended.out.splitlines() if line.startswith("penalties"))
    assert penalties.split()[:5] == ["penalties", "49,152", "1.0000", "-", "5"]


def test_explain_dispatch_says_what_runs_here(folder: Path) -> None:
    """On this machine without CUDA every path is native, with its reason."""
    ended = aliquot("explain", "--dispatch", cwd=folder)
    cuda = next(line for line in ended.out.splitlines() if line.startswith("cuda"))
    assert ended.code == 0
    assert "native" in cuda
    assert "flashinfer is not installed" in cuda


def test_a_backend_that_exits_is_a_finding(folder: Path) -> None:
    """SystemExit in the second half of a check is not a pass."""
    ended = aliquot(
        "run", "--backend", "broken:LeavesLate", "-n", "0", "--only", "TOPK04", cwd=folder
    )
    assert ended.code == 1
    assert "sample raised SystemExit: enough" in ended.out


def test_a_users_pytest_settings_do_not_reach_the_run(folder: Path) -> None:
    """A conftest that deselects everything and PYTEST_ADDOPTS leave a fault red."""
    (folder / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--seed')\n"
        "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -k nothing\n")
    ended = aliquot(
        "run", "--backend", "fault:topp-edge-minus", "--tier", "smoke", "-n", "0",
        "--only", "TOPP03", cwd=folder, PYTEST_ADDOPTS="-k nothing",
    )  # fmt: skip
    assert ended.code == 1
    assert "3 FAIL" in ended.out


def test_an_installed_aliquot_leaves_other_projects_options_alone(folder: Path) -> None:
    """A project with a `--seed` option of its own runs its tests as before."""
    (folder / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--seed', default='mine')\n"
    )
    (folder / "test_own.py").write_text(
        "def test_own(request):\n    assert request.config.getoption('--seed') == 'mine'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own.py"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_finding_with_nan_in_it_is_reported(folder: Path) -> None:
    """An accepted NaN parameter is a finding in a readable report, not a crash of the report."""
    ended = aliquot(
        "run", "--backend", "broken:AcceptsNan", "-n", "0", "--only", "ERR15", "--report", "out",
        cwd=folder,
    )  # fmt: skip
    results = json.loads((folder / "out" / "results.json").read_text())
    witnesses = [c["finding"]["witness"]["params"] for c in results["checks"]]
    assert ended.code == 1
    assert {"top_p": "nan"} in witnesses


def test_names_are_printed_as_they_are(folder: Path) -> None:
    """Colons and brackets in names and rules are no markup."""
    assert "backend nomod:x: " in aliquot("run", "--backend", "nomod:x", cwd=folder).err
    assert "shape [n, V]" in aliquot("list", "clauses", cwd=folder).out


@pytest.mark.parametrize(
    "case",
    [
        '{"logits": {"5": 1.0}}',
        '{"logits": []}',
        '{"logits": "123"}',
        '{"logits": [1, 2], "prompt_token_ids": 5}',
        '{"logits": [1, 2], "output_token_ids": null}',
        '{"logits": [1, 2], "params": {"logit_bias": [1]}}',
        '{"logits": [1, 2], "params": {"bad_words": 5}}',
        '{"logits": [1, 2], "grammar_bitmask": [1, 2]}',
        '{"logits": [1, 2], "grammar_bitmask": "x"}',
        '{"logits": [1, 2], "thinking": 3}',
        '{"logits": [' + "9" * 400 + "]}",
        "[1]",
    ],
)
def test_an_unreadable_case_is_one_line(folder: Path, case: str) -> None:
    """Whatever stands in the file, explain says in one line what is allowed."""
    (folder / "case.json").write_text(case)
    ended = aliquot("explain", "case.json", cwd=folder)
    assert (ended.code, len(ended.said.strip().splitlines())) == (2, 1)


@pytest.mark.parametrize("name", ["array.npy", "empty.npz", "scalar.npz", "broken.npz"])
def test_an_unreadable_corpus_is_one_line(folder: Path, name: str) -> None:
    """An npy file, an empty, a scalar and a truncated archive are refused by name."""
    np.save(folder / "array.npy", np.zeros((2, 3), np.float32))
    np.savez(folder / "empty.npz", logits=np.zeros((0, 3), np.float32))
    np.savez(folder / "scalar.npz", logits=np.float32(1))
    (folder / "broken.npz").write_bytes((folder / "scalar.npz").read_bytes()[:40])
    ended = aliquot("explain", "--corpus", name, cwd=folder)
    assert (ended.code, len(ended.said.strip().splitlines())) == (2, 1)
    assert name in ended.err
