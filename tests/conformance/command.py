"""Runs the command line as a user does, in a process of its own."""

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from aliquot.conformance.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both outputs together."""
        return self.out + self.err


def aliquot(*arguments: str, cwd: Path, **variables: str) -> Ended:
    """Run `aliquot` with these arguments in the folder `cwd`, with these environment variables set."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **variables}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [sys.executable, "-c", "from aliquot.conformance.cli import main; main()", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def aliquot_here(*arguments: str, cwd: Path) -> Ended:
    """As `aliquot`, in this process: for commands that cannot end it, several times quicker."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            return Ended(int(ended.code or 0), out.getvalue(), err.getvalue())
