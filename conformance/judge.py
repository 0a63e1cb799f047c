"""The judge of one check: calls the backend, compares with the oracle, records verdict and evidence."""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from aliquot.conformance import arrays, causes, law_test, replay_test, reported
from aliquot.conformance.arrays import Answer, FormError
from aliquot.conformance.backend import Backend, Capabilities, one_line
from aliquot.conformance.case import Case
from aliquot.conformance.causes import Cause
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.tiers import Tier
from aliquot.contract.accuracy import CLASSES, AccuracyClass
from aliquot.contract.batch import BatchUpdate, Request
from aliquot.contract.clauses import clauses
from aliquot.contract.output import SamplerOutput
from aliquot.oracle import batch_state
from aliquot.reports.results import (
    CheckResult,
    Finding,
    Frequencies,
    Statistic,
    Verdict,
)

CHUNK_VALUES = 1 << 23


class Concluded(Exception):
    """A check that ended early; the judge holds the verdict."""


@dataclass(frozen=True)
class Session:
    """What all checks of a worker share: the backend under its spec, the tier and the run's seed."""

    spec: str
    backend: Backend
    tier: Tier
    seed: int

    @property
    def capabilities(self) -> Capabilities:
        """The backend's declaration."""
        return self.backend.capabilities

    @property
    def accuracy(self) -> AccuracyClass:
        """The arithmetic that the backend declares."""
        return CLASSES[self.capabilities.accuracy]


