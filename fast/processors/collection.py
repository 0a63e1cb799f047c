"""The processors of a sampler, in the two lists that decide where each runs."""

from collections.abc import Iterable, Iterator
from itertools import chain

from aliquot.contract.batch import BatchUpdate
from aliquot.contract.params import SamplingParams
from aliquot.fast.processors.interface import LogitsProcessor


class LogitsProcessors:
    """Processors by their claim (PLUG01), each list in the order given (PLUG02).

    `non_argmax_invariant` runs for all rows before the penalties, `argmax_invariant` for random rows after
    temperature. Raises ValueError when a claim is not a bool.
    """

    def __init__(self, processors: Iterable[LogitsProcessor] = ()) -> None:
        self.argmax_invariant: list[LogitsProcessor] = []
        self.non_argmax_invariant: list[LogitsProcessor] = []
        for processor in processors:
            lists = {True: self.argmax_invariant, False: self.non_argmax_invariant}
            lists[_claim(processor)].append(processor)

    @property
    def all(self) -> Iterator[LogitsProcessor]:
        """Every processor once."""
        return chain(self.argmax_invariant, self.non_argmax_invariant)

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Hand a change of the batch to every processor."""
        for processor in self.all:
            processor.update_state(batch_update)

    def validate_params(self, params: SamplingParams) -> None:
        """Ask every processor's hook; raises its ValueError (PLUG07)."""
        for processor in self.all:
            processor.validate_params(params)


def _claim(processor: LogitsProcessor) -> bool:
    claim: object = processor.is_argmax_invariant()
    if not isinstance(claim, bool):
        raise ValueError(
            f"{type(processor).__name__}: is_argmax_invariant() is {claim!r}, allowed are True and False"
        )
    return claim
