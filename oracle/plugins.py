"""Custom logits processors among the contract's steps.

PLUG01: a processor that is argmax-invariant runs after temperature and min-p and so changes random
rows only; any other runs after the built-in processors and before the penalties. PLUG02: within its
class each keeps the order given, installed entry points before those named in the call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aliquot.oracle.pipeline import Step, Steps

CLAUSES = ("PLUG01", "PLUG02")


@dataclass(frozen=True)
class Processor:
    """A custom step and whether it claims never to change a row's argmax."""

    step: Step
    argmax_invariant: bool


def placed(steps: Steps, processors: Sequence[Processor]) -> Steps:
    """The steps with custom processors at their places (PLUG01); the steps must hold penalties and min_p."""
    out: list[Step] = []
    for step in steps:
        if step.name == "penalties":
            out += [p.step for p in processors if not p.argmax_invariant]  # PLUG01 PLUG02
        out.append(step)
        if step.name == "min_p":
            out += [p.step for p in processors if p.argmax_invariant]  # PLUG01 PLUG02
    return tuple(out)
