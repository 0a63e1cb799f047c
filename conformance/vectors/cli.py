"""The commands `aliquot vectors export` and `aliquot vectors judge`."""

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aliquot.conformance.tiers import TIERS

if TYPE_CHECKING:
    from aliquot.conformance.vectors.answers import Answers
    from aliquot.conformance.vectors.folder import Folder
    from aliquot.contract.profile import Profile
    from aliquot.reports.results import RunResults

vectors = typer.Typer(
    no_args_is_help=True,
    help="The suites' cases as files, for samplers in any language, and the judge of their answers.",
)
CLOSED = [name for name, tier in TIERS.items() if not tier.open_ended]
ClosedTier = StrEnum("ClosedTier", {name: name for name in CLOSED})  # type: ignore[misc]
DEFAULT = ClosedTier("smoke")


@vectors.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the cases.")],
    tier: Annotated[ClosedTier, typer.Option(help="Budget of draws.")] = DEFAULT,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise in the files.")] = 0,
    accuracy: Annotated[str, typer.Option(help="Arithmetic that the bounds allow.")] = "float32",
    freedom: Annotated[
        list[str] | None, typer.Option(help="A declared choice, NAME=CHOICE; may be repeated.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Checks whose id begins so.")] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Also write the oracle's own answers to this file.")
    ] = None,
) -> None:
    """Write the cases that the suites ask, with what the contract expects of each."""
    from aliquot.conformance.cli import err, out, refuse
    from aliquot.conformance.progress import RunProgress
    from aliquot.conformance.vectors import oracle_answers
    from aliquot.conformance.vectors.export import Declared, ExportError, record, write
    from aliquot.conformance.vectors.run import SuiteError
    from aliquot.contract.accuracy import CLASSES

    if accuracy not in CLASSES:
        refuse(f"--accuracy {accuracy}: unknown, allowed are {', '.join(CLASSES)}")
    declared = Declared(
        profile=_profile(freedom or []), accuracy=accuracy, tier=tier.value, seed=seed, only=only
    )
    try:
        with RunProgress(err) as progress:
            entries = record(declared, progress)
        write(entries, declared, folder)
        if answers is not None:
            answers.write_text("".join(f"{line}\n" for line in oracle_answers.lines(entries)))
    except (SuiteError, ExportError) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"{error.filename or folder}: {error.strerror}, allowed is a folder to write to")
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    out.print(f"{folder}: {len(entries):,} cases, tier {tier}, seed {seed}, {size:.1f} MB")


def _profile(choices: list[str]) -> "Profile":
    from aliquot.conformance.cli import refuse
    from aliquot.contract.profile import FREEDOMS, Profile, ProfileError

    given = dict(choice.partition("=")[::2] for choice in choices)
    for name in given.keys() - {freedom.name for freedom in FREEDOMS}:
        known = ", ".join(freedom.name for freedom in FREEDOMS)
        refuse(f"--freedom {name}: unknown, allowed are {known}")
    try:
        return Profile(**given)  # type: ignore[arg-type]
    except ProfileError as error:
        refuse(f"--freedom: {error}")


@vectors.command()
def judge(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of an export.")],
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="JSON lines, or a folder with results.jsonl.")
    ],
    report: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None,
    only: Annotated[str | None, typer.Option(help="Checks whose id begins so.")] = None,
) -> None:
    """Judge a program's answers; what it does not answer is told and never passes.

    Exit code 0: pass. 1: findings, or nothing that passed. 2: wrong use, a changed export or malformed answers.
    """
    from aliquot.conformance.cli import EXIT_FINDINGS, err, out, refuse
    from aliquot.conformance.progress import RunProgress
    from aliquot.conformance.vectors import answers
    from aliquot.conformance.vectors import folder as folders
    from aliquot.conformance.vectors.answered import AnswerDesk
    from aliquot.conformance.vectors.run import Setting, SuiteError, run
    from aliquot.reports.results import Verdict
    from aliquot.reports.terminal import red_checks

    words = ("aliquot", "vectors", "judge", str(folder), str(results))
    try:
        cases = folders.read(folder)
        given = answers.read(results, cases)
        setting = Setting(
            capabilities=cases.declared.capabilities(name=given.sampler, version=given.version),
            tier=cases.declared.tier,
            seed=cases.declared.seed,
            only=only or cases.declared.only,
            words=words,
        )
        with RunProgress(err) as progress:
            found = run(AnswerDesk(cases, given), setting, progress)
    except (folders.FolderError, answers.AnswerError, SuiteError) as error:
        refuse(str(error))
    for line in red_checks(found):
        out.print(line)
    out.print(_unanswered(cases, given))
    out.print(_verdict(found, given))
    if report is not None:
        _write(found, report)
    raise typer.Exit(0 if found.verdict is Verdict.PASS else EXIT_FINDINGS)


def _unanswered(cases: "Folder", given: "Answers") -> str:
    """How many cases have an answer, and how many questions of each kind have none."""
    answered = sum(1 for answers in given.by_case.values() if answers)
    open_ = Counter(
        kind
        for number, case in cases.cases.items()
        for kind in case["asks"]
        if kind not in given.by_case.get(number, {})
    )
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in open_.most_common())
    return f"answered {answered:,} of {len(cases.cases):,} cases; open questions: {kinds or 'none'}"


def _verdict(results: "RunResults", given: "Answers") -> str:
    counts = ", ".join(f"{n} {verdict}" for verdict, n in results.counts.items() if n)
    said = counts if given.kinds else f"nothing was answered: {counts}"
    return f"{results.verdict}: {results.backend.name}: {said}"


def _write(results: "RunResults", folder: Path) -> None:
    from aliquot.conformance.cli import out, refuse
    from aliquot.reports.write import write_all

    try:
        paths = write_all(results, folder)
    except OSError as error:
        refuse(f"--report {folder}: {error}")
    out.print(f"report: {paths['index.html']}")
