"""Speculative decoding: which rows a step has, and the verification of drafts (Leviathan et al., arXiv 2211.17192).

SPEC09: position i of a request sees its output and drafts 0 to i-1, the bonus position all drafts
(MINTOK05 too). PLUG06: of the logits processors only min tokens stays, logit bias and min-p are
off. SPEC02: draft x is accepted iff `u * q(x) < p(x)`, u in [0, 1). SPEC03: p(x) = 0 is never
accepted. SPEC04: on rejection one token comes from `max(p - q, 0)` renormalised and later drafts
are dropped. SPEC05: after all drafts one more token comes from the next position's law. SPEC06:
without draft probabilities q is one at the draft. SPEC07: a greedy row, whose law is certain,
accepts its argmax alone. SPEC08: ids `[n, max_spec + 1]`, -1 where unused. SPEC10: each decision
has a uniform of its own. SPEC11: no drafts, one token. SPEC01: what is emitted has the target's
law.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from aliquot.contract.batch import PLACEHOLDER, Batch, Request
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.oracle import law, pipeline
from aliquot.oracle.rows import Rows

CLAUSES = (*(f"SPEC{i:02d}" for i in range(1, 12)), "PLUG06", "MINTOK05")
Prefix = tuple[int, ...]
Model = Callable[[Prefix], Rows]
SequenceLaw = dict[Prefix, float]


def positions(batch: Batch, grammar_bitmask: npt.NDArray[np.int32] | None = None) -> Batch:
    """The batch of all positions: for each request its drafts' positions in order, then its bonus position.

    `grammar_bitmask` is that of the positions, int32 `[positions, ceil(V/32)]`.
    """
    requests = [at(request, i) for request in batch.requests for i in range(_count(request))]
    return replace(
        batch, requests=requests, grammar_bitmask=grammar_bitmask, all_greedy=None, all_random=None
    )


def at(request: Request, position: int) -> Request:
    """The request as position `position` sees it: the drafts before it are output (SPEC09)."""
    seen = [*request.output_token_ids, *request.draft_token_ids[:position]]  # SPEC09 MINTOK05
    return replace(request, output_token_ids=seen, draft_token_ids=())


def steps_for(profile: Profile) -> pipeline.Steps:
    """The profile's steps without logit bias and min-p (PLUG06)."""
    steps = pipeline.removed(pipeline.steps_for(profile), "logit_bias")  # PLUG06
    return pipeline.removed(steps, "min_p")  # PLUG06


def target_laws(
    logits: npt.ArrayLike,
    batch: Batch,
    *,
    grammar_bitmask: npt.NDArray[np.int32] | None = None,
    profile: Profile = CANONICAL,
    parameter_dtype: type[Any] = np.float32,
) -> list[Rows]:
    """For each request the laws float64 `[drafts + 1, V]` of its positions, from logits `[positions, V]`."""
    outcome = pipeline.run(
        logits,
        positions(batch, grammar_bitmask),
        profile=profile,
        steps=steps_for(profile),
        parameter_dtype=parameter_dtype,
    )
    ends = np.cumsum([_count(request) for request in batch.requests], dtype=np.int64)
    return np.split(outcome.law, ends[:-1]) if len(batch) else []


def verify(
    laws: Sequence[Rows],
    batch: Batch,
    draft_laws: Sequence[Rows | None],
    uniforms: npt.ArrayLike,
    final_uniforms: npt.ArrayLike,
) -> npt.NDArray[np.int64]:
    """The emitted ids, int64 `[n, max_spec + 1]`, unused places -1 (SPEC08).

    `laws` are the targets' `[drafts + 1, V]`, `draft_laws` the drafts' `[drafts, V]` or None,
    `uniforms` `[n, max_spec]` decide on the drafts and `final_uniforms` `[n]` draw the last token
    (SPEC10).
    """
    us, last = np.asarray(uniforms, dtype=np.float64), np.asarray(final_uniforms, dtype=np.float64)
    longest = max((len(request.draft_token_ids) for request in batch.requests), default=0)
    ids = np.full((len(batch), longest + 1), PLACEHOLDER, dtype=np.int64)  # SPEC08
    for r, request in enumerate(batch.requests):
        emitted = _verified(laws[r], request.draft_token_ids, draft_laws[r], us[r], float(last[r]))
        ids[r, : len(emitted)] = emitted
    return ids


def _verified(
    target: Rows, drafts: Sequence[int], draft_law: Rows | None, us: Rows, last: float
) -> list[int]:
    """The tokens that one request emits: accepted drafts, then one of the residual or of the bonus law."""
    emitted: list[int] = []
    for i, token in enumerate(drafts):
        p = target[i]
        q = certain(token, p.size) if draft_law is None else draft_law[i]
        if not accepts(p, q, token, us[i]):
            return [*emitted, int(law.draw_row(residual(p, q), last))]  # SPEC04 SPEC10
        emitted.append(token)
    return [*emitted, int(law.draw_row(target[-1], last))]  # SPEC05 SPEC11


def accepts(p: Rows, q: Rows, token: int, u: float) -> bool:
    """Whether a draft is accepted for u in [0, 1) (SPEC02)."""
    return bool(u * q[token] < p[token])  # SPEC02 SPEC03 SPEC07


def certain(token: int, vocab_size: int) -> Rows:
    """The law of a draft without probabilities: one at the draft (SPEC06)."""
    q = np.zeros(vocab_size)
    q[token] = 1.0  # SPEC06
    return q


def residual(p: Rows, q: Rows) -> Rows:
    """What a rejected draft is replaced from, float64 `[V]`; p itself where nothing is left (SPEC04)."""
    left = np.maximum(p - q, 0.0)  # SPEC04
    total = left.sum()
    return left / total if total > 0 else p


def emitted_law(target: Model, draft: Model, drafts: int) -> SequenceLaw:
    """The exact law of the emitted tokens, by enumeration: sequences of 1 to `drafts + 1` tokens.

    `target` and `draft` give a law float64 `[V]` for what was emitted before. Meant for V up to
    about 5.
    """
    emitted: SequenceLaw = defaultdict(float)

    def step(prefix: Prefix, probability: float, left: int) -> None:
        p = target(prefix)
        if left == 0:
            _share(emitted, prefix, probability * p)  # SPEC05
            return
        q = draft(prefix)
        both = np.minimum(p, q)  # SPEC02
        for token in np.flatnonzero(both > 0).tolist():
            step((*prefix, token), probability * float(both[token]), left - 1)
        rejected = float(np.maximum(q - p, 0.0).sum())
        _share(emitted, prefix, probability * rejected * residual(p, q))  # SPEC04

    step((), 1.0, drafts)
    return dict(emitted)


def completed(emitted: SequenceLaw, target: Model, length: int) -> SequenceLaw:
    """The law of the first `length` tokens when the target alone goes on after what was emitted.

    With exact speculative decoding it equals `completed({(): 1.0}, target, length)` (SPEC01).
    """
    whole: SequenceLaw = defaultdict(float)
    for prefix, probability in emitted.items():
        if len(prefix) >= length:
            whole[prefix[:length]] += probability
            continue
        longer: SequenceLaw = defaultdict(float)
        _share(longer, prefix, probability * target(prefix))
        for sequence, mass in completed(longer, target, length).items():
            whole[sequence] += mass
    return dict(whole)  # SPEC01


def _share(sequences: SequenceLaw, prefix: Prefix, masses: Rows) -> None:
    for token in np.flatnonzero(masses > 0).tolist():
        sequences[*prefix, token] += float(masses[token])


def _count(request: Request) -> int:
    return len(request.draft_token_ids) + 1  # SPEC11
