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

    The directory is made if needed. The files take their places only when all are complete, so a
    reader never sees half a file. Returns the paths by file name. Raises
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
        _replace(directory, texts)
    except OSError as error:
        cause = error.strerror or str(error)
        raise WriteError(f"report: cannot write into {directory}: {cause}") from error
    return {name: directory / name for name in texts}


def _replace(directory: Path, texts: dict[str, str]) -> None:
    parts = {directory / name: directory / f".{name}.{os.getpid()}.part" for name in texts}
    try:
        for part, text in zip(parts.values(), texts.values(), strict=True):
            # A lone surrogate in a message has no UTF-8; in JSON its escape reads back as the same.
            part.write_bytes(text.encode("utf-8", "backslashreplace"))
        for path, part in parts.items():
            part.replace(path)
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink(missing_ok=True)
