"""Backends that crash or hang: a finding with its case, and the run goes on, however many workers there are."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Ended, aliquot

from aliquot.conformance import isolation
from aliquot.conformance.run import check_of_ending
from aliquot.reports.results import Verdict

ENDS = """
import ctypes, os, re
from aliquot.conformance.adapters.oracle import OracleBackend

def loop():
    while True:
        pass

def search():
    re.match(r"(a+)+$", "a" * 64 + "b")

ENDS = {
    1: lambda: os._exit(3),
    2: lambda: ctypes.string_at(0),
    3: loop,
    5: search,
}

class Ends(OracleBackend):
    def sample(self, logits, batch):
        ENDS.get(batch.requests[0].params.top_k, str)()
        return super().sample(logits, batch)

class Hangs(OracleBackend):
    def __init__(self):
        search()

class Aborts(OracleBackend):
    def __init__(self):
        os.abort()

class OnlyOnce(OracleBackend):
    def __init__(self):
        if os.path.exists("made"):
            raise OSError("device busy")
        open("made", "w").close()
        super().__init__()

    def sample(self, logits, batch):
        os._exit(3)
"""
RUN = ("run", "--tier", "smoke", "--time-limit", "2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with backends that end their process."""
    (tmp_path / "ends.py").write_text(ENDS)
    return tmp_path


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Ended]]:
    """A run of all ways to end with `-n 0`, and of one of them with two workers."""
    folder = tmp_path_factory.mktemp("ends")
    (folder / "ends.py").write_text(ENDS)
    only = {"0": "TOPK01", "2": "TOPK01_a_thousand_tokens[5"}
    options = (*RUN, "--backend", "ends:Ends")
    return folder, {
        n: aliquot(*options, "-n", n, "--only", only[n], "--report", n, cwd=folder) for n in only
    }


def checks(folder: Path, report: str) -> dict[str, Any]:
    """The checks in a report by id."""
    results = json.loads((folder / report / "results.json").read_text())
    return {check["id"].removeprefix("TOPK01_"): check for check in results["checks"]}


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("the_k_largest_stay[1]", "the process ended in sample"),
        ("the_k_largest_stay[2]", "the process ended in sample: Segmentation fault"),
        ("the_k_largest_stay[3]", "no answer within 2 s in sample"),
        ("a_thousand_tokens[5]", "no answer within 2 s in sample"),
    ],
)
def test_an_end_of_the_process_is_a_finding(
    ended: tuple[Path, dict[str, Ended]], name: str, got: str
) -> None:
    """Exit, segfault, endless loop and C code that holds the interpreter break ERR18, each told apart."""
    check = checks(ended[0], "0")[name]
    assert (check["verdict"], check["clauses"]) == ("FAIL", ["ERR18"])
    assert check["finding"]["got"] == got
    assert check["finding"]["reproduce"].endswith(f"--time-limit 2 --only 'TOPK01_{name}'")


def test_the_run_goes_on_after_every_end(ended: tuple[Path, dict[str, Ended]]) -> None:
    """Five ended processes of one worker leave the other checks their verdict."""
    found = checks(ended[0], "0")
    assert [found[name]["verdict"] for name in found].count("FAIL") == 5
    assert [found[f"a_thousand_tokens[{k}]"]["verdict"] for k in (50, 999)] == ["PASS", "PASS"]
    assert [run.code for run in ended[1].values()] == [1, 1]


def test_ends_do_not_depend_on_the_workers(ended: tuple[Path, dict[str, Ended]]) -> None:
    """`-n 0` keeps the backend in a process of its own too, and finds the same as two workers."""
    none, two = (checks(ended[0], n) for n in ("0", "2"))
    assert len(two) == 2
    assert two == {name: none[name] for name in two}


def test_the_case_of_an_end_can_be_explained(ended: tuple[Path, dict[str, Ended]]) -> None:
    """The witness of a call with one small row is a file for `aliquot explain`."""
    folder = ended[0]
    witness = checks(folder, "0")["the_k_largest_stay[2]"]["finding"]["witness"]
    (folder / "case.json").write_text(json.dumps(witness))
    told = aliquot("explain", "case.json", cwd=folder)
    assert (witness["call"], told.code) == ("sample", 0)
    assert "V = 4: top_k = 2" in told.out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Hangs", "no answer within 10 s in the constructor"),
        ("Aborts", "the process ended in the constructor: Aborted"),
    ],
)
def test_a_backend_that_ends_while_it_is_made_is_one_line(
    folder: Path, name: str, said: str
) -> None:
    """A constructor that hangs or crashes ends the run with exit code 2 and one line."""
    ended = aliquot(*RUN, "--backend", f"ends:{name}", "-n", "1", "--only", "TOPK04", cwd=folder)
    assert (ended.code, ended.said) == (2, f"aliquot: backend ends:{name}: {said}\n")


def test_a_backend_that_cannot_be_made_again_keeps_its_finding(folder: Path) -> None:
    """The crash is reported, and every check that could not run says why."""
    ended = aliquot(*RUN, "--backend", "ends:OnlyOnce", "-n", "1", "--only", "TOPK02", cwd=folder)
    assert ended.code == 1
    assert "1 FAIL, 2 ERROR" in ended.out
    assert "not run: backend ends:OnlyOnce: cannot be made: OSError: device busy" in ended.out


def test_a_slow_check_is_not_the_backends_fault(tmp_path: Path) -> None:
    """The time limit passing between two calls is an ERROR of the check."""
    (tmp_path / "gw0.dump").write_text("Timeout (0:00:01)!\n")
    (tmp_path / "gw0.call").write_text("")
    end = isolation.ending(tmp_path, "gw0", 1.0)
    check = check_of_ending("test_filters.py::test_TOPK01_x[1]", end, "aliquot run")
    assert (check.verdict, check.clauses) == (Verdict.ERROR, ("TOPK01",))
    assert check.reason == "the check itself outran the time limit, between two calls"
