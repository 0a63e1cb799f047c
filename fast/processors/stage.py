"""Custom processors at their two places in the sampler (PLUG01)."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from aliquot.contract.batch import BatchUpdate
from aliquot.contract.profile import Profile, ProfileError
from aliquot.fast.processors.builtin import BUILT_IN, MinP
from aliquot.fast.processors.collection import LogitsProcessors
from aliquot.fast.processors.interface import LogitsProcessor


class Stage:
    """Processors that run one after the other; its length is their number."""

    follows_output = True

    def __init__(self, processors: Sequence[LogitsProcessor], *, argmax_invariant: bool) -> None:
        self._processors, self._claim = processors, argmax_invariant

    def __len__(self) -> int:
        return len(self._processors)

    def update_state(self, update: BatchUpdate | None) -> None:
        """Hand the change to each, None included."""
        for processor in self._processors:
            processor.update_state(update)

    def apply(self, logits: Tensor) -> Tensor:
        """Apply each; raises ValueError when one returns another shape or dtype."""
        for processor in self._processors:
            after = processor.apply(logits)
            if after.shape != logits.shape or after.dtype != logits.dtype:
                raise ValueError(
                    f"logits processor {type(processor).__name__}: returned {after.dtype} "
                    f"{tuple(after.shape)}, allowed is {logits.dtype} {tuple(logits.shape)}"
                )
            logits = after
        return logits

    def is_argmax_invariant(self) -> bool:
        """The claim of all its processors."""
        return self._claim


def before_penalties(processors: LogitsProcessors) -> Stage:
    """The custom processors that may change the argmax; the sampler has the built-in ones itself."""
    return Stage(_custom(processors.non_argmax_invariant), argmax_invariant=False)


def after_temperature(
    processors: LogitsProcessors, device: torch.device, profile: Profile
) -> Stage:
    """min-p and then the custom argmax-invariant processors; empty when there are none of these.

    Raises ProfileError for a profile that filters before temperature: its rows are nowhere as they expect them.
    """
    custom = _custom(processors.argmax_invariant)
    places = (profile.temperature_order, profile.minp_order)
    if custom and places != ("before", "after_temperature"):
        raise ProfileError(
            f"profile: temperature_order and minp_order are {places}, allowed with argmax-invariant logits "
            "processors is ('before', 'after_temperature')"
        )
    found = [MinP(None, device, False), *custom] if custom else []
    return Stage(found, argmax_invariant=True)


def _custom(processors: Iterable[LogitsProcessor]) -> list[LogitsProcessor]:
    return [processor for processor in processors if not isinstance(processor, BUILT_IN)]
