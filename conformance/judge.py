"""The judge of one check: calls the backend, compares with the oracle, records verdict and evidence."""

from dataclasses import dataclass

from aliquot.conformance.judging.noise import Noise
from aliquot.conformance.judging.refusals import Refusals


@dataclass
class Judge(Noise, Refusals):
    """Judges one check by every kind of evidence."""
