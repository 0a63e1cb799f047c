"""Write a run's files: the results and the pages made from them."""

import os
from contextlib import suppress
from pathlib import Path

from aliquot.reports.html import to_html
from aliquot.reports.junit import to_junit
from aliquot.reports.markdown import to_markdown
from aliquot.reports.results import RunResults, to_json


class WriteError(OSError):
    """A report that cannot be written; the message names the directory and the cause."""


def write_all(results: RunResults, directory: Path) -> dict[str, Path]:
    """Write results.json, junit.xml, summary.md and index.html into `directory`.

    The directory is made if needed. Everything is rendered first, and each file takes its place only
    when it is complete, so a reader never sees half a file. Returns the paths by file name. Raises
    WriteError when the directory or a file cannot be written.
    """
    texts = {
        "results.json": to_json(results),
        "junit.xml": to_junit(results),
        "summary.md": to_markdown(results),
        "index.html": to_html(results),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            _replace(directory / name, text)
    except OSError as error:
        cause = error.strerror or str(error)
        raise WriteError(f"report: cannot write into {directory}: {cause}") from error
    return {name: directory / name for name in texts}


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # A lone surrogate in a message has no UTF-8; in JSON its escape reads back as the same.
        part.write_bytes(text.encode("utf-8", "backslashreplace"))
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
