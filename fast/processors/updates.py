"""Gathers what happens to a persistent batch during a step into one BatchUpdate."""

from aliquot.contract.batch import Added, BatchUpdate, Moved


class BatchUpdateBuilder:
    """Collects removals first, then additions and moves, and hands them out as one update.

    Rows removed are kept in descending order, so that the lowest free row is filled first. Nothing may be
    removed once they were read: what was filled would be lost.
    """

    def __init__(self) -> None:
        self._removed: list[int] = []
        self._read = False
        self.added: list[Added] = []
        self.moved: list[Moved] = []

    def removed_append(self, row: int) -> None:
        """Note that `row` was emptied.

        Raises RuntimeError once the removed rows were read in this step.
        """
        if self._read:
            raise RuntimeError(
                f"batch update: row {row} is removed after the removed rows were read, "
                "allowed is to remove first and then to read, fill and move"
            )
        self._removed.append(row)

    @property
    def removed(self) -> list[int]:
        """The rows removed and not filled again, descending."""
        if not self._read:
            self._removed.sort(reverse=True)
            self._read = True
        return self._removed

    def peek_removed(self) -> int | None:
        """The lowest removed row, None when there is none."""
        return self.removed[-1] if self.removed else None

    def pop_removed(self) -> int | None:
        """The lowest removed row, which is then no longer removed: it is about to be filled."""
        return self.removed.pop() if self.removed else None

    def get_and_reset(self, batch_size: int) -> BatchUpdate | None:
        """The update of this step, None when nothing happened; begins the next step."""
        changed = bool(self._removed or self.added or self.moved)
        update = BatchUpdate(
            batch_size=batch_size, removed=self.removed, added=self.added, moved=self.moved
        )
        self.reset()
        return update if changed else None

    def reset(self) -> None:
        """Forget this step."""
        self._removed, self.added, self.moved = [], [], []
        self._read = False
