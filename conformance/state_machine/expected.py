"""What a fresh oracle and a fresh batch say of each row, looked up by what decides the row."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from aliquot.conformance.judge import Judge
from aliquot.conformance.state_machine.engine import Step
from aliquot.conformance.state_machine.requests import Key, Requests

NO_SEED = -1
Flags = npt.NDArray[np.bool_]


class Expected:
    """The oracle's answers, each asked for once: ends `low` and `high` of whole rows, tokens that may be drawn.

    `alone` holds the token that the backend itself draws for a seeded request in a fresh batch, NO_SEED for others.
    """

    def __init__(self, judge: Judge, asked: Requests) -> None:
        self.judge, self.asked = judge, asked
        self.place: dict[Key, int] = {}
        self.low: list[npt.NDArray[np.float64]] = []
        self.high: list[npt.NDArray[np.float64]] = []
        self.may: list[Flags] = []
        self.alone: list[int] = []

    def departs(self, steps: Sequence[Step]) -> tuple[int, int] | None:
        """The first (step, row) whose values or token are not what they should be."""
        rows = [(i, r, key) for i, step in enumerate(steps) for r, key in enumerate(step.keys)]
        if not rows:
            return None
        self._learn([key for _, _, key in rows])
        wrong = self._wrong([self.place[key] for _, _, key in rows], steps)
        return rows[int(wrong.argmax())][:2] if wrong.any() else None

    def _wrong(self, places: list[int], steps: Sequence[Step]) -> Flags:
        """Whether each row departs, bool [rows of all steps]."""
        ids = np.concatenate([step.answer.ids for step in steps])
        may, alone = np.array([self.may[p] for p in places]), np.array(self.alone)[places]
        wrong: Flags = ~may[np.arange(len(ids)), ids] | ((alone != NO_SEED) & (alone != ids))
        if self.asked.shown:
            values = np.concatenate([step.values for step in steps if step.keys])
            low, high = (np.array([end[p] for p in places]) for end in (self.low, self.high))
            wrong |= ~((low <= values) & (values <= high)).all(axis=1)
        return wrong

    def _learn(self, keys: Sequence[Key]) -> None:
        """Ask for what is not known yet, in one batch."""
        new = [key for key in dict.fromkeys(keys) if key not in self.place]
        if not new:
            return
        self.place |= {key: len(self.place) + i for i, key in enumerate(new)}
        expected = self.judge.expect(self.asked.case("fresh", new))
        self.may += [expected.drawable(r) for r in range(len(new))]
        if self.asked.shown:
            self.low += list(expected.shown.lo)
            self.high += list(expected.shown.hi)
        self.alone += self._alone(new)

    def _alone(self, keys: Sequence[Key]) -> list[int]:
        """The backend's own tokens of the seeded random requests, each in the place of its key."""
        kinds = self.asked.kinds
        seeded = [
            i for i, (kind, _) in enumerate(keys)
            if kinds[kind].params.seed is not None and not kinds[kind].params.greedy
        ]  # fmt: skip
        tokens = [NO_SEED] * len(keys)
        if seeded:
            answer = self.judge.answer(self.asked.case("fresh", [keys[i] for i in seeded]))
            for i, token in zip(seeded, answer.ids.tolist(), strict=True):
                tokens[i] = token
        return tokens
