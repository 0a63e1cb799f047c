"""What the oracle expects of each row of a case: must and may, law, intervals, replayed tokens."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance import replay_test
from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.vectors.archive import Archive
from aliquot.conformance.vectors.question import DRAWS, LOGPROBS, REPLAYS
from aliquot.conformance.vectors.recorder import Entry
from aliquot.contract.accuracy import AccuracyClass
from aliquot.contract.batch import LOGPROBS_MODES
from aliquot.contract.profile import Profile

Values = npt.NDArray[Any]
LARGE = 4096
LAW_DRAWS = 4000
NEVER = float(np.finfo(np.float64).max)


class Expected:
    """Describes what is expected, as JSON values that name arrays of the archive."""

    def __init__(self, archive: Archive, profile: Profile, accuracy: AccuracyClass) -> None:
        self.archive, self.profile, self.accuracy = archive, profile, accuracy

    def of(self, entry: Entry) -> list[dict[str, Any]]:
        """What is expected of each row; of a row without a law nothing, of one refused for a parameter neither."""
        case, refused = entry.question.case, entry.refused
        if refused and "field" in refused:
            return [{} for _ in case.requests]
        good = [r for r in range(len(case.requests)) if not refused or r != refused["row"]]
        expected = self._expect(case.only(good))
        found: list[dict[str, Any]] = [{"bad": True} for _ in case.requests]
        for place, r in enumerate(good):
            found[r] = self._row(entry, expected, place, r)
        return found

    def _expect(self, case: Case) -> Expectation:
        return Expectation(case, self.profile, self.accuracy)

    def _row(self, entry: Entry, expected: Expectation, r: int, given_as: int) -> dict[str, Any]:
        must, may = expected.surely_kept(r), expected.drawable(r)
        told: dict[str, Any] = {"must": self._ids(must), "may": self._ids(may)}
        if r in expected.greedy_rows:
            told["greedy"] = True
        elif _needs_law(entry, may):
            told["law"] = self.archive.add(expected.laws[r][may])
        for mode in LOGPROBS_MODES:
            if mode in entry.asks:
                told |= self._shown(mode, self._in_mode(expected, mode), r)
        if LOGPROBS in entry.asks:
            told |= self._shown(LOGPROBS, expected, r)
        for kind in REPLAYS:
            if kind in entry.asks and r not in expected.greedy_rows:
                told[kind] = self._replayed(entry, expected, r, given_as, kind)
        return told

    def _in_mode(self, expected: Expectation, mode: Any) -> Expectation:
        return self._expect(replace(expected.case, mode=mode))

    def _ids(self, chosen: npt.NDArray[np.bool_]) -> str:
        """The chosen ids, ascending int32; `all` for the whole vocabulary."""
        return "all" if chosen.all() else self.archive.add(np.flatnonzero(chosen).astype(np.int32))

    def _shown(self, kind: str, expected: Expectation, r: int) -> dict[str, dict[str, str]]:
        """The tokens that may have a value, its least and largest, float32, and ranks beside reported logprobs.

        All other tokens are -inf. Rows with many values are left to the judge: they would fill most of the file.
        """
        low, high = expected.shown.lo[r], expected.shown.hi[r]
        alive = high > -np.inf
        if np.count_nonzero(alive) > LARGE:
            return {}
        bounds = {"low": low[alive].astype(np.float32), "high": high[alive].astype(np.float32)}
        if kind == LOGPROBS:
            bounds["least_rank"] = expected.ranks.lo[r][alive].astype(np.int32)
            bounds["largest_rank"] = expected.ranks.hi[r][alive].astype(np.int32)
        named = {name: self.archive.add(values) for name, values in bounds.items()}
        return {kind: {"ids": self._ids(alive), **named}}

    def _replayed(
        self, entry: Entry, expected: Expectation, r: int, given_as: int, kind: str
    ) -> dict[str, str]:
        """The token of each draw, by how much it won, and how much of that rounding may take."""
        assert entry.question.noise is not None
        noise, ids = entry.question.noise[:, given_as], entry.answers[kind][:, given_as]
        told = {"ids": self.archive.add(ids.astype(np.int32))}
        if np.count_nonzero(expected.laws[r]) > 1:
            runner_up = _runner_up(expected.laws[r], kind, noise, ids)
            found = replay_test.replayed(expected, r, runner_up, kind, noise)
            told["margin"] = self.archive.add(found.margin)
            told["bound"] = self.archive.add(np.minimum(found.bound, NEVER))
        return told


def _needs_law(entry: Entry, may: Values) -> bool:
    """Whether a row's law is written: where draws or noise test it, and for all small rows that are drawn from."""
    if entry.asks.keys() & set(REPLAYS):
        return True
    draws = entry.asks.get(DRAWS, 0)
    return draws >= LAW_DRAWS or (draws > 0 and int(np.count_nonzero(may)) <= LARGE)


def _runner_up(law: Values, kind: str, noise: Values, ids: Values) -> Values:
    """The token that would have won each draw had the noise been a little different."""
    if kind != REPLAYS[0]:
        with np.errstate(divide="ignore"):
            scores = law / noise
        scores[np.arange(len(ids)), ids] = -1.0
        return np.asarray(scores.argmax(axis=1))
    tokens = np.flatnonzero(law)
    mass = np.concatenate([[0.0], np.cumsum(law[tokens])]) / law[tokens].sum()
    place = np.searchsorted(tokens, ids)
    step = np.where(noise - mass[place] < mass[place + 1] - noise, -1, 1)
    step[place == 0], step[place == tokens.size - 1] = 1, -1
    return np.asarray(tokens[place + step])
