"""Runs the command line as a user does, in a process of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


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
