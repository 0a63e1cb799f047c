"""The command `aliquot check-processor`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from aliquot.conformance.processor_check.subject import Subject
    from aliquot.reports.results import CheckResult, RunResults


def check_processor(
    name: Annotated[str, typer.Argument(metavar="module:Class", help="The processor's class.")],
    params: Annotated[
        str | None,
        typer.Option(help="A request that makes it act, as JSON, or a list of requests."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
) -> None:
    """Check what a logits processor claims, and show the smallest counterexample.

    Exit code 0: pass. 1: findings. 2: wrong use, or a processor that cannot be loaded or does not act.
    """
    from aliquot.conformance.cli import EXIT_FINDINGS, EXIT_WRONG_USE, refuse
    from aliquot.conformance.processor_check import check
    from aliquot.reports.results import Verdict

    if report is not None and report.exists() and not report.is_dir():
        refuse(f"--report {report}: is a file, allowed is a folder")
    subject = _subject(name, params, seed)
    results = check.check_processor(subject)
    _print(results)
    _print_time(subject)
    if report is not None:
        _write(results, report)
    codes = {Verdict.PASS: 0, Verdict.FAIL: EXIT_FINDINGS}
    raise typer.Exit(codes.get(results.verdict, EXIT_WRONG_USE))


def _subject(name: str, params: str | None, seed: int) -> "Subject":
    """The processor that the command names; ends with one line and exit code 2 when there is none."""
    from aliquot.conformance.backend import one_line
    from aliquot.conformance.cli import refuse
    from aliquot.conformance.processor_check.params import ParamsError, parse
    from aliquot.conformance.processor_check.subject import Subject
    from aliquot.fast.processors.loading import load_class

    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        subject = Subject(name, load_class(name), parse(params) if params else (), seed)
        claim: object = subject.make().is_argmax_invariant()
    except (ParamsError, RuntimeError, ValueError) as error:
        refuse(str(error).splitlines()[0])
    except Exception as error:
        refuse(f"logits processor {name}: {one_line(error)}")
    if not isinstance(claim, bool):
        refuse(
            f"logits processor {name}: is_argmax_invariant() is {claim!r}, allowed are True and False"
        )
    return subject


def _print(results: "RunResults") -> None:
    from aliquot.conformance.cli import out

    for check in results.checks:
        clauses = " ".join(check.clauses)
        out.print(f"{check.verdict:11} {clauses:7} {check.id}: {check.reason}", markup=False)
        _print_witness(check)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in results.counts.items() if n)
    out.print(
        f"{results.verdict}: {results.backend.name}, seed {results.seed}: {counts}", markup=False
    )


def _print_witness(check: "CheckResult") -> None:
    from aliquot.conformance.cli import out
    from aliquot.reports.text import value

    if check.finding is None:
        return
    for name, item in check.finding.witness.items():
        out.print(f"     {name}: {value(item)}", markup=False)
    if check.finding.likely_cause:
        out.print(f"     likely cause: {check.finding.likely_cause}", markup=False)


def _print_time(subject: "Subject") -> None:
    """The time of a step on this machine, which is no part of the results."""
    from aliquot.conformance.cli import out
    from aliquot.conformance.processor_check.device import measure
    from aliquot.conformance.processor_check.subject import ProcessorRaised

    try:
        seconds, shape = measure(subject)
    except ProcessorRaised:
        return
    out.print(
        f"time of a step on this CPU: {seconds * 1e6:.0f} us for logits {shape}", markup=False
    )


def _write(results: "RunResults", folder: Path) -> None:
    from aliquot.conformance.cli import out, refuse
    from aliquot.reports.write import write_all

    try:
        paths = write_all(results, folder)
    except OSError as error:
        refuse(str(error))
    out.print(f"report: {paths['index.html']}", markup=False)
