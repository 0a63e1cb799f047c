"""Vectors: an export holds what the suites ask; its judge tells right answers from wrong, changed and missing ones."""

import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Ended, aliquot_here
from jsonschema import Draft202012Validator

from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.vectors import answers as answers_file
from aliquot.conformance.vectors import folder as folders
from aliquot.contract.batch import LOGPROBS_MODES

ONLY = {
    "filters": "TOP",
    "law": "DRAW01_the_law[64 tokens, steep",
    "report": "LOGP1",
    "replay": "DRAW01_DRAW09_replay[1000",
    "refused": "ERR15",
    "history": "STATE03",
    "bad": "ERR16",
}
Lines = list[dict[str, Any]]
Edit = Callable[[dict[str, Any], dict[str, Any]], None]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that exports the checks of one name, once, with the oracle's answers beside them."""
    made: dict[str, Path] = {}

    def export(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            ended = aliquot_here("vectors", "export", "dir", "--only", ONLY[name],
                            "--answers", "oracle.jsonl", cwd=folder)  # fmt: skip
            assert ended.code == 0, ended.err
            made[name] = folder
        return made[name]

    return export


def lines(path: Path) -> Lines:
    """The JSON lines of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def judged(folder: Path, answers: Lines, name: str, *options: str) -> Ended:
    """How the judge ends on these answers."""
    (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in answers))
    return aliquot_here("vectors", "judge", "dir", name, *options, cwd=folder)


def edited(folder: Path, check: str, edit: Edit) -> Lines:
    """The oracle's answers, those to the first case of `check` edited."""
    cases = {case["case"]: case for case in lines(folder / "dir" / "cases.jsonl")}
    answers = lines(folder / "oracle.jsonl")
    chosen = next(a for a in answers if "case" in a and cases[a["case"]]["check"].startswith(check))
    edit(chosen, cases[chosen["case"]])
    return answers


@pytest.mark.parametrize("name", ONLY)
def test_the_oracles_own_answers_pass(exports: Callable[[str], Path], name: str) -> None:
    """Everything that the oracle answers is accepted, and nothing is left unanswered."""
    folder = exports(name)
    ended = judged(folder, lines(folder / "oracle.jsonl"), "same.jsonl")
    assert (ended.code, ended.out.splitlines()[-1].split(": ")[:2]) == (0, ["PASS", "oracle"])
    assert "UNSUPPORTED" not in ended.out


def out_of_may(answer: dict[str, Any], case: dict[str, Any]) -> None:
    """Keep one token too many: the first that is dropped."""
    row = answer["processed_logits"][0]
    row["values"].append(row["values"][-1])
    row["ids"].append(next(t for t in range(case["vocab_size"]) if t not in row["ids"]))


def lost(answer: dict[str, Any], case: dict[str, Any]) -> None:
    """Lose the first kept token."""
    row = answer["processed_logits"][0]
    del row["ids"][0], row["values"][0]


def off(answer: dict[str, Any], case: dict[str, Any]) -> None:
    """Move the first kept value by a thousandth."""
    answer["processed_logits"][0]["values"][0] += 1e-3


def one_draw(answer: dict[str, Any], case: dict[str, Any]) -> None:
    """Draw a dropped token once."""
    row = answer["processed_logits"][0]
    answer["draws"][0][5] = next(t for t in range(case["vocab_size"]) if t not in row["ids"])


def far_out(answer: dict[str, Any], case: dict[str, Any]) -> None:
    """Draw a token beyond the vocabulary once."""
    answer["draws"][0][5] = case["vocab_size"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (out_of_may, "too many {"),
        (lost, "lost {"),
        (off, "processed_logits of token"),
        (one_draw, "wanted draws in"),
        (far_out, "IO08"),
    ],
)
def test_a_wrong_filter_answer_is_red(
    exports: Callable[[str], Path], edit: Edit, said: str
) -> None:
    """One token, value or draw at fault fails its check alone, with the reason and the command."""
    folder = exports("filters")
    answers = edited(folder, "TOPK01_a_thousand_tokens[5]", edit)
    ended = judged(folder, answers, f"{edit.__name__}.jsonl")
    assert ended.code == 1
    assert said in ended.out.splitlines()[0]
    assert "--only 'TOPK01_a_thousand_tokens[5]'" in ended.out
    assert " 1 FAIL" in ended.out.splitlines()[-1]


