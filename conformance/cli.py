"""The command line: run, list and explain."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from aliquot.conformance.processor_check.cli import check_processor
from aliquot.conformance.selftest.cli import selftest
from aliquot.conformance.tiers import BUDGET, TIERS, TIME_LIMIT
from aliquot.conformance.vectors.cli import vectors

if TYPE_CHECKING:
    from aliquot.conformance.case import Case
    from aliquot.conformance.known import Known
    from aliquot.reports.results import RunResults

EXIT_FINDINGS, EXIT_WRONG_USE = 1, 2
UNFOLDED = 1_000_000

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Looks for faults in a token sampler: which clause of its contract breaks, where and why.",
)
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
TierName = StrEnum("TierName", {name: name for name in TIERS})  # type: ignore[misc]
GATE = TierName("pr")


class Listing(StrEnum):
    """What `aliquot list` can list."""

    clauses = "clauses"
    backends = "backends"
    faults = "faults"


def refuse(message: str) -> NoReturn:
    """End with one line on standard error and exit code 2."""
    err.print(f"aliquot: {message}")
    raise typer.Exit(EXIT_WRONG_USE)


@app.command()
def run(
    backend: Annotated[str, typer.Option(help="NAME, module:Name or fault:NAME.")] = "fast",
    tier: Annotated[TierName, typer.Option(help="Budget of draws.")] = GATE,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run's noise.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None,
    workers: Annotated[int, typer.Option("-n", "--workers", min=0, help="Processes.")] = 2,
    only: Annotated[str | None, typer.Option(help="Checks whose id begins so.")] = None,
    known: Annotated[Path | None, typer.Option(help="TOML file of known failures.")] = None,
    time_limit: Annotated[
        float, typer.Option(min=0.1, help="Seconds for one answer of the backend.")
    ] = TIME_LIMIT,
    budget: Annotated[
        float, typer.Option(min=0, help="Minutes of further draws, in tier deep.")
    ] = BUDGET,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Trust the backend: no process of its own.")
    ] = False,
) -> None:
    """Run a sampler beside the oracle and say red or green with the reason.

    The backend lives in worker processes (-n 0 counts as one): its crash or endless loop is a finding.
    Exit code 0: pass. 1: findings. 2: wrong use, or a backend that cannot be loaded or run.
    """
    from aliquot.conformance.backend import BackendLoadError
    from aliquot.conformance.known import KnownError
    from aliquot.conformance.progress import RunProgress
    from aliquot.conformance.run import RunError
    from aliquot.conformance.run import run as run_suites
    from aliquot.reports.results import Verdict
    from aliquot.reports.terminal import to_terminal

    if report is not None:
        _make_folder(report)
    try:
        failures = _known(known)
        with RunProgress(err) as progress:
            results = run_suites(
                backend, tier=tier.value, seed=seed, workers=0 if in_process else max(workers, 1),
                only=only, time_limit=time_limit, budget=budget, known=failures, listener=progress,
            )  # fmt: skip
    except (BackendLoadError, KnownError, RunError) as error:
        refuse(str(error))
    for line in to_terminal(results):
        out.print(line)
    if report is not None:
        _write(results, report)
    codes = {Verdict.PASS: 0, Verdict.FAIL: EXIT_FINDINGS}
    raise typer.Exit(codes.get(results.verdict, EXIT_WRONG_USE))


def _known(path: Path | None) -> "Known":
    """The known failures of today; raises KnownError."""
    import datetime

    from aliquot.conformance.known import NONE_KNOWN, read

    today = datetime.datetime.now(datetime.UTC).date()
    return read(path, today) if path else NONE_KNOWN


def _make_folder(report: Path) -> None:
    """Make the report's folder before the run, so that no run is lost."""
    try:
        report.mkdir(parents=True, exist_ok=True)
        probe = report / ".aliquot"
        probe.touch()
        probe.unlink()
    except OSError as error:
        refuse(f"--report {report}: {error.strerror}, allowed is a folder that can be written")


def _write(results: "RunResults", folder: Path) -> None:
    from aliquot.reports.write import write_all

    try:
        paths = write_all(results, folder)
    except OSError as error:
        refuse(f"--report {folder}: {error}")
    out.print(f"report: {paths['index.html']}")


