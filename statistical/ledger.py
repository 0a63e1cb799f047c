"""Ledger of false alarms: one alpha for a whole run, spent over named tests.

Signatures that other code may rely on::

    ledger = Ledger(alpha=1e-6)
    ledger.grant(name, share) -> alpha of the test
    ledger.grant_evenly(names, share=None) -> dict of name -> alpha of the test
    ledger.reject_e(name, log_e) -> bool
    ledger.reject_p(name, p_value) -> bool
    ledger.table() -> str

By the union bound the run is red by chance with probability at most the sum of what was granted,
whatever the dependence between tests. Within one test e-values are averaged (an average of e-values
is an e-value under any dependence), so one grant covers all partitions, rows and looks of it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

RUN_ALPHA = 1e-6


class OverspentError(ValueError):
    """More false-alarm probability was asked for than the run has left."""


@dataclass
class Entry:
    """One named test: what it was granted and what it found.

    Attributes:
        alpha: false-alarm probability granted.
        log_e: natural logarithm of the largest e-value seen, None before the first.
        p_value: smallest p-value seen, None before the first.
    """

    alpha: float
    log_e: float | None = None
    p_value: float | None = None

    @property
    def rejected(self) -> bool:
        """Whether the null of this test was rejected."""
        by_e = self.log_e is not None and self.log_e >= -math.log(self.alpha)
        return by_e or (self.p_value is not None and self.p_value <= self.alpha)


@dataclass
class Ledger:
    """Budget of false-alarm probability of one run.

    Attributes:
        alpha: probability that the run has any false alarm at all.
        entries: the named tests, in the order granted.
    """

    alpha: float = RUN_ALPHA
    entries: dict[str, Entry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha = {self.alpha}: must lie in (0, 1)")

    @property
    def spent(self) -> float:
        """Sum of the alphas granted so far."""
        return math.fsum(entry.alpha for entry in self.entries.values())

    @property
    def remaining(self) -> float:
        """What may still be granted."""
        return self.alpha - self.spent

    @property
    def rejected(self) -> list[str]:
        """Names of the tests whose null was rejected."""
        return [name for name, entry in self.entries.items() if entry.rejected]

    def grant(self, name: str, share: float) -> float:
        """Grant a fraction of the run's alpha to a new test and return that test's alpha.

        Args:
            name: the test, unique in the run.
            share: fraction of the run's alpha, in (0, 1].

        Raises:
            OverspentError: the shares would sum to more than 1.
            ValueError: a name granted before, or a share outside (0, 1].
        """
        if name in self.entries:
            raise ValueError(f"test {name!r} was granted alpha before; a test is granted once")
        if not 0 < share <= 1:
            raise ValueError(f"test {name!r}: share = {share}, must lie in (0, 1]")
        alpha = share * self.alpha
        if self.spent + alpha > self.alpha * (1 + _rounding(len(self.entries) + 1)):
            raise OverspentError(
                f"test {name!r} asks for alpha {alpha:.3g}; the run has "
                f"{max(self.remaining, 0.0):.3g} of {self.alpha:.3g} left"
            )
        self.entries[name] = Entry(alpha)
        return alpha

    def grant_evenly(self, names: Iterable[str], share: float | None = None) -> dict[str, float]:
        """Split a fraction of the run's alpha (default: all that is left) evenly over tests."""
        wanted = list(names)
        total = self.remaining / self.alpha if share is None else share
        return {name: self.grant(name, total / len(wanted)) for name in wanted}

    def reject_e(self, name: str, log_e: float) -> bool:
        """Record an e-value, natural log; True when it reaches 1 over the test's alpha.

        May be called after every draw: the largest value counts (Ville's inequality).
        """
        entry = self._entry(name)
        entry.log_e = log_e if entry.log_e is None else max(entry.log_e, log_e)
        return entry.rejected

    def reject_p(self, name: str, p_value: float) -> bool:
        """Record a p-value, once per test; True when it is at most the test's alpha.

        Raises:
            ValueError: a second p-value for a test (a retry), or one outside [0, 1].
        """
        entry = self._entry(name)
        if entry.p_value is not None:
            raise ValueError(f"test {name!r} has its p-value already; there are no retries")
        if not 0 <= p_value <= 1:
            raise ValueError(f"test {name!r}: p_value = {p_value}, must lie in [0, 1]")
        if entry.log_e is not None:
            raise ValueError(f"test {name!r} has an e-value already; its alpha is not spent twice")
        entry.p_value = p_value
        return entry.rejected

    def table(self) -> str:
        """The ledger as Markdown: test, alpha, evidence, verdict, and the sum."""
        width = max([len(name) for name in self.entries] + [len("sum of shares")])
        lines = [_line("test", "alpha", "evidence", "verdict", width), _rule(width)]
        for name, entry in self.entries.items():
            verdict = "rejected" if entry.rejected else "kept"
            lines.append(_line(name, f"{entry.alpha:.3g}", _evidence(entry), verdict, width))
        budget = f"of {self.alpha:.3g}"
        lines.append(_line("sum of shares", f"{self.spent:.3g}", budget, "", width))
        return "\n".join(lines)

    def _entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise ValueError(f"test {name!r} was granted no alpha; granted: {sorted(self.entries)}")
        return self.entries[name]


def _rounding(terms: int) -> float:
    return terms * math.ulp(1.0)


def _evidence(entry: Entry) -> str:
    if entry.log_e is not None:
        return f"e = 10^{entry.log_e / math.log(10):.2f}"
    return "none yet" if entry.p_value is None else f"p = {entry.p_value:.3g}"


def _line(name: str, alpha: str, evidence: str, verdict: str, width: int) -> str:
    return f"| {name:<{width}} | {alpha:>9} | {evidence:<16} | {verdict:<8} |"


def _rule(width: int) -> str:
    return f"|{'-' * (width + 2)}|{'-' * 10}:|{'-' * 18}|{'-' * 10}|"