@dataclass
class Judge:
    """Judges one check; `alpha` is its share of the run's false-alarm budget."""

    session: Session
    check_id: str
    clause_ids: tuple[str, ...]
    title: str
    case_name: str
    alpha: float = 0.0
    verdict: Verdict | None = None
    reason: str = ""
    notes: list[str] = field(default_factory=list)
    evidence: set[str] = field(default_factory=set)
    finding: Finding | None = None
    statistics: list[Statistic] = field(default_factory=list)
    frequencies: Frequencies | None = None

    @cached_property
    def rng(self) -> np.random.Generator:
        """The check's own noise, the same in every order of checks and number of workers."""
        digest = hashlib.sha256(self.check_id.encode()).digest()
        return np.random.default_rng([self.session.seed, *np.frombuffer(digest[:16], np.uint32)])

    # Calling the backend

    def supports(self, case: Case) -> None:
        """End as UNSUPPORTED when the case needs what the backend does not declare."""
        capabilities = self.session.capabilities
        missing = sorted(case.features() - capabilities.parameters)
        if case.dtype not in capabilities.dtypes:
            missing.append(f"dtype {case.dtype}")
        asks = any(r.params.logprobs is not None for r in case.requests)
        if asks and case.mode not in capabilities.logprobs_modes:
            missing.append(f"logprobs mode {case.mode}")
        if missing:
            self.conclude(Verdict.UNSUPPORTED, f"not declared: {', '.join(missing)}")

    def shows(self, mode: str) -> bool:
        """Whether the backend declares a logprobs mode."""
        declared = self.session.capabilities
        return mode in declared.logprobs_modes and "logprobs" in declared.parameters

    def needs(self, mode: str) -> None:
        """End as UNSUPPORTED when the backend does not show values in this logprobs mode."""
        if not self.shows(mode):
            self.conclude(Verdict.UNSUPPORTED, f"not declared: logprobs mode {mode}")

    def answer(self, case: Case, logits: Any = None) -> Answer:
        """The backend's answer to a case, its form checked."""
        if logits is None:
            logits = arrays.logits_for(case, self.session.capabilities)
        return self.read(self.call(case, logits), case)

    def read(self, output: Any, case: Case) -> Answer:
        """A backend's output in NumPy; a wrong form ends the check as FAIL of the clause it breaks."""
        try:
            return arrays.read(output, case, self.session.capabilities)
        except FormError as error:
            self.clause_ids = (error.clause,)
            self.title = clauses()[error.clause].title
            self.fail(case, 0, error.wanted, error.got)

    def call(self, case: Case, logits: Any) -> Any:
        """The backend's raw output; an exception ends the check as ERROR."""
        self.reseed()
        try:
            return self.session.backend.sample(logits, case.batch())
        except Exception as error:
            self.conclude(Verdict.ERROR, f"sample raised {one_line(error)} on {case.name}")

    def reseed(self) -> None:
        """Restart the backend's noise, where it can be restarted."""
        reseed = getattr(self.session.backend, "reseed", None)
        if reseed is not None:
            reseed(int(self.rng.integers(2**63)))

    def expect(self, case: Case) -> Expectation:
        """What the oracle says of a case under the backend's declared profile and arithmetic."""
        capabilities = self.session.capabilities
        return Expectation(case, capabilities.profile, self.session.accuracy)

    # Conclusions

    def conclude(self, verdict: Verdict, reason: str) -> NoReturn:
        """End the check."""
        self.verdict, self.reason = verdict, reason
        raise Concluded(f"{verdict} {self.check_id}: {reason}")

    def fail(
        self,
        case: Case,
        row: int,
        wanted: str,
        got: str,
        *,
        tokens: Iterable[int] = (),
        effect: str | None = None,
        cause: Cause | None = None,
    ) -> NoReturn:
        """End the check as FAIL with a finding."""
        self.finding = Finding(
            witness=case.witness(row, tokens),
            wanted=wanted,
            got=got,
            effect=effect,
            likely_cause=cause.text if cause else None,
            blames=cause.clauses if cause else (),
            reproduce=self.reproduce(),
        )
        self.conclude(Verdict.FAIL, f"wanted {wanted}, got {got}")

    def passed(self, kind: str, note: str) -> None:
        """Record evidence of `kind` that agreed with the contract."""
        self.evidence.add(kind)
        self.notes.append(note)

    def reproduce(self) -> str:
        """The command that runs this check alone."""
        session = self.session
        words = ["aliquot", "run", "--backend", session.spec, "--tier", session.tier.name,
                 "--seed", str(session.seed), "--only", self.check_id]  # fmt: skip
        return shlex.join(words)

    def result(self, group: str) -> CheckResult:
        """The check's result; a check without evidence is an ERROR."""
        if self.verdict is None:
            self._finish()
        assert self.verdict is not None
        return CheckResult(
            id=self.check_id,
            clauses=self.clause_ids,
            group=group,
            title=self.title,
            case=self.case_name,
            evidence=", ".join(sorted(self.evidence)) or "none",
            verdict=self.verdict,
            reason=self.reason,
            finding=self.finding,
            statistics=tuple(self.statistics),
            frequencies=self.frequencies,
        )

    def _finish(self) -> None:
        if not self.notes:
            self.verdict, self.reason = Verdict.ERROR, "the check compared nothing"
            return
        departures = self.session.capabilities.profile.departures()
        freedoms = {clauses()[c].freedom for c in self.clause_ids} & set(departures)
        self.reason = "; ".join(dict.fromkeys(self.notes))
        self.verdict = Verdict.DIVERGES if freedoms else Verdict.PASS
        if freedoms:
            choices = ", ".join(f"{name} = {departures[name]}" for name in sorted(freedoms))
            self.reason = f"as declared, {choices}: {self.reason}"

    # Exact evidence

    def equal(
        self, case: Case, row: int, what: str, wanted: Any, got: Any, tokens: Iterable[int] = ()
    ) -> None:
        """Fail unless two values are the same."""
        if wanted != got:
            self.fail(case, row, f"{what} {wanted}", str(got), tokens=tokens)
        self.passed("exact", f"{what} as wanted")

    def greedy(self, case: Case) -> None:
        """Greedy rows return the oracle's argmax; equals inside the rounding band are accepted."""
        self.supports(case)
        expected = self.expect(case)
        ids = self.answer(case).ids
        for r in expected.greedy_rows:
            allowed = expected.drawable(r)
            if not allowed[ids[r]]:
                wanted = np.flatnonzero(allowed).tolist()
                self.fail(case, r, f"argmax in {_ids(wanted)}", f"id {ids[r]}",
                          tokens=[*wanted[:4], int(ids[r])])  # fmt: skip
        self.passed("exact", f"{len(expected.greedy_rows)} greedy ids equal the oracle's")

    def processed(self, case: Case) -> None:
        """Whole processed rows: kept sets between must and may, values inside their intervals."""
        self.supports(case)
        for mode in ("processed_logits", "processed_logprobs"):
            if self.shows(mode):
                self._values(case.asking(mode, logprobs=-1))

    def raw(self, case: Case) -> None:
        """Whole raw rows: values inside their intervals, -inf only where the input has it."""
        self.supports(case)
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
        kept, must, may = (bound > -np.inf for bound in (values, low, high))
        lost, extra = np.flatnonzero(must & ~kept), np.flatnonzero(kept & ~may)
        if lost.size or extra.size:
            self.fail(
                case, r,
                f"{case.mode} keeps {_ids(np.flatnonzero(must))}",
                f"keeps {np.count_nonzero(kept)}: lost {_ids(lost)}, too many {_ids(extra)}",
                tokens=_shown(values, low, lost, extra),
                effect=f"{lost.size} lost, {extra.size} too many",
                cause=causes.of_support(case, r, kept, self.session.capabilities),
            )  # fmt: skip
        off = np.flatnonzero(kept & ~((low <= values) & (values <= high)))
        if off.size:
            worst = off[np.argmax(np.maximum(low - values, values - high)[off])]
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
        backend: Any = self.session.backend
        tokens = np.array(token_ids, dtype=np.int64)
        try:
            found = backend.logprobs_of(
                arrays.logits_for(case, declared), arrays.ids_for(tokens, declared)
            )
        except Exception as error:
            self.conclude(Verdict.ERROR, f"logprobs_of raised {one_line(error)} on {case.name}")
        output = SamplerOutput(
            sampled_token_ids=arrays.ids_for(tokens[:, None], declared), logprobs=found
        )
        asked = case.asking("raw_logprobs", logprobs=0)
        answer = self.read(output, asked)
        for r in range(len(case.requests)):
            reported.judge_row(self, asked, self.expect(asked), r, answer)
        self.passed("exact", f"{len(tokens)} given tokens: values and ranks as wanted")

    def refuses_shape(self, case: Case, logits: Any) -> None:
        """Logits that do not fit the batch are refused with ValueError (ERR14)."""
        if not self.session.capabilities.validates:
            self.conclude(Verdict.UNSUPPORTED, "not declared: validates")
        try:
            self.session.backend.sample(logits, case.batch())
        except ValueError as error:
            return self.passed("exact", f"refused: {one_line(error)}")
        except Exception as error:
            self.fail(case, 0, "ValueError", one_line(error))
        self.fail(case, 0, "ValueError", f"logits of shape {list(logits.shape)} accepted")

    def contained(self, case: Case, bad: int) -> None:
        """Row `bad` has no law: an error naming it, or an id; the other rows are as they should be."""
        self.supports(case)
        logits = arrays.logits_for(case, self.session.capabilities)
        self.reseed()
        try:
            output = self.session.backend.sample(logits, case.batch())
        except ValueError as error:
            if self.session.capabilities.profile.bad_row == "error":
                return self.passed("exact", f"refused: {one_line(error)}")
            self.fail(case, bad, "an id or a mark for the bad row alone", one_line(error))
        except Exception as error:
            self.fail(case, bad, "a defined result", one_line(error))
        ids = self.read(output, case).ids
        good = [r for r in range(len(case.requests)) if r != bad]
        expected = self.expect(case.only(good))
        for place, r in enumerate(good):
            if not expected.drawable(place)[ids[r]]:
                self.fail(case, r, "a neighbour's own tokens", f"id {ids[r]}", tokens=[int(ids[r])])
        self.passed("exact", f"bad row gives id {ids[bad]}, the others keep their support")

    def history(self, name: str, updates: Iterable[BatchUpdate | None], vocab_size: int) -> None:
        """After every update each row is what a fresh oracle makes of the same requests.

        Each step's drawn tokens are appended to the live output lists, as an engine does.
        """
        if not self.session.capabilities.stateful:
            self.conclude(Verdict.UNSUPPORTED, "not declared: stateful")
        self.needs("processed_logits")
        backend: Any = self.session.backend
        self.reseed()
        backend.start(vocab_size, "processed_logits")
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
            self._step(case, update)
        self.passed("exact", f"{steps} steps equal to a fresh batch")

    def _step(self, case: Case, update: BatchUpdate | None) -> None:
        backend: Any = self.session.backend
        logits = arrays.logits_for(case, self.session.capabilities)
        try:
            output = backend.step(logits, update)
        except Exception as error:
            self.conclude(Verdict.ERROR, f"step raised {one_line(error)} in {case.name}")
        answer, expected = self.read(output, case), self.expect(case)
        for r, request in enumerate(case.requests):
            if answer.logprobs is None or answer.logprobs.shape != case.logits.shape:
                self.fail(case, r, f"values of shape {list(case.logits.shape)}", "another shape")
            self._row_values(case, r, expected, answer.logprobs[r].astype(np.float64))
            token = int(answer.ids[r])
            if not expected.drawable(r)[token]:
                self.fail(case, r, "a token of the row's support", f"id {token}", tokens=[token])
            request.output_token_ids.append(token)

    # Evidence by draws

    def drawn(self, case: Case, draws: int) -> npt.NDArray[np.int64]:
        """Draw every row of the case `draws` times: int64 [draws, rows]."""
        parts = [self.answer(part).ids for part in self._parts(case, draws)]
        return np.concatenate(parts).reshape(draws, len(case.requests))

    def _parts(self, case: Case, draws: int) -> Iterator[Case]:
        """The case `draws` times over, in tiles of bounded size."""
        most = max(1, CHUNK_VALUES // (len(case.requests) * case.vocab_size))
        for start in range(0, draws, most):
            yield case.tiled(min(most, draws - start))

    def replays(self, case: Case) -> None:
        """With the backend's own noise the oracle draws the same tokens, where the noise can be had."""
        self.supports(case)
        if self.session.capabilities.noise != "replayable":
            self.conclude(Verdict.UNSUPPORTED, "not declared: replayable noise")
        expected, rows = self.expect(case), len(case.requests)
        backend: Any = self.session.backend
        for part in self._parts(case, self.session.tier.law_draws):
            ids = self.answer(part).ids.reshape(-1, rows)
            kind, values = backend.last_noise()
            if kind not in replay_test.KINDS:
                self.fail(case, 0, f"noise of a kind in {replay_test.KINDS}", f"kind {kind!r}")
            noise = np.asarray(values, dtype=np.float64)
            noise = noise.reshape(-1, rows, *noise.shape[1:])
            for r in range(rows):
                replay_test.judge_row(self, case, expected, r, ids[:, r], kind, noise[:, r])

    def extremes(self, case: Case, values: Sequence[float]) -> None:
        """Injected noise at the ends of its range draws only tokens that may be kept (DRAW05)."""
        self.supports(case)
        if self.session.capabilities.noise != "replayable":
            self.conclude(Verdict.UNSUPPORTED, "not declared: replayable noise")
        backend: Any = self.session.backend
        self.answer(case)
        kind, last = backend.last_noise()
        expected = self.expect(case)
        for value in values:
            backend.inject(np.full(np.shape(last), value))
            ids = self.answer(case).ids
            for r in range(len(case.requests)):
                if not expected.drawable(r)[ids[r]]:
                    wanted = _ids(np.flatnonzero(expected.drawable(r)))
                    self.fail(case, r, f"an id in {wanted} for {kind} noise {value!r}",
                              f"id {ids[r]}", tokens=[int(ids[r])])  # fmt: skip
        self.passed("injected noise", f"{len(values)} extreme values of {kind} noise")

    def exact_mass(self, cases: Sequence[Case]) -> None:
        """Rows whose mass reaches p exactly in float32: the next token is not kept in all of them.

        In real arithmetic each row's mass lies at or above p by less than the rounding bound, so no single row
        decides. A sampler that stops at p keeps one more only by rounding, in a row with probability
        at most 1/2; keeping one more in every row then has probability 2^-rows.
        """
        self.supports(cases[0])
        more = [bool(self._keeps_undecided(case)) for case in cases]
        if all(more) and 2.0 ** -len(cases) <= self.alpha:
            worst = cases[0]
            self.fail(
                worst, 0,
                "no token after those whose mass reaches p",
                f"one more kept in all {len(cases)} rows whose mass equals p in float32",
                cause=Cause("one token more is kept when the mass reaches p exactly", ("TOPP02",)),
            )  # fmt: skip
        self.passed("exact mass", f"one more kept in {sum(more)} of {len(cases)} rows by rounding")

    def _keeps_undecided(self, case: Case) -> bool:
        """Whether a token that only rounding could keep is kept, seen in values or in draws."""
        must = self.expect(case).surely_kept(0)
        if self.shows("processed_logits"):
            shown = self.answer(case.asking("processed_logits", logprobs=-1)).logprobs
            return shown is not None and bool((shown[0][~must] > -np.inf).any())
        ids = self.drawn(case, self.session.tier.support_draws)[:, 0]
        return bool((~must[ids]).any())

    def support(self, case: Case, draws: int | None = None) -> npt.NDArray[np.int64]:
        """No token outside what the filters may keep is drawn; returns the draws."""
        self.supports(case)
        expected = self.expect(case)
        ids = self.drawn(case, draws or self.session.tier.support_draws)
        for r in range(len(case.requests)):
            may = expected.drawable(r)
            outside = ids[~may[ids[:, r]], r]
            if outside.size:
                self.fail(
                    case, r,
                    f"draws in {_ids(np.flatnonzero(may))}",
                    f"id {outside[0]}, drawn {outside.size} times in {len(ids)}",
                    tokens=np.unique(outside)[:8].tolist(),
                    effect=f"{outside.size / len(ids):.3g} of the draws",
                    cause=causes.of_draws(case, r, ids[:, r], self.session.capabilities),
                )  # fmt: skip
        self.passed("support", f"{len(ids)} draws a row inside the allowed set")
        return ids

    def filters(self, case: Case) -> None:
        """Processed rows where the backend shows them, and drawn tokens always."""
        self.supports(case)
        self.processed(case)
        self.support(case)

    def law(self, case: Case) -> None:
        """The draws of every random row follow the oracle's law."""
        ids = self.support(case, self.session.tier.law_draws)
        expected = self.expect(case)
        share = self.alpha / len(case.requests)
        oracle = expected.draws(len(ids), self.rng)
        for r in range(len(case.requests)):
            law_test.judge_row(self, case, expected, r, ids[:, r], oracle[:, r], share)

    def law_beside_bad(self, case: Case, bad: int) -> None:
        """The random rows beside row `bad` follow their laws."""
        self.supports(case)
        good = [r for r in range(len(case.requests)) if r != bad]
        alone = case.only(good)
        expected = self.expect(alone)
        draws = self.session.tier.law_draws
        ids = self.drawn(case, draws)[:, good]
        oracle = expected.draws(draws, self.rng)
        for r in range(len(good)):
            share = self.alpha / len(good)
            law_test.judge_row(self, alone, expected, r, ids[:, r], oracle[:, r], share)

    # Refusals

    def refuses(self, case: Case, name: str) -> None:
        """The backend raises ValueError that names the request and the field."""
        if not self.session.capabilities.validates:
            self.conclude(Verdict.UNSUPPORTED, "not declared: validates")
        logits = arrays.logits_for(case, self.session.capabilities)
        value = getattr(case.requests[0].params, name)
        wanted = f"ValueError naming request {case.requests[0].id} and {name}"
        try:
            self.session.backend.sample(logits, case.batch())
        except ValueError as error:
            if name in str(error) and case.requests[0].id in str(error):
                return self.passed("exact", f"{name} = {value!r} refused")
            self.fail(case, 0, wanted, one_line(error))
        except Exception as error:
            self.fail(case, 0, wanted, one_line(error))
        self.fail(case, 0, wanted, f"{name} = {value!r} accepted")


def _shown(
    values: npt.NDArray[np.float64], low: npt.NDArray[np.float64], *sets: npt.NDArray[np.int64]
) -> list[int]:
    """The tokens at fault, and the largest one for comparison."""
    chosen = [int(t) for tokens in sets for t in tokens[:8]]
    return list(dict.fromkeys([*chosen, int(np.argmax(np.maximum(values, low)))]))


def _ids(tokens: Sequence[int] | npt.NDArray[np.int64]) -> str:
    """A set of ids for a person: whole when short."""
    if not len(tokens):
        return "none"
    shown = ", ".join(str(t) for t in tokens[:8])
    return f"{{{shown}}}" if len(tokens) <= 8 else f"{{{shown}, ...}} ({len(tokens)} ids)"
