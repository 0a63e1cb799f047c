"""The judge of one check: calls the backend, compares with the oracle, records verdict and evidence."""

from dataclasses import dataclass

from aliquot.conformance.judging.refusals import Refusals
from aliquot.conformance.judging.search import Search


@dataclass
class Judge(Search, Refusals):
    """Judges one check by every kind of evidence."""
