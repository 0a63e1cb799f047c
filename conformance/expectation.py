"""What the oracle says of one case, in the form that the judge compares with."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.conformance.case import Case
from aliquot.contract.accuracy import AccuracyClass
from aliquot.contract.profile import Profile
from aliquot.oracle import bounds, law, pipeline

Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float64]


@dataclass
class Expectation:
    """The oracle's outcome and bounds for a case under a profile and a declared arithmetic."""

    case: Case
    profile: Profile
    accuracy: AccuracyClass

    @cached_property
    def parameter_dtype(self) -> type[Any]:
        """The dtype in which the backend holds its parameters."""
        return np.float32 if self.accuracy.parameter_unit > 2.0**-53 else np.float64
