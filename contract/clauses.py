"""The contract's clauses as data, read from clauses.toml."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One numbered rule.

    `level` is must, should or may; `formula` is empty where none helps; `freedom` names the field
    of Profile in which samplers may differ, or is empty.
    """

    id: str
    group: str
    title: str
    text: str
    level: str
    formula: str = ""
    freedom: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """A chapter of the contract: its clauses share the id prefix."""

    name: str
    prefix: str
    about: str
    clauses: tuple[Clause, ...]


@cache
def groups() -> tuple[Group, ...]:
    """All groups in the contract's order."""
    data = tomllib.loads(files("aliquot.contract").joinpath("clauses.toml").read_text("utf-8"))
    return tuple(_group(entry) for entry in data["group"])


def _group(entry: dict[str, Any]) -> Group:
    clauses = tuple(Clause(group=entry["name"], **clause) for clause in entry["clause"])
    return Group(name=entry["name"], prefix=entry["prefix"], about=entry["about"], clauses=clauses)


@cache
def clauses() -> dict[str, Clause]:
    """Every clause by its id, in the contract's order."""
    return {clause.id: clause for group in groups() for clause in group.clauses}
