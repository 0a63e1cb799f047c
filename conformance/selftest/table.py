"""The kill table: in the terminal, and its summary in words and numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich.table import Table

from aliquot.conformance.selftest.outcome import Outcome


@dataclass(frozen=True)
class Summary:
    """Counts over the faults and over the equivalent samplers of a self-test."""

    faults: int
    reports: int
    killed: int
    own_clause: int
    right_cause: int
    equivalents: int
    flagged: int

    @staticmethod
    def of(found: Iterable[Outcome]) -> "Summary":
        """The counts over some outcomes."""
        every = list(found)
        faults = [o for o in every if not o.equivalent]
        equal = [o for o in every if o.equivalent]
        return Summary(
            faults=len(faults),
            reports=len({o.report for o in faults}),
            killed=sum(o.as_wanted for o in faults),
            own_clause=sum(o.own_clause for o in faults),
            right_cause=sum(o.right_cause for o in faults),
            equivalents=len(equal),
            flagged=sum(not o.as_wanted for o in equal),
        )

    @property
    def passed(self) -> bool:
        """Whether every fault is killed and no equivalent sampler flagged."""
        return self.killed == self.faults and not self.flagged

    def __str__(self) -> str:
        return (
            f"{self.killed} of {self.faults} faults killed (modelled on {self.reports} reports), "
            f"first at a clause of their own {self.own_clause}, likely cause right {self.right_cause}; "
            f"{self.flagged} of {self.equivalents} equivalent samplers flagged"
        )


def ordered(found: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes by class and name, equivalent samplers last."""

    def place(o: Outcome) -> tuple[bool, int, str]:
        return o.equivalent, 0 if o.equivalent else int(o.group.removeprefix("F")), o.name

    return sorted(found, key=place)


def kill_table(found: Sequence[Outcome]) -> Table:
    """The outcomes as a table for the terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("fault", "class", "killed by", "draws", "red", "first clause", "own", "cause"):
        right = name in ("draws", "red")
        table.add_column(name, overflow="fold", justify="right" if right else "left")
    for o in ordered(found):
        table.add_row(*cells(o))
    return table


def cells(o: Outcome) -> tuple[str, ...]:
    """One outcome in words: a fault that survives or an equivalent sampler that is flagged stands out."""
    killed = ", ".join(o.killed_by) or ("-" if o.equivalent else "SURVIVES")
    if o.equivalent and not o.as_wanted:
        killed = f"FLAGGED by {', '.join(o.killed_by) or 'errors'}"
    return (
        o.name,
        o.group,
        killed,
        str(o.draws) if o.failed else "",
        f"{o.failed} of {o.checks}",
        " ".join(o.first),
        _yes(o.own_clause) if o.failed else "",
        _cause(o),
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _cause(o: Outcome) -> str:
    if not o.failed:
        return ""
    return "right" if o.right_cause else f"wrong: {o.cause or 'none given'}"


def as_data(found: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The outcomes as JSON values."""
    return [
        asdict(o) | {"own_clause": o.own_clause, "right_cause": o.right_cause, "draws": o.draws}
        for o in ordered(found)
    ]


def from_data(data: Iterable[dict[str, Any]]) -> list[Outcome]:
    """The outcomes in JSON values."""
    several = ("breaks", "first")
    kept = [{f.name: item[f.name] for f in fields(Outcome)} for item in data]
    return [Outcome(**{**item, **{name: tuple(item[name]) for name in several}}) for item in kept]
