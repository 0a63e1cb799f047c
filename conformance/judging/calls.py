"""Calls to the backend, and what the oracle says of the same case."""

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from aliquot.conformance import arrays
from aliquot.conformance.arrays import Answer, FormError
from aliquot.conformance.backend import one_line, place_of
from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.judging.outcome import Outcome
from aliquot.contract.clauses import clauses
from aliquot.contract.output import INVALID_TOKEN
from aliquot.reports.results import Verdict

NO_ROWS: frozenset[int] = frozenset()
BACKEND_RAISES = (
    Exception,
    SystemExit,
    GeneratorExit,
    pytest.skip.Exception,
    pytest.fail.Exception,
)


class Calls(Outcome):
    """Calls the backend under test; whatever it raises ends the check."""

    def supports(self, case: Case) -> None:
        """End as UNSUPPORTED when the case needs what the backend does not declare."""
        capabilities = self.session.capabilities
        missing = sorted(case.features() - capabilities.parameters)
        if capabilities.profile.topk_off == "error" and any(
            r.params.top_k == -1 or r.params.top_k > case.vocab_size for r in case.requests
        ):
            missing.append("top_k of -1 or above V")
        if case.dtype not in capabilities.dtypes:
            missing.append(f"dtype {case.dtype}")
        asks = any(r.params.logprobs is not None for r in case.requests)
        if asks and case.mode not in capabilities.logprobs_modes:
            missing.append(f"logprobs mode {case.mode}")
        if missing:
            self.conclude(Verdict.UNSUPPORTED, f"not declared: {', '.join(missing)}")

    def declares(self, *parameters: str) -> bool:
        """Whether the backend takes all of these parameters."""
        return self.session.capabilities.parameters.issuperset(parameters)

    def shows(self, mode: str) -> bool:
        """Whether the backend declares a logprobs mode."""
        declared = self.session.capabilities
        return mode in declared.logprobs_modes and "logprobs" in declared.parameters

    def needs(self, *modes: str) -> None:
        """End as UNSUPPORTED when the backend shows values in none of these logprobs modes."""
        if not any(self.shows(mode) for mode in modes):
            wanted = " or ".join(modes)
            self.conclude(Verdict.UNSUPPORTED, f"not declared: logprobs mode {wanted}")

    def ask(self, what: str, method: str, *arguments: Any) -> Any:
        """Call a method that serves the test alone; whatever it raises ends the check as ERROR."""
        return self._called(
            lambda error: self.conclude(Verdict.ERROR, f"{method} raised {error} on {what}"),
            method,
            *arguments,
        )

    def demand(self, case: Case, method: str, *arguments: Any) -> Any:
        """Call a method of the sampler on a legal case; whatever it raises ends the check as FAIL of ERR18."""
        return self._called(
            lambda error: self.raised(case, f"{method} raised {error}"), method, *arguments
        )

    def raised(self, case: Case, words: str) -> NoReturn:
        """End the check as FAIL of ERR18: the sampler raised on a legal case."""
        self.clause_ids, self.title = ("ERR18",), clauses()["ERR18"].title
        self.fail(case, 0, f"an answer in case {case.name!r}", words)

    def accepts(self, case: Case) -> None:
        """Fail by the check's own clauses unless the backend answers a legal case."""
        self.supports(case)
        logits = arrays.logits_for(case, self.session.capabilities)
        self._called(
            lambda error: self.fail(case, 0, "an answer", error), "sample", logits, case.batch()
        )

    def _called(self, end: Callable[[str], NoReturn], method: str, *arguments: Any) -> Any:
        """What a method of the backend returns; `end` is given in words what it raises, and where."""
        try:
            return getattr(self.session.backend, method)(*arguments)
        except BACKEND_RAISES as error:
            end(one_line(error) + place_of(error))

    def answer(self, case: Case, logits: Any = None, *, bad: frozenset[int] = NO_ROWS) -> Answer:
        """The backend's answer to a case, its form checked; only `bad` rows may be marked invalid."""
        self.reseed()
        return self.again(case, logits, bad=bad)

    def again(self, case: Case, logits: Any = None, *, bad: frozenset[int] = NO_ROWS) -> Answer:
        """As `answer`, the backend's noise going on from the call before."""
        if logits is None:
            logits = arrays.logits_for(case, self.session.capabilities)
        output = self.demand(case, "sample", logits, case.batch())
        return self.read(output, case, bad=bad)

    def read(self, output: Any, case: Case, *, bad: frozenset[int] = NO_ROWS) -> Answer:
        """A backend's output in NumPy; a wrong form ends the check as FAIL of the clause it breaks."""
        try:
            return arrays.read(output, case, self.session.capabilities, bad)
        except FormError as error:
            # A marked row lost its law under this check's own clauses.
            marked = error.got == f"id {INVALID_TOKEN}"
            self.clause_ids = (*self.clause_ids, error.clause) if marked else (error.clause,)
            self.title = clauses()[error.clause].title
            self.fail(case, 0, error.wanted, error.got)

    def reseed(self) -> None:
        """Restart the backend's noise, where it can be restarted."""
        if hasattr(self.session.backend, "reseed"):
            self.ask("a seed", "reseed", int(self.rng.integers(2**63)))

    def expect(self, case: Case) -> Expectation:
        """What the oracle says of a case under the backend's declared profile and arithmetic."""
        capabilities = self.session.capabilities
        return Expectation(case, capabilities.profile, self.session.accuracy)