def test_kept_ids_alone_are_judged(exports: Callable[[str], Path]) -> None:
    """A program that names only what it keeps passes, and fails when it keeps one token too many."""
    folder = exports("filters")
    answers = [dict(line) for line in lines(folder / "oracle.jsonl")]
    for line in answers[1:]:
        rows = line["processed_logits"]
        kept = [row["ids"] if isinstance(row, dict) else alive(row) for row in rows]
        for name in ("processed_logits", "processed_logprobs", "draws", "ids"):
            line.pop(name, None)
        line["kept"] = kept
    right = judged(folder, answers, "kept.jsonl")
    assert right.code == 0
    assert " PASS" in right.out.splitlines()[-1]
    case = next(c for c in lines(folder / "dir" / "cases.jsonl") if c["check"].startswith("TOPK04"))
    answers[1 + case["case"]]["kept"][0] = [0, 1]
    wrong = judged(folder, answers, "wrong_kept.jsonl")
    assert (wrong.code, "too many {1}" in wrong.out) == (1, True)


def test_draws_alone_are_judged(exports: Callable[[str], Path]) -> None:
    """A program that only draws passes, and fails when a token that must stay never comes."""
    folder = exports("filters")
    answers = [dict(line) for line in lines(folder / "oracle.jsonl")]
    for line in answers[1:]:
        for name in set(line) - {"case", "draws"}:
            del line[name]
    right = judged(folder, answers, "draws.jsonl")
    assert right.code == 0
    cases = [c for c in lines(folder / "dir" / "cases.jsonl") if c["check"].startswith("TOPK04")]
    drawn = next(d for c in cases if len(set((d := answers[1 + c["case"]]["draws"])[0])) == 2)
    lost = max(drawn[0])
    drawn[0] = [min(drawn[0]) if token == lost else token for token in drawn[0]]
    wrong = judged(folder, answers, "lost_draws.jsonl")
    assert wrong.code == 1
    assert f"; id {lost} of probability 0.5 was not drawn in 1024" in wrong.out


def alive(row: list[Any]) -> list[int]:
    """The ids of a row's values that are not -inf."""
    return [t for t, value in enumerate(row) if value is not None]


def test_draws_at_another_temperature_are_red(exports: Callable[[str], Path]) -> None:
    """Draws of the law at a temperature a tenth higher are told from the law by their e-value."""
    folder, rng = exports("law"), np.random.default_rng(0)
    weights = np.exp(normal(64, 2, 4.0).astype(np.float64) / 1.1)

    def hot(answer: dict[str, Any], case: dict[str, Any]) -> None:
        answer["draws"] = [
            rng.choice(64, size=len(answer["draws"][0]), p=weights / weights.sum()).tolist()
        ]

    ended = judged(folder, edited(folder, ONLY["law"], hot), "hot.jsonl")
    assert ended.code == 1
    assert "times likelier under another law" in ended.out.splitlines()[0]


@pytest.mark.parametrize("kind", ["inverse_cdf", "exponential_race"])
def test_a_wrong_replay_is_red(exports: Callable[[str], Path], kind: str) -> None:
    """One id that the noise of the files does not give fails."""
    folder = exports("replay")

    def other(answer: dict[str, Any], case: dict[str, Any]) -> None:
        answer[kind][0][3] = (answer[kind][0][3] + 500) % 1000

    answers = lines(folder / "oracle.jsonl")
    other(next(line for line in answers if kind in line), {})
    ended = judged(folder, answers, f"{kind}.jsonl")
    assert (ended.code, "in draw 3 with the noise used" in ended.out) == (1, True)


