"""The backend's own noise: replayed through the oracle, and injected at the ends of its range."""

from functools import partial

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays, replay_test
from aliquot.conformance.case import Case
from aliquot.conformance.judging.draws import Draws, Ids
from aliquot.conformance.judging.exact import ids_in_words
from aliquot.reports.results import Verdict
from aliquot.statistical.replay import Replay

Found = dict[int, list[tuple[str, Replay]]]

EXTREMES = {
    "inverse_cdf": (0.0, 2.0**-53, 2.0**-24, 0.5, 1 - 2.0**-24, 1 - 2.0**-53, 1.0),
    "gumbel": (-np.inf, -3e38, 0.0, 3e38, np.inf),
    "exponential_race": (0.0, 5e-324, 1.0, 3e38, np.inf),
}


class Noise(Draws):
    """Takes and gives the noise of a replayable backend."""

    def replays(self, case: Case) -> None:
        """With the backend's own noise the oracle draws the same tokens, where the noise can be had."""
        self.supports(case)
        if not self._replayable:
            self.conclude(Verdict.UNSUPPORTED, "not declared: replayable noise")
        self._judge_replay(case, *self._replayed(case, self.session.tier.replay_draws))

    def law(self, case: Case) -> None:
        """The draws of every random row follow the oracle's law.

        Where the noise can be had, each draw is replayed. What is left to doubt is the noise, so that fewer draws do.
        """
        if not self._replayable:
            return super().law(case)
        self.supports(case)
        draws = min(self.session.tier.replay_draws, self._law_draws(case))
        self._in_rounds(draws, partial(self._drawn_with_noise, case), partial(self._laws, case))
        return None

    @property
    def _replayable(self) -> bool:
        return self.session.capabilities.noise == "replayable"

    def _drawn_with_noise(self, case: Case, draws: int) -> Ids:
        """Draws [draws, rows] inside the allowed sets, those of random rows as the oracle makes of their noise."""
        ids, found = self._replayed(case, draws)
        self._inside(case, ids)
        self._judge_replay(case, ids, found)
        return ids

    def _replayed(self, case: Case, draws: int) -> tuple[Ids, Found]:
        """Draw every row of the case `draws` times: int64 [draws, rows], and by random row the replay in parts."""
        expected, rows = self.expect(case), len(case.requests)
        drawn: list[Ids] = []
        found: Found = {r: [] for r in range(rows) if r not in expected.greedy_rows}
        for part in self._parts(case, draws):
            ids = self.answer(part).ids.reshape(-1, rows)
            kind, noise = self._noise(part)
            noise = noise.reshape(-1, rows, *noise.shape[1:])
            drawn.append(ids)
            for r, parts in found.items():
                done = replay_test.replayed(expected, r, ids[:, r], kind, noise[:, r])
                parts.append((kind, done))
        return np.concatenate(drawn), found

    def _judge_replay(self, case: Case, ids: Ids, found: Found) -> None:
        """Fail at the first draw that no rounding explains."""
        for r, parts in found.items():
            kinds, done = zip(*parts, strict=True)
            replay_test.judge_found(self, case, r, ids[:, r], kinds[0], done)

    def _noise(self, case: Case) -> tuple[str, npt.NDArray[np.float64]]:
        """The noise of the last call, its form checked."""
        found = self.ask(case.name, "last_noise")
        n, vocab = case.logits.shape
        shapes = {"inverse_cdf": (n,), "gumbel": (n, vocab), "exponential_race": (n, vocab)}
        try:
            kind, values = found
            noise = np.asarray(arrays.to_numpy(values), dtype=np.float64)
            right = noise.shape == shapes[kind]
        except (TypeError, ValueError, KeyError):
            right = False
        if not right:
            self.fail(case, 0, f"noise (kind, values) with shapes {shapes}", f"{found!r:.80}")
        return kind, noise

    def extremes(self, case: Case) -> None:
        """Injected noise at the ends of its range draws only tokens that may be kept (DRAW05)."""
        self.supports(case)
        if self.session.capabilities.noise != "replayable":
            self.conclude(Verdict.UNSUPPORTED, "not declared: replayable noise")
        self.answer(case)
        kind, last = self._noise(case)
        injected = [np.full(last.shape, value) for value in EXTREMES[kind]]
        if last.ndim == 2:
            masked = ~np.stack([self.expect(case).drawable(r) for r in range(len(last))])
            injected += [np.where(masked, value, last) for value in EXTREMES[kind]]
        for values in injected:
            self._inject(case, kind, values)
        self.passed("injected noise", f"{len(injected)} extreme values of {kind} noise")

    def _inject(self, case: Case, kind: str, values: npt.NDArray[np.float64]) -> None:
        self.ask(case.name, "inject", values)
        ids, expected = self.again(case).ids, self.expect(case)
        if not np.array_equal(self._noise(case)[1], values):
            self.fail(case, 0, "the injected noise to be used", "other noise")
        for r in range(len(case.requests)):
            if not expected.drawable(r)[ids[r]]:
                wanted = ids_in_words(np.flatnonzero(expected.drawable(r)))
                said = f"an id in {wanted} for {kind} noise {float(values.flat[0])!r}"
                self.fail(case, r, said, f"id {ids[r]}", tokens=[int(ids[r])])
