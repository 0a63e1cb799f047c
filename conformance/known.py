"""Known failures: a TOML file of checks or clauses that may fail, each with a reason, a link and a date of expiry.

An entry covers a failure of the check or clause that it names; with `says`, only one whose reason contains that text. A
check that breaks another clause than its own (it crashes, ERR18, or answers in a wrong form, IO06) is not covered by
its id alone. An entry that expired, that names no check of the run or whose failure did not come is a failure itself.
"""

import datetime
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from aliquot.contract.clauses import clauses
from aliquot.reports.results import CheckResult, Finding, KnownFailure, Verdict
from aliquot.reports.text import plural

TEXTS = ("check", "clause", "says", "reason", "link")
NEEDED = ("reason", "link", "expires")
_CLAUSE = re.compile(r"[A-Z]+\d\d")


class KnownError(ValueError):
    """A file of known failures that cannot be used; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One known failure: of a check, of a clause, or of a check where it breaks that clause."""

    reason: str
    link: str
    expires: datetime.date
    check: str = ""
    clause: str = ""
    says: str = ""

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in ("check", "clause", "says")}
        return ", ".join(f"{name} {text}" for name, text in parts.items() if text)

    def names(self, check: CheckResult) -> bool:
        """Whether the entry speaks of this check, however it ended."""
        tested = {*_own_clauses(check), *check.clauses}
        return self.check in ("", check.id) and (not self.clause or self.clause in tested)

    def covers(self, check: CheckResult) -> bool:
        """Whether this is the failure that the entry knows."""
        broken = {self.clause} if self.clause else _own_clauses(check)
        return (
            check.verdict is Verdict.FAIL
            and self.names(check)
            and not broken.isdisjoint(check.clauses)
            and self.says in check.reason
        )


def _own_clauses(check: CheckResult) -> set[str]:
    """The clauses that a check is named after."""
    return set(_CLAUSE.findall(check.id.partition("[")[0]))


@dataclass(frozen=True)
class Known:
    """The known failures of one run; an entry is good until the end of its day."""

    entries: tuple[Entry, ...]
    today: datetime.date
    path: str = ""

    def mark(self, check: CheckResult) -> CheckResult:
        """The check, its verdict KNOWN when a valid entry covers it."""
        entry = next((e for e in self._valid() if e.covers(check)), None)
        if entry is None:
            return check
        until = entry.expires.isoformat()
        known = KnownFailure(entry=str(entry), reason=entry.reason, link=entry.link, expires=until)
        reason = f"known until {until}: {entry.reason}; {check.reason}"
        return replace(check, verdict=Verdict.KNOWN, reason=reason, known=known)

    def verdicts(self, checks: Mapping[str, CheckResult], *, whole: bool) -> dict[str, CheckResult]:
        """A failure for every entry that does not hold of the marked checks; in part of a run none is unmatched."""
        told = ((entry, self._wrong(entry, checks.values(), whole)) for entry in self.entries)
        made = [self._failure(entry, said) for entry, said in told if said]
        return {check.id: check for check in made}

    def _valid(self) -> Iterable[Entry]:
        return (entry for entry in self.entries if entry.expires >= self.today)

    def _wrong(self, entry: Entry, checks: Iterable[CheckResult], whole: bool) -> str:
        """What is wrong with an entry, or nothing."""
        if entry.expires < self.today:
            return f"the entry expired on {entry.expires.isoformat()}"
        named = [check for check in checks if entry.names(check)]
        if not named:
            return "the entry names no check of this run" if whole else ""
        if any(entry.covers(replace(c, verdict=Verdict.FAIL)) for c in named if c.known):
            return ""
        ends = sorted({str(check.verdict) for check in named})
        return f"the failure did not come: {plural(len(named), 'check')} ended as {', '.join(ends)}"

    def _failure(self, entry: Entry, said: str) -> CheckResult:
        finding = Finding(
            witness={"file": self.path, "entry": _plain(entry)},
            wanted="an entry that is valid and whose failure comes",
            got=said,
            reproduce="",
        )
        return CheckResult(
            id=f"known failure: {entry}", clauses=(), group="known failures",
            title="Known failures are up to date", case=self.path, evidence="exact",
            verdict=Verdict.FAIL, reason=said, finding=finding,
        )  # fmt: skip


def _plain(entry: Entry) -> dict[str, str]:
    return {name: str(value) for name, value in asdict(entry).items() if value}


NONE_KNOWN = Known((), datetime.date.min)


def read(path: Path, today: datetime.date) -> Known:
    """The known failures in a file; raises KnownError with one line that says what is wrong and what is allowed."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KnownError(f"--known {path}: {error.strerror}") from error
    except ValueError as error:
        raise KnownError(f"--known {path}: not TOML in UTF-8: {error}") from error
    listed = data.get("known", [])
    if set(data) - {"known"} or not isinstance(listed, list):
        found = ", ".join(sorted(data)) or "nothing"
        raise KnownError(f"--known {path}: has {found}, allowed are tables [[known]]")
    entries: list[Entry] = []
    for number, given in enumerate(listed, 1):
        entry = _entry(f"--known {path}: entry {number}", given)
        if str(entry) in map(str, entries):
            raise KnownError(f"--known {path}: entry {number}: {entry} is listed before")
        entries.append(entry)
    return Known(tuple(entries), today, str(path))


def _entry(where: str, given: Any) -> Entry:
    """One entry from its TOML table."""
    if not isinstance(given, dict):
        raise KnownError(f"{where}: is {given!r}, allowed is a table")
    unknown = sorted(set(given) - {*TEXTS, "expires"})
    if unknown:
        allowed = ", ".join((*TEXTS, "expires"))
        raise KnownError(f"{where}: has {', '.join(unknown)}, allowed are {allowed}")
    missing = [name for name in NEEDED if name not in given]
    if missing or not ("check" in given or "clause" in given):
        raise KnownError(f"{where}: lacks {', '.join(missing) or 'check or clause'}")
    for name in TEXTS:
        if not isinstance(given.get(name, "-"), str) or not given.get(name, "-").strip():
            raise KnownError(f"{where}: {name} is {given[name]!r}, allowed is a text")
    if type(given["expires"]) is not datetime.date:
        raise KnownError(
            f"{where}: expires is {given['expires']!r}, allowed is a date such as 2030-12-31"
        )
    if given.get("clause", "IO01") not in clauses():
        raise KnownError(f"{where}: clause {given['clause']} is not in the contract")
    return Entry(**given)