def test_the_wrong_field_refused_is_red(exports: Callable[[str], Path]) -> None:
    """A refusal that names another parameter fails, and so does an answer."""
    folder = exports("refused")
    answers = lines(folder / "oracle.jsonl")
    answers[1]["refused"]["field"] = "top_k"
    answers[2] = {"case": answers[2]["case"], "ids": [0]}
    ended = judged(folder, answers, "refused.jsonl")
    assert (ended.code, " 2 FAIL" in ended.out.splitlines()[-1]) == (1, True)


def test_what_is_not_answered_never_passes(exports: Callable[[str], Path]) -> None:
    """A missing answer is told and counted; without any answer the run does not pass."""
    folder = exports("filters")
    answers = lines(folder / "oracle.jsonl")
    gone = answers.pop()["case"]
    ended = judged(folder, answers, "gone.jsonl", "--report", "page")
    page = (folder / "page" / "junit.xml").read_text()
    assert (ended.code, f"not answered: processed_logits of case {gone}" in page) == (0, True)
    assert "1 UNSUPPORTED" in ended.out.splitlines()[-2]
    empty = judged(folder, answers[:1], "empty.jsonl")
    assert (empty.code, " PASS" in empty.out.splitlines()[-1]) == (1, False)
    assert empty.out.splitlines()[-1].startswith("ERROR: oracle: nothing was answered: ")


