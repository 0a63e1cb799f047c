"""A correct processor: the end-of-text token becomes likelier with every token beyond a limit."""

from aliquot.fast.live import RowMap
from aliquot.fast.processors.interface import LogitsProcessor


class PreferShort(LogitsProcessor):
    """Adds 1 to the logit of `eos_token_id` for each output token beyond `soft_limit`."""

    def __init__(self, config, device, is_pin_memory):
        self.rows = RowMap(self.remember)

    @classmethod
    def validate_params(cls, params):
        """Refuse what apply cannot bear, when the request is made."""
        limit = params.extra_args.get("soft_limit")
        if limit is not None and (type(limit) is not int or limit < 0):
            raise ValueError(f"extra_args: soft_limit is {limit!r}, allowed is an integer >= 0")

    @staticmethod
    def remember(added):
        """What a row needs to know: the limit, the token and the live list of output ids."""
        _row, params, _prompt_ids, output_ids = added
        limit = params.extra_args.get("soft_limit")
        if limit is None or params.eos_token_id is None:
            return None
        return limit, params.eos_token_id, output_ids

    def is_argmax_invariant(self):
        """The end may become the best token."""
        return False

    def update_state(self, batch_update):
        """RowMap follows removals, additions, moves and swaps."""
        if batch_update is not None:
            self.rows.update(batch_update)

    def apply(self, logits):
        """Change the rows concerned, in place."""
        for row, (limit, eos, output_ids) in self.rows:
            logits[row, eos] += max(0, len(output_ids) - limit)
        return logits
