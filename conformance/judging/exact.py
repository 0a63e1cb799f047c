"""Exact evidence: ids, kept tokens, values, columns and ranks, beside the oracle's."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays, causes, reported
from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.judging.calls import Calls
from aliquot.contract.batch import BatchUpdate, Request
from aliquot.contract.output import SamplerOutput
from aliquot.oracle import batch_state
from aliquot.reports.results import Verdict
from aliquot.reports.text import plural


class Exact(Calls):
    """Compares answers that hold no chance."""

    def greedy(self, case: Case) -> None:
        """Greedy rows return the oracle's argmax; equals inside the rounding band are accepted."""
        self.supports(case)
        expected = self.expect(case)
        ids = self.answer(case).ids
        for r in expected.greedy_rows:
            allowed = expected.drawable(r)
            if not allowed[ids[r]]:
                wanted = np.flatnonzero(allowed).tolist()
                self.fail(case, r, f"argmax in {ids_in_words(wanted)}", f"id {ids[r]}",
                          tokens=[*wanted[:4], int(ids[r])])  # fmt: skip
        self.passed(
            "exact", f"the oracle's ids in {plural(len(expected.greedy_rows), 'greedy row')}"
        )

    def processed(self, case: Case) -> None:
        """Whole processed rows, where shown: kept sets between must and may, values in their intervals."""
        self.supports(case)
        for mode in ("processed_logits", "processed_logprobs"):
            if self.shows(mode):
                self._values(case.asking(mode, logprobs=-1))

    def raw(self, case: Case) -> None:
        """Whole raw rows: values inside their intervals, -inf only where the input has it."""
        self.supports(case)
        self.needs("raw_logits", "raw_logprobs")
        for mode in ("raw_logits", "raw_logprobs"):
            if self.shows(mode):
                self._values(case.asking(mode, logprobs=-1))

    def _values(self, case: Case) -> None:
        expected = self.expect(case)
        answer = self.answer(case)
        if answer.logprobs is None or answer.logprobs.shape != case.logits.shape:
            shape = None if answer.logprobs is None else list(answer.logprobs.shape)
            self.clause_ids = ("LOGP09",)
            self.fail(case, 0, f"{case.mode} of shape {list(case.logits.shape)}", f"shape {shape}")
        for r in range(len(case.requests)):
            self._row_values(case, r, expected, answer.logprobs[r].astype(np.float64))
        self.passed("exact", f"{case.mode} inside the derived bounds")

    def _row_values(
        self, case: Case, r: int, expected: Expectation, values: npt.NDArray[np.float64]
    ) -> None:
        """Fail unless the kept set lies between must and may and each value in its interval."""
        low, high = expected.shown.lo[r], expected.shown.hi[r]
        kept, must, may = (bound != -np.inf for bound in (values, low, high))
        lost, extra = np.flatnonzero(must & ~kept), np.flatnonzero(kept & ~may)
        if lost.size or extra.size:
            self.fail(
                case, r,
                f"{case.mode} keeps {ids_in_words(np.flatnonzero(must))}",
                f"keeps {np.count_nonzero(kept)}: lost {ids_in_words(lost)}, too many {ids_in_words(extra)}",
                tokens=_shown(values, low, lost, extra),
                effect=f"{lost.size} lost, {extra.size} too many",
                cause=causes.of_values(case, r, values, self.session.capabilities),
            )  # fmt: skip
        fixed = expected.fixed_count(r)
        if fixed is not None and np.count_nonzero(kept) != fixed:
            self.fail(case, r, f"{fixed} tokens kept", f"{np.count_nonzero(kept)} kept")
        off = np.flatnonzero(kept & ~((low <= values) & (values <= high)))
        if off.size:
            worst = off[np.argmax(np.maximum(low[off] - values[off], values[off] - high[off]))]
            self.fail(
                case, r,
                f"{case.mode} of token {worst} in [{low[worst]:.9g}, {high[worst]:.9g}]",
                f"{values[worst]:.9g}",
                tokens=off[:8].tolist(),
                effect=f"{off.size} of {np.count_nonzero(kept)} values outside their bounds",
                cause=causes.of_values(case, r, values, self.session.capabilities),
            )  # fmt: skip

    def reported(self, case: Case) -> None:
        """The columns, ids, values and ranks of the logprobs that a case asks for."""
        self.supports(case)
        self.needs(case.mode)
        expected = self.expect(case)
        answer = self.answer(case)
        if answer.logprobs is None:
            self.fail(case, 0, "logprobs", "none")
        for r in range(len(case.requests)):
            reported.judge_row(self, case, expected, r, answer)
        self.passed("exact", f"{case.mode}: columns, ids, values and ranks as wanted")

    def given(self, case: Case, token_ids: Sequence[int]) -> None:
        """Raw logprobs and ranks of given tokens, one per row (LOGP13)."""
        declared = self.session.capabilities
        if not declared.given_logprobs:
            self.conclude(Verdict.UNSUPPORTED, "not declared: given_logprobs")
        self.supports(case)
        tokens = np.array(token_ids, dtype=np.int64)
        logits, ids = arrays.logits_for(case, declared), arrays.ids_for(tokens, declared)
        found = self.demand(case, "logprobs_of", logits, ids)
        sampled = tokens[:, None].astype(declared.profile.id_dtype)
        output = SamplerOutput(sampled_token_ids=sampled, logprobs=found)
        asked = case.asking("raw_logprobs", logprobs=0)
        answer = self.read(output, asked)
        for r in range(len(case.requests)):
            reported.judge_row(self, asked, self.expect(asked), r, answer)
        self.passed("exact", f"{len(tokens)} given tokens: values and ranks as wanted")

    def history(self, name: str, updates: Iterable[BatchUpdate | None], vocab_size: int) -> None:
        """After every update each row is what a fresh oracle makes of the same requests.

        Each step's drawn tokens are appended to the live output lists, as an engine does.
        """
        if not self.session.capabilities.stateful:
            self.conclude(Verdict.UNSUPPORTED, "not declared: stateful")
        self.needs("processed_logits")
        self.reseed()
        self.ask(name, "start", vocab_size, "processed_logits")
        rows: dict[int, Request] = {}
        steps = 0
        for steps, update in enumerate(updates, 1):
            rows = batch_state.apply_update(rows, update)
            case = Case(
                name=f"{name}, step {steps}",
                logits=self.rng.normal(size=(len(rows), vocab_size)).astype(np.float32),
                requests=tuple(rows[r] for r in range(len(rows))),
                mode="processed_logits",
            )
            self.supports(case)
            self._step(case, update)
        self.passed("exact", f"{steps} steps equal to a fresh batch")

    def _step(self, case: Case, update: BatchUpdate | None) -> None:
        logits = arrays.logits_for(case, self.session.capabilities)
        output = self.demand(case, "step", logits, update)
        answer, expected = self.read(output, case), self.expect(case)
        for r, request in enumerate(case.requests):
            if answer.logprobs is None or answer.logprobs.shape != case.logits.shape:
                self.fail(case, r, f"values of shape {list(case.logits.shape)}", "another shape")
            self._row_values(case, r, expected, answer.logprobs[r].astype(np.float64))
            token = int(answer.ids[r])
            if not expected.drawable(r)[token]:
                self.fail(case, r, "a token of the row's support", f"id {token}", tokens=[token])
            request.output_token_ids.append(token)


def _shown(
    values: npt.NDArray[np.float64], low: npt.NDArray[np.float64], *sets: npt.NDArray[np.int64]
) -> list[int]:
    """The tokens at fault, and the largest one for comparison."""
    chosen = [int(t) for tokens in sets for t in tokens[:8]]
    return list(dict.fromkeys([*chosen, int(np.argmax(np.maximum(values, low)))]))


def ids_in_words(tokens: Sequence[int] | npt.NDArray[np.int64]) -> str:
    """A set of ids for a person: whole when short."""
    if not len(tokens):
        return "none"
    shown = ", ".join(str(t) for t in tokens[:8])
    return f"{{{shown}}}" if len(tokens) <= 8 else f"{{{shown}, ...}} ({len(tokens)} ids)"