@pytest.mark.parametrize("name", ["arrays.npz", "cases.jsonl", "cases.txt", "arrays.json"])
def test_a_changed_file_is_found(exports: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    """One changed byte of an export is refused with the file's name."""
    for path in (exports("history") / "dir").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert folders.read(tmp_path).cases
    whole = bytearray((tmp_path / name).read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / name).write_bytes(whole)
    with pytest.raises(folders.FolderError, match=f"{name}: sha256 is"):
        folders.read(tmp_path)


MALFORMED = [
    ('{"case": 99999}', "case is 99999, allowed is a number in"),
    ('{"case": 0, "draws": [[1]]}', "case 0: draws is [1], allowed is a list of 1024 integers"),
    ('{"case": 0, "ids": [1]}', 'case 0: field is "ids", allowed is one of'),
    ('{"case": 0, "kept": [[1, 1]]}', "allowed is different ids in [0, 4)"),
    ('{"case": 0, "processed_logits": [[1, 2, 3, "x"]]}', 'processed_logits is "x", allowed is'),
    ('{"case": 0, "processed_logits": [[1, 2, 3, NaN]]}', "no JSON: NaN"),
    ('{"case": 0', "no JSON"),
    ('{"case": 0, "processed_logits": [{"file": "../x", "offset": 0}]}', "a file beside"),
    ('{"language": "C"}', "language"),
]


@pytest.mark.parametrize(("line", "said"), MALFORMED)
def test_malformed_answers_are_named(
    exports: Callable[[str], Path], tmp_path: Path, line: str, said: str
) -> None:
    """Answers that cannot be read are refused in one line: file, line, case, field, value, allowed."""
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(answers_file.AnswerError, match=re.escape(said)) as raised:
        answers_file.read(path, folders.read(exports("filters") / "dir"))
    assert str(raised.value).startswith(f"{path}:1:")
    assert "\n" not in str(raised.value)


def test_malformed_answers_end_the_command(exports: Callable[[str], Path]) -> None:
    """The command ends with exit code 2 and one line."""
    ended = judged(exports("filters"), [{"case": -1}], "bad.jsonl")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("name", ONLY)
def test_files_and_answers_follow_the_schema(exports: Callable[[str], Path], name: str) -> None:
    """Manifest, arrays, cases and the oracle's answers have the documented form."""
    folder = exports(name)
    schema = json.loads(
        files("aliquot.conformance.vectors").joinpath("schema.json").read_text("utf-8")
    )
    given = [
        ("manifest", json.loads((folder / "dir" / "manifest.json").read_text())),
        ("arrays", json.loads((folder / "dir" / "arrays.json").read_text())),
        *(("case", case) for case in lines(folder / "dir" / "cases.jsonl")),
        *(("line", line) for line in lines(folder / "oracle.jsonl")),
    ]
    validators = {
        kind: Draft202012Validator({**schema, "$ref": f"#/$defs/{kind}"})
        for kind in ("manifest", "arrays", "case", "line")
    }
    errors = [e.message for kind, data in given for e in validators[kind].iter_errors(data)]
    assert not errors
    assert len(given) > 3


def test_arrays_lie_at_their_offsets(exports: Callable[[str], Path]) -> None:
    """What NumPy reads by name stands raw, little-endian, at the offset told."""
    folder = exports("replay") / "dir"
    table, whole = (
        json.loads((folder / "arrays.json").read_text()),
        (folder / "arrays.npz").read_bytes(),
    )
    with np.load(folder / "arrays.npz") as archive:
        assert set(archive.files) == set(table)
        for name, told in table.items():
            values = archive[name]
            assert (values.dtype.name, list(values.shape)) == (told["dtype"], told["shape"])
            raw = whole[told["offset"] : told["offset"] + values.nbytes]
            assert raw == values.tobytes()


def expected_rows(
    folder: Path,
) -> Iterator[tuple[dict[str, Any], int, dict[str, Any], dict[str, Any]]]:
    """Each case with its row's number, what is expected of the row, and the oracle's answers."""
    answers = {line["case"]: line for line in lines(folder / "oracle.jsonl")[1:]}
    for case in lines(folder / "dir" / "cases.jsonl"):
        for r, row in enumerate(case["rows"]):
            yield case, r, row["expected"], answers[case["case"]]


@pytest.mark.parametrize("name", ["filters", "law", "replay"])
def test_expectations_hold_for_the_oracle(exports: Callable[[str], Path], name: str) -> None:
    """Read from the files alone, the oracle's answers lie in may, cover must, lie in the intervals and replay."""
    folder, compared = exports(name), 0
    with np.load(folder / "dir" / "arrays.npz") as archive:
        for case, r, expected, answer in expected_rows(folder):
            every = np.arange(case["vocab_size"])
            may, must = (
                every if expected[k] == "all" else archive[expected[k]] for k in ("may", "must")
            )
            assert np.isin(must, may).all()
            if "draws" in answer:
                assert np.isin(answer["draws"][r], may).all()
                compared += 1
            if "law" in expected:
                law = archive[expected["law"]]
                assert abs(law.sum() - 1) <= law.size * np.finfo(np.float64).eps
            for mode in LOGPROBS_MODES:
                compared += inside(archive, every, expected.get(mode), answer, mode, r)
            for kind in ("inverse_cdf", "exponential_race"):
                if kind in expected:
                    assert archive[expected[kind]["ids"]].tolist() == answer[kind][r]
                    assert (archive[expected[kind]["margin"]] >= 0).all()
                    compared += 1
    assert compared


def inside(archive: Any, every: Any, told: Any, answer: dict[str, Any], mode: str, r: int) -> int:
    """1 if the answered values of a row were compared with their intervals, 0 if there are none."""
    if told is None:
        return 0
    given = answer[mode][r]
    row = np.full(every.size, -np.inf, dtype=np.float32)
    if isinstance(given, dict):
        row[given["ids"]] = given["values"]
    else:
        row[:] = [-np.inf if value is None else value for value in given]
    ids = every if told["ids"] == "all" else archive[told["ids"]]
    assert (row[np.setdiff1d(every, ids)] == -np.inf).all()
    assert ((archive[told["low"]] <= row[ids]) & (row[ids] <= archive[told["high"]])).all()
    return 1
