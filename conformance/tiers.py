"""Tiers: how much a run may spend, stated before it starts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tier:
    """A budget: draws for a law, a replay and a support check, and real rows a check looks at."""

    name: str
    about: str
    law_draws: int
    replay_draws: int
    support_draws: int
    real_rows: int


TIERS = {
    tier.name: tier
    for tier in (
        Tier("smoke", "a look, in seconds", 4_000, 1_000, 64, 2),
        Tier("pr", "the gate for a change", 20_000, 4_700, 256, 6),
        Tier("full", "a release, in minutes", 100_000, 20_000, 1_024, 24),
    )
}
ALPHA = 1e-6
