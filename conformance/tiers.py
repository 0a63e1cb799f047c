"""Tiers: how much a run may spend, stated before it starts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tier:
    """A budget: draws for a law, a replay and a support check, real rows a check looks at, steps of a persistent batch.

    In an open-ended tier each law check draws on, until its e-process decides or its part of the time is used up.
    """

    name: str
    about: str
    law_draws: int
    law_values: int
    replay_draws: int
    support_draws: int
    real_rows: int
    state_steps: int
    open_ended: bool = False


TIERS = {
    tier.name: tier
    for tier in (
        Tier("smoke", "a look, in seconds", 4_000, 1 << 26, 1_000, 64, 2, 400),
        Tier("pr", "the gate for a change", 20_000, 1 << 28, 4_700, 256, 6, 2_000),
        Tier("full", "a release, in minutes", 100_000, 1 << 31, 20_000, 1_024, 24, 40_000),
        Tier("deep", "a search, until a budget", 100_000, 1 << 31, 20_000, 1_024, 24, 100_000,
             open_ended=True),
    )
}  # fmt: skip
ALPHA = 1e-6
BUDGET = 60.0
"""Minutes that a run of an open-ended tier may draw on."""

TIME_LIMIT = 60.0
"""Seconds that a backend has for one answer, or to be made."""
