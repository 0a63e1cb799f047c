"""`aliquot selftest`: does the suite catch what it should?"""

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from aliquot.conformance.tiers import TIERS

Tier = StrEnum("Tier", {n: n for n in TIERS if not TIERS[n].open_ended})  # type: ignore[misc]
GATE = Tier("pr")
SURVIVED, WRONG_USE = 1, 2


def selftest(
    tier: Annotated[Tier, typer.Option(help="Budget of draws.")] = GATE,
    only: Annotated[str | None, typer.Option(help="Samplers whose name begins so.")] = None,
    workers: Annotated[int, typer.Option("-n", "--workers", min=0, help="Processes.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the runs' noise.")] = 0,
    checks: Annotated[str | None, typer.Option(help="Checks whose id begins so.")] = None,
    quick: Annotated[
        bool, typer.Option(help="End a faulty sampler at its first red check.")
    ] = False,
    ids_only: Annotated[
        bool, typer.Option("--ids-only", help="The samplers show neither values nor noise.")
    ] = False,
    json_to: Annotated[
        Path | None, typer.Option("--json", help="Also write the table as JSON.")
    ] = None,
) -> None:
    """Run the suites on every known faulty sampler and every equivalent one; print the kill table.

    Exit code 0: all faults are killed and no equivalent sampler is flagged. 1: not so. 2: wrong use.
    """
    from aliquot.conformance.run import RunError, environment
    from aliquot.conformance.selftest.outcome import KNOWN, Conditions, outcomes
    from aliquot.conformance.selftest.table import Summary, as_data, kill_table

    out = Console(highlight=False, markup=False, emoji=False)
    err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
    names = [name for name in KNOWN if name.startswith(only or "")]
    if not names:
        err.print(
            f"aliquot: --only {only}: no sampler has a name that begins so, see aliquot list faults"
        )
        raise typer.Exit(WRONG_USE)
    conditions = Conditions(tier.value, seed, checks, quick, ids_only)
    start, found = time.perf_counter(), []
    try:
        for o in outcomes(names, conditions, workers=workers):
            found.append(o)
            err.print(f"{len(found)}/{len(names)} {o.name}: {o.failed} of {o.checks} red")
    except RunError as error:
        err.print(f"aliquot: {error}")
        raise typer.Exit(WRONG_USE) from None
    summary, seconds = Summary.of(found), time.perf_counter() - start
    out.print(kill_table(found))
    out.print(f"{summary}; tier {tier.value}, {seconds:.0f} s")
    if json_to is not None:
        data = {"tier": tier.value, "seed": seed, "seconds": round(seconds), "environment": environment(),
                "samplers": as_data(found)}  # fmt: skip
        json_to.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(0 if summary.passed else SURVIVED)
