"""The backend's own noise: replayed through the oracle, and injected at the ends of its range."""

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays, replay_test
from aliquot.conformance.case import Case
from aliquot.conformance.judging.draws import Draws
from aliquot.conformance.judging.exact import ids_in_words
from aliquot.reports.results import Verdict

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
        if self.session.capabilities.noise != "replayable":
            self.conclude(Verdict.UNSUPPORTED, "not declared: replayable noise")
        expected, rows = self.expect(case), len(case.requests)
        random = [r for r in range(rows) if r not in expected.greedy_rows]
        drawn, found = [], []
        for part in self._parts(case, self.session.tier.replay_draws):
            ids = self.answer(part).ids.reshape(-1, rows)
            kind, noise = self._noise(part)
            noise = noise.reshape(-1, rows, *noise.shape[1:])
            drawn.append(ids)
            found.append(
                [replay_test.replayed(expected, r, ids[:, r], kind, noise[:, r]) for r in random]
            )
        for r, parts in zip(random, zip(*found, strict=True), strict=True):
            replay_test.judge_found(self, case, r, np.concatenate(drawn)[:, r], kind, parts)

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
