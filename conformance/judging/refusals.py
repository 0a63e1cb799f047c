"""Refused parameters and shapes, and rows that have no law."""

from typing import Any

from aliquot.conformance import arrays
from aliquot.conformance.backend import one_line
from aliquot.conformance.case import Case
from aliquot.conformance.judging.calls import BACKEND_RAISES, Calls
from aliquot.contract.output import INVALID_TOKEN
from aliquot.reports.results import Verdict


class Refusals(Calls):
    """Gives the backend what it must refuse or contain."""

    def refuses(self, case: Case, name: str) -> None:
        """The backend raises ValueError that names the request and the field."""
        if not self.session.capabilities.validates:
            self.conclude(Verdict.UNSUPPORTED, "not declared: validates")
        if name not in self.session.capabilities.parameters:
            self.conclude(Verdict.UNSUPPORTED, f"not declared: {name}")
        logits = arrays.logits_for(case, self.session.capabilities)
        value = getattr(case.requests[0].params, name)
        wanted = f"ValueError naming request {case.requests[0].id} and {name}"
        try:
            self.session.backend.sample(logits, case.batch())
        except ValueError as error:
            if name in str(error) and case.requests[0].id in str(error):
                return self.passed("exact", f"{name} = {value!r} refused")
            self.fail(case, 0, wanted, one_line(error))
        except BACKEND_RAISES as error:
            self.fail(case, 0, wanted, one_line(error))
        self.fail(case, 0, wanted, f"{name} = {value!r} accepted")

    def refuses_shape(self, case: Case, logits: Any) -> None:
        """Logits that do not fit the batch are refused with ValueError (ERR14)."""
        if not self.session.capabilities.validates:
            self.conclude(Verdict.UNSUPPORTED, "not declared: validates")
        try:
            self.session.backend.sample(logits, case.batch())
        except ValueError as error:
            return self.passed("exact", f"refused: {one_line(error)}")
        except BACKEND_RAISES as error:
            self.fail(case, 0, "ValueError", one_line(error))
        self.fail(case, 0, "ValueError", f"logits of shape {list(logits.shape)} accepted")

    def survives(self, case: Case, odd: int) -> None:
        """Row `odd` holds what the contract leaves open: ValueError or an answer; the others are as they should be."""
        self.supports(case)
        logits = arrays.logits_for(case, self.session.capabilities)
        self.reseed()
        try:
            output = self.session.backend.sample(logits, case.batch())
        except ValueError as error:
            return self.passed("exact", f"refused: {one_line(error)}")
        except BACKEND_RAISES as error:
            self.fail(case, odd, "an answer or ValueError", one_line(error))
        ids = self.read(output, case).ids
        good = [r for r in range(len(case.requests)) if r != odd]
        expected = self.expect(case.only(good))
        for place, r in enumerate(good):
            if not expected.drawable(place)[ids[r]]:
                self.fail(case, r, "a neighbour's own tokens", f"id {ids[r]}", tokens=[int(ids[r])])
        self.passed("exact", f"id {ids[odd]} for the odd row, the others keep their support")

    def contained(self, case: Case, bad: int) -> None:
        """Row `bad` has no law: an error naming it, a mark or an id, as declared; the others are as they should be."""
        self.supports(case)
        choice = self.session.capabilities.profile.bad_row
        logits = arrays.logits_for(case, self.session.capabilities)
        self.reseed()
        try:
            output = self.session.backend.sample(logits, case.batch())
        except BACKEND_RAISES as error:
            return self._refused_row(case, bad, error)
        if choice == "error":
            self.fail(case, bad, f"an error that names row {bad}", "an answer")
        ids = self.read(output, case, bad=frozenset({bad})).ids
        if choice == "invalid_mark" and ids[bad] != INVALID_TOKEN:
            self.fail(case, bad, f"the mark {INVALID_TOKEN}", f"id {ids[bad]}")
        good = [r for r in range(len(case.requests)) if r != bad]
        expected = self.expect(case.only(good))
        for place, r in enumerate(good):
            if not expected.drawable(place)[ids[r]]:
                self.fail(case, r, "a neighbour's own tokens", f"id {ids[r]}", tokens=[int(ids[r])])
        self.passed("exact", f"bad row gives id {ids[bad]}, the others keep their support")

    def _refused_row(self, case: Case, bad: int, error: BaseException) -> None:
        """An exception for a bad row: right where declared, if it is a ValueError that names row or request."""
        said = one_line(error)
        if self.session.capabilities.profile.bad_row != "error":
            self.fail(case, bad, "an id or a mark for the bad row alone", said)
        named = f"row {bad}" in str(error) or case.requests[bad].id in str(error)
        if not isinstance(error, ValueError) or not named:
            self.fail(case, bad, f"ValueError naming row {bad} or its request", said)
        self.passed("exact", f"refused: {said}")
