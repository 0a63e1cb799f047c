"""Short forms for batches and processors of these tests."""

import torch

from aliquot.contract.batch import BatchUpdate, MoveDirectionality
from aliquot.fast.processors.interface import EngineConfig, LogitsProcessor, RequestParams

P = RequestParams
UNI, SWAP = MoveDirectionality.UNIDIRECTIONAL, MoveDirectionality.SWAP
NEG = -torch.inf
CPU = torch.device("cpu")
CONFIG = EngineConfig.of(max_num_seqs=8, vocab_size=4)


class Custom(LogitsProcessor):
    """Does nothing and claims not to be argmax-invariant."""

    invariant = False

    def __init__(self, config, device, is_pin_memory):
        self.built_with = (config, device, is_pin_memory)

    def apply(self, logits):
        """Nothing."""
        return logits

    def is_argmax_invariant(self):
        """As the class says."""
        return self.invariant

    def update_state(self, batch_update):
        """Nothing."""


class Invariant(Custom):
    """Claims to be argmax-invariant."""

    invariant = True


class Broken(Custom):
    """Cannot be built."""

    def __init__(self, config, device, is_pin_memory):
        raise OSError("no memory")


def made(cls):
    """An instance for a batch of at most 8 rows of 4 tokens."""
    return cls(CONFIG, CPU, False)


def holding(cls, *params, output=()):
    """An instance with one row for each of `params`."""
    processor = made(cls)
    added = [(row, p, (), list(output)) for row, p in enumerate(params)]
    processor.update_state(BatchUpdate(batch_size=len(params), added=added))
    return processor


def changed(processor, *rows):
    """What the processor makes of these rows."""
    return processor.apply(torch.tensor(rows)).tolist()