@app.command()
def explain(
    case: Annotated[Path | None, typer.Argument(help="JSON file with logits and params.")] = None,
    corpus: Annotated[str, typer.Option(help="Packaged corpus or npz file.")] = "prompts_f32",
    row: Annotated[int, typer.Option(help="Row of the corpus.")] = 0,
    temperature: Annotated[float | None, typer.Option()] = None,
    top_k: Annotated[int | None, typer.Option()] = None,
    top_p: Annotated[float | None, typer.Option()] = None,
    min_p: Annotated[float | None, typer.Option()] = None,
    repetition_penalty: Annotated[float | None, typer.Option()] = None,
    frequency_penalty: Annotated[float | None, typer.Option()] = None,
    presence_penalty: Annotated[float | None, typer.Option()] = None,
    params: Annotated[str, typer.Option(help="Further parameters as a JSON object.")] = "{}",
    accuracy: Annotated[str, typer.Option(help="Declared arithmetic.")] = "float32",
    html: Annotated[Path | None, typer.Option(help="Also write a page.")] = None,
    dispatch: Annotated[
        bool, typer.Option("--dispatch", help="Show instead which kernels `fast` uses here.")
    ] = False,
) -> None:
    """Show every step of one row: what it masked and what is left."""
    if dispatch:
        _print_table(_dispatch())
        return
    from aliquot.conformance import explain as explaining

    named = {
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "repetition_penalty": repetition_penalty, "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty,
    }  # fmt: skip
    try:
        given = {**explaining.parse(params), **{k: v for k, v in named.items() if v is not None}}
        chosen = (
            explaining.from_file(case, given)
            if case
            else explaining.from_corpus(corpus, row, given)
        )
        _explain(chosen, accuracy, html)
    except explaining.ExplainError as error:
        refuse(str(error))


def _explain(case: "Case", accuracy: str, html: Path | None) -> None:
    """Print what each step did to a case's row, and write the page; raises ExplainError."""
    from aliquot.conformance import explain as explaining

    steps = explaining.views(case, explaining.accuracy_class(accuracy))
    if html is not None:
        explaining.write_page(case, steps, html)
    _print_table(explaining.table(case, steps))


@app.command(name="list")
def list_(what: Annotated[Listing, typer.Argument(help="What to list.")]) -> None:
    """List the contract's clauses, the installed backends or the fault library."""
    table = {
        Listing.clauses: _clauses,
        Listing.backends: _backends,
        Listing.faults: _faults,
    }[what]()
    _print_table(table)


def _clauses() -> Table:
    from aliquot.contract.clauses import clauses

    table = _table("clause", "level", "rule")
    for clause in clauses().values():
        table.add_row(clause.id, clause.level, f"{clause.title}. {clause.text}")
    return table


def _backends() -> Table:
    from aliquot.conformance.backend import installed, missing

    table = _table("backend", "comes from", "")
    for name, point in installed().items():
        lacks = missing(point)
        table.add_row(name, point.value, f"needs {lacks}, which is not installed" if lacks else "")
    return table


def _dispatch() -> Table:
    from aliquot.fast import dispatch

    table = _table("platform", "when", "path here", "why")
    for line in dispatch.explain():
        table.add_row(*line)
    return table


def _faults() -> Table:
    from aliquot.conformance.faults import EQUIVALENTS, FAULTS

    table = _table("sampler", "class", "report", "clause", "what it does")
    for name, fault in (FAULTS | EQUIVALENTS).items():
        table.add_row(name, fault.group, fault.report, " ".join(fault.clauses), fault.about)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=i == 0)
    return table


def _print_table(table: Table) -> None:
    """Print a table: folded to the width of a terminal, elsewhere one line an entry."""
    if out.file.isatty():
        return out.print(table)
    table.width = out.measure(table, options=out.options.update(width=UNFOLDED)).maximum
    with out.capture() as printed:
        out.print(table)
    for line in printed.get().splitlines():
        out.print(line.rstrip())
    return None


app.command(name="check-processor")(check_processor)
app.add_typer(vectors, name="vectors")
app.command(name="selftest")(selftest)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: errors of use are one line, never a traceback. `arguments`: those of the process if None."""
    try:
        sys.exit(app(arguments, standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        err.print("aliquot: interrupted")
        sys.exit(130)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if said := " ".join(error.format_message().split()):
            err.print(f"aliquot: {said}")
        sys.exit(EXIT_WRONG_USE)
