"""The findings of processors_vllm.py repeated with vLLM alone; run where vLLM 0.25.1 is installed.

Prints what each case gives and what it should; nothing of this project is used.
"""

from types import SimpleNamespace
from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor.builtin import LogitBiasLogitsProcessor
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

START, END = 2, [3, 1]
BUDGET, FREE = SamplingParams(thinking_token_budget=0), SamplingParams()
CPU = torch.device("cpu")


def update(size: int, removed: Any = (), added: Any = (), moved: Any = ()) -> BatchUpdate:
    """An update in the order in which it is to be processed."""
    return BatchUpdate(batch_size=size, removed=removed, added=added, moved=moved)


def holder() -> ThinkingBudgetStateHolder:
    """A holder of two rows, start marker 2, end marker 3 1."""
    markers: Any = SimpleNamespace(reasoning_start_token_ids=[START], reasoning_end_token_ids=END)
    return ThinkingBudgetStateHolder(markers, 2, 0, CPU, False)


def forced(state: ThinkingBudgetStateHolder, outputs: list[list[int]]) -> list[int | None]:
    """The token forced in each row, as the sampler asks for it."""
    state.update_state(outputs, None)
    logits = state.apply_to_logits(torch.zeros(len(outputs), 4), False, None)
    return [int(row.argmax()) if row.max() > 0 else None for row in logits]


def bias_after_refill() -> list[float]:
    """One update removes row 0 and adds a request with a bias there: the bias should act."""
    processor = LogitBiasLogitsProcessor(None, CPU, False)
    processor.update_state(update(1, added=[(0, FREE, [], [])]))
    biased = SamplingParams(logit_bias={0: 5.0})
    processor.update_state(update(1, removed=[0], added=[(0, biased, [], [])]))
    return list(processor.apply(torch.zeros(1, 2))[0].tolist())


def budget_after_move() -> list[int | None]:
    """Row 0 had a budget and ended; row 1, which has none, is moved there: nothing should be forced."""
    state = holder()
    state.sync_batch(update(2, added=[(0, BUDGET, [START], []), (1, FREE, [], [])]))
    state.sync_batch(update(1, moved=[(1, 0, MoveDirectionality.UNIDIRECTIONAL)]))
    return forced(state, [[0]])


def budget_after_swap() -> list[int | None]:
    """Row 0 has a budget, row 1 has none, they are swapped: only row 1 should be forced."""
    state = holder()
    state.sync_batch(update(2, added=[(0, BUDGET, [START], []), (1, FREE, [], [])]))
    state.sync_batch(update(2, moved=[(0, 1, MoveDirectionality.SWAP)]))
    return forced(state, [[0], []])


def budget_kept() -> list[list[int | None]]:
    """A request stays in the batch while its end marker 3 1 is forced."""
    state, output = holder(), [START]
    state.sync_batch(update(1, added=[(0, BUDGET, [], output)]))
    first = forced(state, [output])
    output.append(END[0])
    return [first, forced(state, [output])]


def budget_resumed() -> list[int | None]:
    """The same request leaves after the first token of the marker and comes back: 1 should be forced."""
    state = holder()
    output = [START, END[0]]
    state.sync_batch(update(1, added=[(0, BUDGET, [], output)]))
    return forced(state, [output])


def second_start(*, resumed: bool) -> list[int | None]:
    """Budget 1, a section of one token that is the start marker again, read at once or token by token: 3 is due."""
    state, output = holder(), [START, START] if resumed else [START]
    one = SamplingParams(thinking_token_budget=1)
    state.sync_batch(update(1, added=[(0, one, [], output)]))
    if not resumed:
        forced(state, [output])
        output.append(START)
    return forced(state, [output])


def revived() -> float:
    """The end marker's first token is masked: the holder raises it to 1e9."""
    state = holder()
    state.sync_batch(update(1, added=[(0, BUDGET, [START], [])]))
    state.update_state([[]], None)
    return float(state.apply_to_logits(torch.full((1, 4), -torch.inf), False, None).max())


if __name__ == "__main__":
    print("bias after removed [0], added (0, bias 5 on token 0):", bias_after_refill())
    print("forced after a request without budget moved to row 0:", budget_after_move())
    print("forced after rows 0 (budget) and 1 (none) swapped:   ", budget_after_swap())
    print("forced for a request that stays:                     ", budget_kept())
    print("forced for the same request, back with its output:   ", budget_resumed())
    print("forced after a second start marker, request stays:   ", second_start(resumed=False))
    print("forced after a second start marker, request is back: ", second_start(resumed=True))
    print("logit of a masked end marker:                        ", revived())
