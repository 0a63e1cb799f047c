"""The contract in 50 digits: an evaluation with mpmath that shares no code with the oracle.

Logits, parameters and their products are taken exactly, every operation is rounded to 50 digits. A
masked token is None. Each decision of a filter also yields its margin: how far the compared
quantities are apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from mpmath import mp, mpf

from aliquot.contract.batch import Batch, Request
from aliquot.contract.params import SamplingParams

mp.dps = 50
SMALLEST = mpf(2) ** -1074
Logits = list[mpf | None]


@dataclass
class Exact:
    """One row in 50 digits: after the grammar, after the filters, and the smallest margin of a decision."""

    raw: Logits
    filtered: Logits
    greedy: int
    greedy_margin: mpf
    margin: mpf = field(default_factory=lambda: mpf("inf"))


def held(value: float) -> mpf:
    """A parameter as float32 holds it."""
    return mpf(float(np.float32(value)))


def alive(row: Logits) -> list[mpf]:
    """The logits that are not masked."""
    return [logit for logit in row if logit is not None]


def logprobs(row: Logits) -> Logits:
    """Log-softmax; one largest token stands outside the sum, so that tiny others are not lost beside 1."""
    largest, *others = sorted(alive(row), reverse=True)
    log_sum = mp.log1p(mp.fsum(mp.exp(logit - largest) for logit in others))
    return [None if logit is None else logit - largest - log_sum for logit in row]


def evaluate(logits: Sequence[float], request: Request, batch: Batch, index: int) -> Exact:
    """The steps of the contract on row `index` of a batch."""
    params = request.params
    row: Logits = [mpf(float(logit)) for logit in logits]
    if batch.grammar_bitmask is not None:
        words = [int(word) % 2**32 for word in batch.grammar_bitmask[index]]
        row = [x if words[t // 32] >> t % 32 & 1 else None for t, x in enumerate(row)]
    raw = list(row)
    row = biased(masked(row, request), params)
    row = penalised(row, request)
    forced = forced_token(request, batch)
    if forced is not None:
        row[forced] = mpf(10) ** 9
    largest = max(alive(row))
    greedy_margin = min([largest - x for x in alive(row) if x != largest], default=mpf("inf"))
    exact = Exact(raw, row, row.index(largest), greedy_margin)
    if not params.greedy:
        row = [None if x is None else x / held(params.temperature) for x in row]
        exact.filtered = top_p(top_k(min_p(row, params, exact), params, exact), params, exact)
    return exact


def masked(row: Logits, request: Request) -> Logits:
    """Allowed ids, bad words, min tokens."""
    params, output = request.params, request.output_token_ids
    gone = set()
    if params.allowed_token_ids is not None:
        gone |= set(range(len(row))) - set(params.allowed_token_ids)
    for word in params.bad_words:
        start = list(word)[:-1]
        if not start or output[-len(start) :] == start:
            gone.add(word[-1])
    if len(output) < params.min_tokens:
        gone |= set(params.stop_ids)
    return [None if token in gone else logit for token, logit in enumerate(row)]


def biased(row: Logits, params: SamplingParams) -> Logits:
    """Logit bias."""
    bias = {t: held(max(-100.0, min(100.0, b))) for t, b in params.logit_bias.items()}
    return [x if x is None else x + bias.get(t, 0) for t, x in enumerate(row)]


def penalised(row: Logits, request: Request) -> Logits:
    """Repetition, frequency, presence."""
    params = request.params
    r, f, a = map(
        held, (params.repetition_penalty, params.frequency_penalty, params.presence_penalty)
    )
    output = list(request.output_token_ids)
    seen = {*output, *(request.prompt_token_ids or ())}
    out: Logits = []
    for token, x in enumerate(row):
        if x is not None and token in seen:
            x = x / r if x > 0 else x * r
            x -= f * output.count(token) + (a if token in output else 0)
        out.append(x)
    return out


def forced_token(request: Request, batch: Batch) -> int | None:
    """The end marker's token when the budget is used up; markers of one token each."""
    budget, markers = request.params.thinking_token_budget, batch.thinking
    if budget is None or markers is None:
        return None
    (start,), (end,) = markers.start, markers.end
    prompt = list(request.prompt_token_ids or ())
    opened: int | None = None
    for place, token in enumerate([*prompt, *request.output_token_ids]):
        if opened is None and token == start:
            opened = place
        elif opened is not None and token == end:
            if place >= len(prompt) and place - opened > budget:
                budget = 0
            opened = None
    used = len(prompt) + len(request.output_token_ids) - 1 - (opened or 0)
    return end if opened is not None and used >= budget else None


def min_p(row: Logits, params: SamplingParams, exact: Exact) -> Logits:
    """Tokens whose probability is below min_p times the largest go."""
    floor = held(params.min_p)
    if floor == 0:
        return row
    largest, out = max(alive(row)), list(row)
    for token, x in enumerate(row):
        if x is not None:
            ratio = mp.exp(x - largest)
            if x != largest:
                exact.margin = min(exact.margin, abs(ratio / floor - 1))
            out[token] = x if ratio >= floor else None
    return out


def top_k(row: Logits, params: SamplingParams, exact: Exact) -> Logits:
    """Tokens below the k-th largest go."""
    descending = sorted(alive(row), reverse=True)
    if not 0 < params.top_k < len(row) or params.top_k >= len(descending):
        return row
    kth = descending[params.top_k - 1]
    gaps = [abs(x - kth) for x in descending if x != kth]
    exact.margin = min([exact.margin, *gaps])
    return [x if x is not None and x >= kth else None for x in row]


def top_p(row: Logits, params: SamplingParams, exact: Exact) -> Logits:
    """Tokens go when strictly larger ones already reach p."""
    p = held(params.top_p)
    if p >= 1:
        return row
    largest = max(alive(row))
    levels = sorted(set(alive(row)), reverse=True)
    weight = {x: mp.exp(x - largest) * row.count(x) for x in levels}
    total, before, kept = mp.fsum(weight.values()), mpf(0), set()
    for x in levels:
        if x != largest and before / total != p:
            exact.margin = min(exact.margin, abs(before / total - p))
        if x == largest or before / total < p:
            kept.add(x)
        before += weight[x]
    if len(kept) < len(levels):  # levels that float64 may not tell apart
        exact.margin = min(exact.margin, min(kept) - levels[len(kept)])
    return [x if x in kept else None for x in row]


def relative_error(got: float, wanted: mpf, size: int) -> float:
    """`|got - wanted| / |wanted|` in units of 2^-53, apart from what `size` weights may lose by underflow."""
    excess = abs(mpf(got) - wanted) - size * SMALLEST
    return float(excess / abs(wanted) * 2**53) if excess > 0 else 0.0
