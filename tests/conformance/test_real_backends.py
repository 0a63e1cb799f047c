"""What keeps the judging of real backends together: known failures, witnesses, the page, noise of a race."""

import contextlib
import datetime
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aliquot.conformance import known
from aliquot.conformance.adapters.oracle import DECLARED, OracleBackend
from aliquot.conformance.backend import Capabilities
from aliquot.conformance.case import row
from aliquot.conformance.corpus.crafted import normal
from aliquot.conformance.judge import Judge
from aliquot.conformance.judging.outcome import Concluded, Session
from aliquot.conformance.tiers import TIERS
from aliquot.contract.batch import Batch
from aliquot.contract.output import SamplerOutput
from aliquot.reports.results import CheckResult, Verdict

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "real_backends"
LISTS = sorted(FOLDER.glob("known-*.toml"))


def entries() -> list[known.Entry]:
    """The entries of all files."""
    return [e for path in LISTS for e in known.read(path, datetime.date.min).entries]


def test_every_entry_links_to_a_witness() -> None:
    """Known failures link to scripts that exist, and no script is left without an entry."""
    scripts = {str(path.relative_to(ROOT)) for path in FOLDER.glob("witness_*.py")}
    assert {entry.link for entry in entries()} == scripts


@pytest.mark.parametrize("script", sorted(FOLDER.glob("witness_*.py")), ids=lambda p: p.stem)
def test_a_witness_does_without_aliquot(script: Path) -> None:
    """A witness imports nothing of this project and prints what is wanted and what came."""
    text = script.read_text()
    assert "aliquot" not in text
    assert "wanted: " in text
    assert "\\ngot: " in text


def test_the_page_is_made_from_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/real-backends.md is what report.py makes of the files beside it."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    import report

    assert report.PAGE.read_text() == report.page(report.stored())


COARSE = replace(DECLARED, accuracy="float32")


@dataclass
class Racing(OracleBackend):
    """The oracle's law drawn by an exponential race; `weaker` divides the first token's chance."""

    weaker: float = 1.0
    capabilities: Capabilities = COARSE

    def sample(self, logits: Any, batch: Batch) -> SamplerOutput:
        """One race per row, its noise kept."""
        law = np.stack([self.law_of(logits, batch, r) for r in range(len(batch))])
        self.race = self.rng.exponential(size=law.shape)
        law[:, 0] /= self.weaker
        return SamplerOutput(sampled_token_ids=(law / self.race).argmax(1)[:, None])

    def last_noise(self) -> tuple[str, Any]:
        """The exponential variates [n, V]."""
        return "exponential_race", self.race


def replayed(weaker: float, **params: Any) -> CheckResult:
    """The result of replaying a race."""
    session = Session("racing", Racing(weaker=weaker), TIERS["smoke"], 0)
    judge = Judge(session, "DRAW09_check", ("DRAW09",), "title", "")
    with contextlib.suppress(Concluded):
        judge.replays(row("race", normal(8, 1), **params))
    return judge.result("group")


def test_a_race_is_replayed() -> None:
    """A right race with noise of its own in every draw passes, also where a filter leaves tokens undecided."""
    assert replayed(1.0).verdict is Verdict.PASS
    p = float(np.exp(normal(8, 1)).max() / np.exp(normal(8, 1)).sum())
    assert replayed(1.0, top_p=p).verdict is Verdict.PASS


def test_a_wrong_race_is_found() -> None:
    """A race in which one token runs at a tenth of its chance fails."""
    assert replayed(10.0).verdict is Verdict.FAIL
