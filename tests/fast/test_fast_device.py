"""The path of other devices, on torch's `meta` device: tensors without data, so whatever waits for a value raises."""

import numpy as np
import pytest
import torch
from fast_cases import P, batch_of

from aliquot.contract.batch import BatchError, BatchUpdate, ThinkingMarkers
from aliquot.contract.profile import Profile
from aliquot.fast import compiled, logprobs, penalties, state
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState

V = 1000
CASES = {
    "greedy": P(temperature=0.0),
    "unfiltered": P(),
    "top_k": P(top_k=5),
    "top_p": P(top_p=0.9),
    "both": P(top_k=5, top_p=0.9),
    "min_p": P(min_p=0.1),
    "seed": P(seed=1, top_p=0.5),
    "penalties": P(repetition_penalty=1.2, presence_penalty=0.3),
    "bias": P(logit_bias={1: 2.0}),
    "allowed": P(allowed_token_ids=[1, 2]),
    "bad_words": P(bad_words=[[1], [2, 3]]),
    "min_tokens": P(min_tokens=3, eos_token_id=1),
    "thinking": P(thinking_token_budget=0),
    "logprobs": P(logprobs=3),
    "whole_rows": P(logprobs=-1),
    "explicit": P(logprob_token_ids=[1, 2]),
}
BATCHES = {name: [params] * 2 for name, params in CASES.items()} | {"mixed": [*CASES.values()]}


@pytest.fixture
def _meta(monkeypatch):
    """The meta device has no generator and no compiler."""
    monkeypatch.setattr(Sampler, "generator", lambda *_: None)
    monkeypatch.setattr(logprobs, "fused_count_at_least", lambda: compiled.count_at_least)


@pytest.mark.usefixtures("_meta")
@pytest.mark.parametrize("params", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("fp64", [False, True])
@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs"])
@pytest.mark.parametrize("ties", ["keep_all", "lowest_ids"])
def test_no_step_waits_for_a_value(params, fp64, mode, ties):
    """Every feature, alone and with all others, runs without one look at the data."""
    batch = batch_of(
        params,
        V,
        outputs=[[2, 1] for _ in params],
        logprobs_mode=mode,
        grammar_bitmask=np.full((len(params), -(-V // 32)), -1, dtype=np.int32),
        thinking=ThinkingMarkers(start=(1,), end=(2,)),
    )
    profile = Profile(topk_ties=ties)
    rows = BatchState.of(batch, device="meta", profile=profile)
    sampler = Sampler(profile=profile, use_fp64_gumbel=fp64)
    ids = sampler(torch.empty(len(params), V, device="meta"), rows).sampled_token_ids
    assert (ids.device.type, ids.dtype, tuple(ids.shape)) == ("meta", torch.int64, (len(params), 1))


@pytest.mark.parametrize(
    ("params", "name"),
    [
        (P(presence_penalty=1.0), "Penalties"),
        (P(bad_words=[[1, 2]]), "BadWords"),
        (P(min_tokens=1, eos_token_id=0), "MinTokens"),
    ],
)
def test_capture_refuses_what_follows_the_output(params, name, monkeypatch):
    """A CUDA graph would replay an old history: the edit is named."""
    monkeypatch.setattr(state, "capturing", lambda _: True)
    with pytest.raises(BatchError, match=f"{name} in the capture"):
        Sampler().sample(torch.zeros(1, 4), batch_of([params], 4))


def test_captured_step_counts_outputs_only_when_told(monkeypatch):
    """In a capture the positions of seeded rows stay as they are, in the tensor that `count_outputs` writes."""
    output = [7, 7]
    rows = BatchState.of(batch_of([P(seed=1)], 4, outputs=[output]))
    first = rows.positions()
    monkeypatch.setattr(state, "capturing", lambda _: True)
    output.append(7)
    before = rows.positions().tolist()
    rows.count_outputs()
    assert (before, rows.positions().tolist(), rows.positions() is first) == ([2], [3], True)


def test_a_step_sends_only_what_changed(monkeypatch):
    """Two of three histories grew by a token: two entries are copied; none grew: nothing is."""
    sent = []
    real = penalties.upload
    monkeypatch.setattr(penalties, "upload", lambda *a: sent.append(a[0].shape) or real(*a))
    outputs = [[0, 1], [2], [3]]
    rows = BatchState(V)
    added = [(i, P(presence_penalty=1.0), (), output) for i, output in enumerate(outputs)]
    rows.update(BatchUpdate(batch_size=3, added=added))
    sampler = Sampler()
    sampler(torch.zeros(3, V), rows)
    sent.clear()
    for output in outputs[:2]:
        output.append(5)
    sampler(torch.zeros(3, V), rows)
    grown = list(sent)
    sampler(torch.zeros(3, V), rows)
    assert (grown, sent) == ([(2,), (2, 2), (2, 2)], grown)


@pytest.mark.parametrize(
    "mask",
    [np.zeros((1, 2), np.int32), torch.zeros(2, 1, dtype=torch.int64)],
    ids=["shape", "dtype"],
)
def test_wrong_bitmask_is_named(mask):
    """A bitmask set on a running batch is refused with what fits."""
    rows = BatchState.of(batch_of([P(), P()], 32))
    rows.grammar_bitmask = mask
    with pytest.raises(BatchError, match=r"grammar_bitmask is .* allowed is int32 \(2, 1\)"):
        Sampler()(torch.zeros(2, 32), rows)
