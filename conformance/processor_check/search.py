"""Searches for the smallest example on which a processor goes wrong, with Hypothesis."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import HypothesisException, NoSuchExample
from hypothesis.strategies import SearchStrategy

from aliquot.conformance.examples import without_constants
from aliquot.conformance.processor_check.subject import ProcessorRaised, Subject

EXAMPLES = 120
"""Examples that a search tries before it gives up."""

HARDER = 3


class Example(Protocol):
    """Something that can be shown in a report; its size is its number of requests at first."""

    @property
    def size(self) -> int:
        """The number of requests."""

    def witness(self, subject: Subject) -> dict[str, Any]:
        """The example as JSON values."""


Ex = TypeVar("Ex", bound=Example)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What was wanted and what came; inside the rounding band it is not `decided`."""

    wanted: str
    got: str
    effect: str | None = None
    cause: str | None = None
    decided: bool = True
    witness: dict[str, Any] = field(default_factory=dict)


FICKLE = Difference(
    wanted="the same result whenever a new instance gets the same calls",
    got="results that differ from run to run",
    cause="the processor keeps state outside its instance",
)

Judge = Callable[[Ex], Difference | None]


@dataclass
class Search:
    """What a search found: the fault of the smallest example and its size, and one that rounding could explain."""

    fault: Difference | None = None
    size: int = 0
    undecided: Difference | None = None


def smallest(
    subject: Subject,
    strategy: Callable[[int], SearchStrategy[Ex]],
    largest: int,
    judge: Judge[Ex],
    examples: int = EXAMPLES,
) -> Search:
    """Look for the smallest example that `judge` finds fault with.

    `strategy(size)` makes examples of at most a size. Once a fault is found, smaller sizes are searched harder.
    """
    search = searched(subject, strategy(largest), judge, examples)
    if search.fault is not None:
        for size in range(1, search.size):
            again = searched(subject, strategy(size), judge, HARDER * examples)
            if again.fault is not None:
                return again
    return search


def searched(
    subject: Subject, strategy: SearchStrategy[Ex], judge: Judge[Ex], examples: int
) -> Search:
    """Search one strategy; an exception of the processor is a fault."""
    search = Search()

    def wrong(example: Ex) -> bool:
        difference = fault_of(judge, example)
        if difference is not None and not difference.decided:
            search.undecided = difference
        return difference is not None and difference.decided

    options = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    try:
        with without_constants():
            example = find(strategy, wrong, settings=options, random=Random(subject.seed))
    except NoSuchExample:
        return search
    except HypothesisException:
        return Search(fault=FICKLE)
    found = fault_of(judge, example)
    if found is None:
        return Search(fault=FICKLE)
    search.fault = _with_witness(found, example.witness(subject))
    search.size = example.size
    return search


def fault_of(judge: Judge[Ex], example: Ex) -> Difference | None:
    """What the judge finds; an exception of the processor is a fault."""
    try:
        return judge(example)
    except ProcessorRaised as error:
        return Difference(wanted="no exception", got=str(error))


def _with_witness(found: Difference, witness: dict[str, Any]) -> Difference:
    return Difference(
        wanted=found.wanted,
        got=found.got,
        effect=found.effect,
        cause=found.cause,
        witness=witness | found.witness,
    )
