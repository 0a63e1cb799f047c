"""The law test of one row: draws of the backend against the oracle's exact law."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case
from aliquot.conformance.expectation import Expectation
from aliquot.reports.results import Frequencies, Statistic
from aliquot.statistical import chisquare

if TYPE_CHECKING:
    from aliquot.conformance.judge import Judge

Ids = npt.NDArray[np.int64]
PLOTTED = 12
