"""The whole check of one processor: every claim, as results that the report pages show."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace

import hypothesis
import torch

import aliquot
from aliquot.conformance.backend import one_line
from aliquot.conformance.processor_check import (
    device,
    hook,
    interface,
    invariance,
    rows,
    state,
)
from aliquot.conformance.processor_check.outcome import Check, Outcome, failed
from aliquot.conformance.processor_check.params import as_json
from aliquot.conformance.processor_check.search import Difference
from aliquot.conformance.processor_check.subject import ProcessorRaised, Subject
from aliquot.conformance.run import environment
from aliquot.contract.clauses import clauses
from aliquot.reports.results import (
    BackendInfo,
    CheckResult,
    ClauseInfo,
    Finding,
    RunResults,
    Verdict,
)

MODULES = (interface, invariance, rows, state, device, hook)
CHECKS: tuple[Check, ...] = tuple(check for module in MODULES for check in module.CHECKS)


def check_processor(subject: Subject, checks: Sequence[Check] = CHECKS) -> RunResults:
    """Try every claim on a processor; only that it does not act, where it does not.

    The results depend on the processor, the requests, the seed and the versions in the environment alone.
    """
    torch.set_num_threads(1)
    subject = replace(subject, acting=interface.acting(subject))
    tried = [interface.ACTIVE, *(checks if subject.acting else ())]
    results = [judged(check, subject) for check in tried]
    told = sorted({clause for check in checks for clause in check.clauses})
    return RunResults(
        aliquot=aliquot.__version__,
        backend=_describe(subject),
        tier="processor",
        seed=subject.seed,
        alpha=0.0,
        environment=environment() | {"hypothesis": hypothesis.__version__},
        clauses=tuple(_clause(clause) for clause in clauses() if clause in told),
        checks=tuple(sorted(results, key=lambda check: check.id)),
    )


def judged(check: Check, subject: Subject) -> CheckResult:
    """The result of one claim; an exception of the processor makes it false."""
    try:
        outcome = check.run(subject)
    except ProcessorRaised as error:
        outcome = failed(Difference(wanted="no exception", got=str(error)))
    except Exception as error:
        outcome = Outcome(verdict=Verdict.ERROR, reason=f"the check raised {one_line(error)}")
    return CheckResult(
        id=check.id,
        clauses=check.clauses,
        group=clauses()[check.clauses[0]].group if check.clauses else "plug-ins",
        title=check.title,
        case="",
        evidence="exact",
        verdict=outcome.verdict,
        reason=outcome.reason,
        finding=_finding(outcome, subject),
    )


def _finding(outcome: Outcome, subject: Subject) -> Finding | None:
    fault = outcome.fault
    if fault is None:
        return None
    return Finding(
        witness=fault.witness,
        wanted=fault.wanted,
        got=fault.got,
        effect=fault.effect,
        likely_cause=fault.cause,
        reproduce=command(subject),
    )


def command(subject: Subject) -> str:
    """The command that checks the same processor again."""
    words = ["aliquot", "check-processor", subject.name, "--seed", str(subject.seed)]
    if subject.given:
        words += ["--params", json.dumps([as_json(params) for params in subject.given])]
    return shlex.join(words)


def _describe(subject: Subject) -> BackendInfo:
    return BackendInfo(
        name=subject.name,
        version="unknown",
        device="cpu",
        dtypes=("float32",),
        accuracy="float32",
        noise="none",
        parameters=tuple(json.dumps(as_json(params)) for params in subject.kinds[1:]),
        freedoms={"argmax_invariant": str(subject.claims_invariance)},
    )


def _clause(name: str) -> ClauseInfo:
    c = clauses()[name]
    return ClauseInfo(id=c.id, group=c.group, title=c.title, text=c.text, level=c.level)
