"""Generated rows: what Hypothesis finds, shrunk to the smallest row that shows it."""

import pytest

from aliquot.conformance.case import Case
from aliquot.conformance.corpus.generated import cases
from aliquot.conformance.judge import Judge
from aliquot.contract.batch import LOGPROBS_MODES, LogprobsMode
from aliquot.oracle import pipeline


def with_a_law(case: Case) -> bool:
    """Whether masks leave the row anything: a row without a law is the matter of ERR16."""
    try:
        pipeline.run(case.logits, case.batch())
    except pipeline.RowError:
        return False
    return True


def test_MINP01_TOPK01_TOPK02_TOPP01_TOPP04_TEMP01_generated_rows(judge: Judge) -> None:
    """Filters on small rows with ties, masked tokens and extremes."""
    judge.needs("processed_logits", "processed_logprobs")
    judge.searched(cases(judge.session.capabilities.parameters), judge.processed)


def test_ALLOW01_BADW01_MINTOK01_BIAS01_PEN01_generated_rows(judge: Judge) -> None:
    """Masks, bias and penalties with histories, filters after them."""
    judge.needs("processed_logits", "processed_logprobs")
    declared = judge.session.capabilities.parameters
    judge.searched(cases(declared, edited=True).filter(with_a_law), judge.processed)


def test_GREEDY01_GREEDY02_GREEDY05_generated_rows(judge: Judge) -> None:
    """The argmax after masks, bias and penalties."""
    declared = judge.session.capabilities.parameters
    judge.searched(cases(declared, edited=True, greedy=True).filter(with_a_law), judge.greedy)


@pytest.mark.parametrize("mode", LOGPROBS_MODES)
def test_LOGP06_LOGP07_RANK01_generated_rows(judge: Judge, mode: LogprobsMode) -> None:
    """Five logprobs and the rank of the sampled token."""
    judge.needs(mode)
    declared = judge.session.capabilities.parameters
    judge.searched(cases(declared), lambda case: judge.reported(case.asking(mode, logprobs=5)))
