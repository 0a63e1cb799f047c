"""Progress of a run: a bar on a terminal, plain lines elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from aliquot.reports.results import CheckResult, Verdict

LINES = 10


class RunProgress:
    """Shows how many checks are done and how many failed; call it with (done, total, check)."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.findings = 0
        self.shown = 0
        self.bar: Progress | None = None
        if console.is_terminal:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[findings]}"),
                console=console,
                transient=True,
            )
            self.task = self.bar.add_task("checks", total=None, findings="")

    def __enter__(self) -> "RunProgress":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar:
            self.bar.stop()

    def __call__(self, done: int, total: int, check: CheckResult | None) -> None:
        """Show that `check` is the latest of `done` finished ones."""
        if check and check.verdict in (Verdict.FAIL, Verdict.ERROR):
            self.findings += 1
        said = f"{self.findings} red" if self.findings else ""
        if self.bar:
            self.bar.update(self.task, completed=done, total=total or None, findings=said)
        else:
            self._line(done, total, said)

    def _line(self, done: int, total: int, said: str) -> None:
        step = done * LINES // total if total else 0
        if step > self.shown:
            self.shown = step
            self.console.print(
                f"{done}/{total} checks{', ' if said else ''}{said}", highlight=False
            )
