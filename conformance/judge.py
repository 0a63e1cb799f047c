"""The judge of one check: calls the backend, compares with the oracle, records verdict and evidence."""

from dataclasses import dataclass

from aliquot.conformance.judging.refusals import Refusals
from aliquot.conformance.judging.tails import Tails


@dataclass
class Judge(Tails, Refusals):
    """Judges one check by every kind of evidence."""
