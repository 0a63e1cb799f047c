"""The judge of one check: calls the backend, compares with the oracle, records verdict and evidence."""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

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
from aliquot.contract.output import INVALID_TOKEN, SamplerOutput
from aliquot.oracle import batch_state
from aliquot.reports.results import (
    CheckResult,
    Finding,
    Frequencies,
    Statistic,
    Verdict,
)

CHUNK_VALUES = 1 << 23
ONE_MORE = "one token more is kept when the mass reaches p exactly"
NO_ROWS: frozenset[int] = frozenset()
BACKEND_RAISES = (
    Exception,
    SystemExit,
    GeneratorExit,
    pytest.skip.Exception,
    pytest.fail.Exception,
)
EXTREMES = {
    "inverse_cdf": (0.0, 2.0**-53, 2.0**-24, 0.5, 1 - 2.0**-24, 1 - 2.0**-53, 1.0),
    "gumbel": (-np.inf, -3e38, 0.0, 3e38, np.inf),
    "exponential_race": (0.0, 5e-324, 1.0, 3e38, np.inf),
}


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
        """Call a method of the backend; whatever it raises ends the check as ERROR."""
        try:
            return getattr(self.session.backend, method)(*arguments)
        except BACKEND_RAISES as error:
            self.conclude(Verdict.ERROR, f"{method} raised {one_line(error)} on {what}")

    def answer(self, case: Case, logits: Any = None, *, bad: frozenset[int] = NO_ROWS) -> Answer:
        """The backend's answer to a case, its form checked; only `bad` rows may be marked invalid."""
        self.reseed()
        return self.again(case, logits, bad=bad)

    def again(self, case: Case, logits: Any = None, *, bad: frozenset[int] = NO_ROWS) -> Answer:
        """As `answer`, the backend's noise going on from the call before."""
        if logits is None:
            logits = arrays.logits_for(case, self.session.capabilities)
        output = self.ask(case.name, "sample", logits, case.batch())
        return self.read(output, case, bad=bad)

    def read(self, output: Any, case: Case, *, bad: frozenset[int] = NO_ROWS) -> Answer:
        """A backend's output in NumPy; a wrong form ends the check as FAIL of the clause it breaks."""
        try:
            return arrays.read(output, case, self.session.capabilities, bad)
        except FormError as error:
            self.clause_ids = (error.clause,)
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
                f"{case.mode} keeps {_ids(np.flatnonzero(must))}",
                f"keeps {np.count_nonzero(kept)}: lost {_ids(lost)}, too many {_ids(extra)}",
                tokens=_shown(values, low, lost, extra),
                effect=f"{lost.size} lost, {extra.size} too many",
                cause=causes.of_support(case, r, kept, self.session.capabilities),
            )  # fmt: skip
        fixed = expected.fixed_count(r)
        if fixed is not None and np.count_nonzero(kept) != fixed:
            self.fail(case, r, f"{fixed} tokens kept", f"{np.count_nonzero(kept)} kept")
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
        tokens = np.array(token_ids, dtype=np.int64)
        logits, ids = arrays.logits_for(case, declared), arrays.ids_for(tokens, declared)
        found = self.ask(case.name, "logprobs_of", logits, ids)
        sampled = tokens[:, None].astype(declared.profile.id_dtype)
        output = SamplerOutput(sampled_token_ids=sampled, logprobs=found)
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
        except BACKEND_RAISES as error:
            self.fail(case, 0, "ValueError", one_line(error))
        self.fail(case, 0, "ValueError", f"logits of shape {list(logits.shape)} accepted")

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
        output = self.ask(case.name, "step", logits, update)
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

    def drawn(self, case: Case, draws: int, bad: int | None = None) -> npt.NDArray[np.int64]:
        """Draw every row of the case `draws` times: int64 [draws, rows]; row `bad` may be marked invalid."""
        rows = len(case.requests)
        parts = []
        for part in self._parts(case, draws):
            marked = NO_ROWS if bad is None else frozenset(range(bad, len(part.requests), rows))
            parts.append(self.answer(part, bad=marked).ids)
        return np.concatenate(parts).reshape(draws, rows)

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
        for part in self._parts(case, self.session.tier.replay_draws):
            ids = self.answer(part).ids.reshape(-1, rows)
            kind, noise = self._noise(part)
            noise = noise.reshape(-1, rows, *noise.shape[1:])
            for r in range(rows):
                replay_test.judge_row(self, case, expected, r, ids[:, r], kind, noise[:, r])

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
                wanted = _ids(np.flatnonzero(expected.drawable(r)))
                said = f"an id in {wanted} for {kind} noise {float(values.flat[0])!r}"
                self.fail(case, r, said, f"id {ids[r]}", tokens=[int(ids[r])])

    def exact_mass(self, cases: Sequence[Case]) -> None:
        """Rows whose mass reaches p exactly in float32: the next token stays, or not, as declared.

        In real arithmetic each row's mass lies beside p by less than the rounding bound, on the side where the rule
        says the same as for equality, so no single row decides. A sampler that follows the rule departs from it
        only by rounding, in a row with probability at most 1/2; departing in every row then has probability 2^-rows.
        """
        self.supports(cases[0])
        one_more = self.session.capabilities.profile.topp_exact == "one_more"
        departs = [self._keeps_undecided(case) != one_more for case in cases]
        if all(departs) and 2.0 ** -len(cases) <= self.alpha:
            rule, seen = ("one more", "no more") if one_more else ("no more", "one more")
            self.fail(
                cases[0], 0,
                f"{rule} token kept when the mass reaches p",
                f"{seen} kept in all {len(cases)} rows whose mass equals p in float32",
                cause=None if one_more else Cause(ONE_MORE, ("TOPP02",)),
            )  # fmt: skip
        self.passed("exact mass", f"{sum(departs)} of {len(cases)} rows differ by rounding")

    def _keeps_undecided(self, case: Case) -> bool:
        """Whether a token that only rounding could keep is kept, seen in values or in draws."""
        must = self.expect(case).surely_kept(0)
        if self.shows("processed_logits"):
            shown = self.answer(case.asking("processed_logits", logprobs=-1)).logprobs
            return shown is not None and bool((shown[0][~must] != -np.inf).any())
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
        self._laws(case, self.support(case, self.session.tier.law_draws))

    def _laws(self, case: Case, ids: npt.NDArray[np.int64]) -> None:
        """Test draws int64 [draws, rows] against the laws of the case's rows, which share alpha."""
        expected = self.expect(case)
        oracle = expected.draws(len(ids), self.rng)
        share = self.alpha / len(case.requests)
        for r in range(len(case.requests)):
            law_test.judge_row(self, case, expected, r, ids[:, r], oracle[:, r], share)

    def law_beside_bad(self, case: Case, bad: int) -> None:
        """The random rows beside row `bad` follow their laws."""
        self.supports(case)
        good = [r for r in range(len(case.requests)) if r != bad]
        ids = self.drawn(case, self.session.tier.law_draws, bad=bad)
        self._laws(case.only(good), ids[:, good])

    # Refusals

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
