"""Evidence by batches: a row is what it is alone, whatever stands around it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from aliquot.conformance.arrays import Answer
from aliquot.conformance.case import Case, stacked
from aliquot.conformance.judging.exact import ids_in_words
from aliquot.conformance.judging.tails import Tails

Places = npt.NDArray[np.int64]


class Batches(Tails):
    """Puts rows of many kinds into one batch."""

    def alike(self, kinds: Sequence[Case], size: int, bad: Case | None = None) -> None:
        """In a batch of `size` rows, of these kinds in random order, each keeps its support, values and seeded token.

        Kinds with a parameter that the backend does not declare are left out; `bad` is a row without a law that stands
        between them, where the backend declares that its neighbours go on.
        """
        declared = self.session.capabilities
        able = [kind for kind in kinds if kind.features() <= declared.parameters]
        if not able:
            self.supports(kinds[0])
        kinds = able
        alone = {p: self._token(kind) for p, kind in enumerate(kinds) if _seeded(kind)}
        around = [] if bad is None or declared.profile.bad_row == "error" else [bad]
        rows = [*kinds, *around]
        places = self.rng.permutation(np.resize(self.rng.permutation(len(rows)), size))
        batch = stacked(f"{size} rows of {len(rows)} kinds", *(rows[p] for p in places))
        marked = frozenset(np.flatnonzero(places == len(kinds)).tolist())
        shown = [batch.asking("processed_logits", logprobs=-1)] * self.shows("processed_logits")
        for asked in [batch, *shown]:
            self.supports(asked)
            answer = self.answer(asked, bad=marked)
            self._as_alone(kinds, asked, places, answer, alone)
        self.passed("exact", f"{size} rows as they are alone")

    def _token(self, kind: Case) -> int:
        self.supports(kind)
        return int(self.answer(kind).ids[0])

    def _as_alone(
        self,
        kinds: Sequence[Case],
        asked: Case,
        places: Places,
        answer: Answer,
        alone: dict[int, int],
    ) -> None:
        whole = asked.mode == "processed_logits"
        if whole and (answer.logprobs is None or answer.logprobs.shape != asked.logits.shape):
            self.fail(asked, 0, f"values of shape {list(asked.logits.shape)}", "another shape")
        for p, kind in enumerate(kinds):
            case = replace(kind, mode=asked.mode)
            expected = self.expect(case)
            may = expected.drawable(0)
            for r in np.flatnonzero(places == p).tolist():
                placed, token = (
                    replace(case, name=f"{kind.name}, row {r} of {len(places)}"),
                    int(answer.ids[r]),
                )
                if not may[token]:
                    said = f"an id in {ids_in_words(np.flatnonzero(may))}"
                    self.fail(placed, 0, said, f"id {token}", tokens=[token])
                if p in alone:
                    self.equal(placed, 0, "the id drawn alone", alone[p], token, [token])
                if whole and answer.logprobs is not None:
                    self._row_values(placed, 0, expected, answer.logprobs[r].astype(np.float64))


def _seeded(kind: Case) -> bool:
    return kind.requests[0].params.seed is not None
