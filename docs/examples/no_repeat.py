"""Stale state: it forgets that a moved request brings its own settings to its new row."""

from aliquot.contract.batch import MoveDirectionality
from aliquot.fast.processors.interface import LogitsProcessor


class NoRepeat(LogitsProcessor):
    """Forbids the token that came last, for requests with `no_repeat`."""

    def __init__(self, config, device, is_pin_memory):
        self.outputs = {}

    def is_argmax_invariant(self):
        """The best token may be forbidden."""
        return False

    def update_state(self, batch_update):
        """Wrong: a request without `no_repeat` that moves to a row leaves there what the row held before."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self.outputs.pop(row, None)
        for row, params, _prompt_ids, output_ids in batch_update.added:
            self.outputs.pop(row, None)
            if params.extra_args.get("no_repeat"):
                self.outputs[row] = output_ids
        for a, b, direction in batch_update.moved:
            if direction is MoveDirectionality.SWAP:
                held = {b: self.outputs.pop(a, None), a: self.outputs.pop(b, None)}
                self.outputs |= {row: ids for row, ids in held.items() if ids is not None}
            elif a in self.outputs:
                self.outputs[b] = self.outputs.pop(a)

    def apply(self, logits):
        """Mask the last token of each row."""
        for row, output_ids in self.outputs.items():
            if output_ids and output_ids[-1] >= 0:
                logits[row, output_ids[-1]] = float("-inf")
        return logits
