"""Where a check's questions go: to a recorder that answers with the oracle, or to a program's answers."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from aliquot.conformance.vectors.question import Question
from aliquot.contract.output import Logprobs, SamplerOutput

Ids = npt.NDArray[np.int64]


class NotAnswered(BaseException):
    """A question without an answer.

    No Exception, so that the judge does not take it for one of the sampler's. `offered` says whether the program
    answers questions of this kind elsewhere.
    """

    def __init__(self, kind: str, what: str, offered: bool) -> None:
        super().__init__(f"{kind} of {what}")
        self.kind, self.offered = kind, offered


class Refused(ValueError):
    """A program that refused a case, as a sampler would by an exception."""


class Desk(Protocol):
    """Answers the questions of all checks; every method raises NotAnswered where there is no answer."""

    def offers(self, kind: str) -> bool:
        """Whether any question of this kind has an answer."""
        ...

    def reseed(self, seed: int) -> None:
        """Restart the noise of requests without a seed, where there is any."""
        ...

    def sample(self, check: str, question: Question, kind: str) -> SamplerOutput:
        """Sampled ids, with logprobs or whole rows where `kind` asks for them; raises ValueError for a refusal."""
        ...

    def draws(self, check: str, question: Question, kind: str, count: int) -> Ids:
        """`count` draws of every row, int64 [count, n], with the question's noise where `kind` is a replay."""
        ...

    def kept(self, check: str, question: Question) -> npt.NDArray[np.bool_]:
        """The tokens [n, V] that each row keeps."""
        ...

    def given(self, check: str, question: Question) -> Logprobs:
        """Raw logprobs and ranks of the question's tokens."""
        ...
