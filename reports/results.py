"""The results of one run: plain data, written and read as JSON.

Nothing here depends on time, on the machine's load or on the number of workers: the same backend, tier
and seed give the same bytes.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

SCHEMA = "aliquot-results/2"


class Verdict(StrEnum):
    """How one check ended."""

    PASS = "PASS"
    FAIL = "FAIL"
    KNOWN = "KNOWN"
    UNDECIDED = "UNDECIDED"
    DIVERGES = "DIVERGES"
    UNSUPPORTED = "UNSUPPORTED"
    ERROR = "ERROR"


SEVERITY = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.KNOWN,
    Verdict.UNDECIDED,
    Verdict.DIVERGES,
    Verdict.PASS,
    Verdict.UNSUPPORTED,
)
"""The verdicts, worst first: a clause takes the worst among its checks."""


WHOLE_LAW = 1.0
"""Total variation of laws that share no token: a test that finds nothing less has no effect to name."""

SUPPORT = "support"
"""The method that finds only what lies outside the allowed set: it sees nothing of how the draws share it out."""


class ResultsError(ValueError):
    """A results file that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Why a check failed.

    `witness` is the smallest case found (JSON values: logits or a corpus row, the parameters, the ids),
    `wanted` and `got` one line each, `effect` the size of the difference with its unit, `likely_cause` the
    known fault that explains it best, `explanations` that and every other that explains it as well, `blames` the
    clauses which the likely one breaks, `reproduce` one shell command. `evidence` is the kind of evidence that
    decided, `draws` how many draws it took, 0 where none were counted.
    """

    witness: dict[str, Any]
    wanted: str
    got: str
    reproduce: str
    effect: str | None = None
    likely_cause: str | None = None
    blames: tuple[str, ...] = ()
    explanations: tuple[str, ...] = ()
    evidence: str = "exact"
    draws: int = 0


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistical test's figures.

    `alpha` is the share of the run's false-alarm budget, `mde_tv` the total-variation distance found with
    99 % probability in `draws` draws, `pooled` says which cells were merged. One of `p_value` and
    `log10_e` is set. `gates` is false for a figure that is shown beside the one that decides.
    """

    method: str
    draws: int
    alpha: float
    p_value: float | None = None
    log10_e: float | None = None
    mde_tv: float | None = None
    cells: int | None = None
    pooled: str | None = None
    gates: bool = True


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """Expected against drawn frequencies: `expected` in probability, `drawn` in counts, one per label."""

    title: str
    labels: tuple[str, ...]
    expected: tuple[float, ...]
    drawn: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class KnownFailure:
    """Why a failure does not make the run red: the entry that knows it, its reason, link and last day (ISO 8601)."""

    entry: str
    reason: str
    link: str
    expires: str


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check: an id that is stable between runs, the clauses it tests, its verdict and the reason.

    `alpha` is the check's share of the run's false-alarm budget, as granted; 0 for a check without chance.
    """

    id: str
    clauses: tuple[str, ...]
    group: str
    title: str
    case: str
    evidence: str
    verdict: Verdict
    reason: str
    finding: Finding | None = None
    statistics: tuple[Statistic, ...] = ()
    frequencies: Frequencies | None = None
    known: KnownFailure | None = None
    alpha: float = 0.0


@dataclass(frozen=True)
class Effect:
    """The smallest effect that a run's checks of one clause can find, and the test that finds it.

    `mde_tv` is a total-variation distance found with 99 % probability in `draws` draws.
    """

    clause: str
    mde_tv: float
    method: str
    draws: int
    check: str


def _breadth(effect: Effect) -> tuple[bool, float]:
    return effect.method == SUPPORT, effect.mde_tv


@dataclass(frozen=True, kw_only=True)
class ClauseInfo:
    """What the report needs to know of a clause."""

    id: str
    group: str
    title: str
    text: str
    level: str


@dataclass(frozen=True, kw_only=True)
class BackendInfo:
    """What the backend said of itself; `freedoms` maps each freedom to the declared choice."""

    name: str
    version: str
    device: str
    dtypes: tuple[str, ...]
    accuracy: str
    noise: str
    parameters: tuple[str, ...]
    freedoms: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """A whole run. `checks` are sorted by id, `alpha` bounds the false alarms of the run."""

    aliquot: str
    backend: BackendInfo
    tier: str
    seed: int
    alpha: float
    environment: dict[str, str]
    clauses: tuple[ClauseInfo, ...]
    checks: tuple[CheckResult, ...]
    schema: str = field(default=SCHEMA)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many checks ended in each verdict, all verdicts present."""
        found = Counter(check.verdict for check in self.checks)
        return {verdict: found[verdict] for verdict in Verdict}

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The failed checks, those first that test what the likely causes blame most, then by width and id."""
        return ranked_failures(self.checks)

    @property
    def spent(self) -> float:
        """The bound on false alarms that this run made use of: the shares of the checks that ran, to six digits."""
        return float(f"{math.fsum(check.alpha for check in self.drawing):.6g}")

    @property
    def drawing(self) -> tuple[CheckResult, ...]:
        """The checks that ran and spend a share of the bound."""
        ran = (check for check in self.checks if check.verdict is not Verdict.UNSUPPORTED)
        return tuple(check for check in ran if check.alpha)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """For each clause whose checks draw the smallest effect that one of them can find, by clause id.

        What finds a difference of any kind counts before what finds only draws outside the allowed set.
        """
        found: dict[str, Effect] = {}
        for check in self.checks:
            for s in check.statistics:
                if not s.gates or s.mde_tv is None or s.mde_tv >= WHOLE_LAW:
                    continue
                for clause in check.clauses:
                    effect = Effect(clause, s.mde_tv, s.method, s.draws, check.id)
                    found[clause] = min(effect, found.get(clause, effect), key=_breadth)
        return tuple(found[clause] for clause in sorted(found))

    @property
    def verdict(self) -> Verdict:
        """FAIL if a check failed, else ERROR if one could not run or none passed or failed as known, else PASS."""
        counts = self.counts
        if counts[Verdict.FAIL]:
            return Verdict.FAIL
        if counts[Verdict.ERROR] or not (counts[Verdict.PASS] or counts[Verdict.KNOWN]):
            return Verdict.ERROR
        return Verdict.PASS


def ranked_failures(checks: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """The failed ones of some checks, in the order of RunResults.failures."""
    failed = [check for check in checks if check.verdict is Verdict.FAIL]
    blamed = Counter(c for check in failed if check.finding for c in check.finding.blames)
    most = max(blamed.values(), default=0)
    suspects = {clause for clause, times in blamed.items() if times == most}

    def rank(check: CheckResult) -> tuple[bool, int, str]:
        return suspects.isdisjoint(check.clauses), len(check.clauses), check.id

    return tuple(sorted(failed, key=rank))


def check_from_dict(data: dict[str, Any]) -> CheckResult:
    """Build a check from its JSON object."""
    finding = data.get("finding")
    frequencies = data.get("frequencies")
    plain = {key: data[key] for key in ("id", "group", "title", "case", "evidence", "reason")}
    return CheckResult(
        **plain,
        clauses=tuple(data.get("clauses", ())),
        verdict=Verdict(data["verdict"]),
        finding=_finding(finding) if finding else None,
        statistics=tuple(Statistic(**s) for s in data.get("statistics", ())),
        frequencies=_frequencies(frequencies) if frequencies else None,
        known=KnownFailure(**data["known"]) if "known" in data else None,
        alpha=data.get("alpha", 0.0),
    )


def _finding(data: dict[str, Any]) -> Finding:
    several = {name: tuple(data.get(name, ())) for name in ("blames", "explanations")}
    return Finding(**{**data, **several})


def _frequencies(data: dict[str, Any]) -> Frequencies:
    return Frequencies(
        title=data["title"],
        labels=tuple(data["labels"]),
        expected=tuple(data["expected"]),
        drawn=tuple(data["drawn"]),
    )


def check_to_dict(check: CheckResult) -> dict[str, Any]:
    """The JSON object of a check, empty parts left out."""
    return {key: value for key, value in asdict(check).items() if value not in (None, (), 0.0)}


def to_json(results: RunResults) -> str:
    """The results file: UTF-8 JSON, keys sorted, the same bytes for the same results."""
    data = asdict(results)
    data["checks"] = [check_to_dict(check) for check in results.checks]
    data["verdict"] = results.verdict
    data["spent"] = results.spent
    data["effects"] = [asdict(effect) for effect in results.effects]
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str) -> RunResults:
    """Read a results file.

    Raises ResultsError when the text is not JSON, is of another schema version or lacks a field.
    """
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ResultsError(f"results file: schema is {data['schema']!r}, allowed is {SCHEMA!r}")
        return _from_dict(data)
    except ResultsError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"results file: not readable as {SCHEMA}: {error!r}") from error


def backend_from_dict(data: dict[str, Any]) -> BackendInfo:
    """Build what a backend declared from its JSON object."""
    several = {name: tuple(data[name]) for name in ("dtypes", "parameters")}
    return BackendInfo(**{**data, **several})


def _from_dict(data: dict[str, Any]) -> RunResults:
    plain = {key: data[key] for key in ("aliquot", "tier", "seed", "alpha", "environment")}
    return RunResults(
        **plain,
        backend=backend_from_dict(data["backend"]),
        clauses=tuple(ClauseInfo(**clause) for clause in data["clauses"]),
        checks=tuple(check_from_dict(check) for check in data["checks"]),
    )


def read(path: Path) -> RunResults:
    """Read the results file at `path`; raises ResultsError naming it."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ResultsError) as error:
        raise ResultsError(f"{path}: {error}") from error
