"""Supports of min-p, top-k and top-p, alone and together, in a small and in a large vocabulary."""

import numpy as np
import pytest
import torch
from fast_cases import NEG, WIDE, P, after_filters, batch_of, logits_of, spread, support

from aliquot.contract.params import ParameterError
from aliquot.contract.profile import Profile
from aliquot.fast import paths
from aliquot.fast import state as state_module
from aliquot.fast.blocks import Logits
from aliquot.fast.cuts import Rows, _round_up, nucleus_cut
from aliquot.fast.select import _crossing
from aliquot.fast.state import BatchState

TENTHS = logits_of([0.1, 0.2, 0.3, 0.4])
TIED = torch.tensor([3.0, 2.0, 2.0, 1.0])
CASES = [
    (TENTHS, P(top_k=2), [2, 3]),
    (TENTHS, P(top_k=2, top_p=0.5), [3]),
    (TENTHS, P(top_k=3, top_p=0.7), [2, 3]),
    (logits_of([0.4, 0.3, 0.2, 0.1]), P(top_p=0.5), [0, 1]),
    (logits_of([0.5, 0.41, 0.09]), P(top_p=0.9), [0, 1]),
    (logits_of([0.9, 0.1]), P(top_p=0.5), [0]),
    (TIED, P(top_k=2), [0, 1, 2]),
    (TIED, P(top_k=1), [0]),
    (torch.tensor([1.0, 3.0, 3.0]), P(top_k=1), [1, 2]),
    (torch.tensor([1.0, 1.0, 1.0, 1.0]), P(top_p=0.5), [0, 1, 2, 3]),
    (torch.tensor([0.0, 2.0, 1.0]), P(top_p=1e-9), [1]),
    (torch.tensor([NEG, 2.0, 1.0, NEG]), P(top_k=3), [1, 2]),
    (TENTHS, P(top_k=0), [0, 1, 2, 3]),
    (TENTHS, P(top_k=-1), [0, 1, 2, 3]),
    (TENTHS, P(min_p=0.6), [2, 3]),
    (TENTHS, P(min_p=1.0), [3]),
    (torch.tensor([0.0, 2.0, 4.0]), P(min_p=0.2, temperature=2.0), [1, 2]),
    (torch.tensor([0.0, 2.0, 4.0]), P(min_p=0.2), [2]),
    (torch.tensor([3.0, 2.0, 1.0]), P(top_p=0.8, temperature=0.5), [0]),
    (torch.tensor([3.0, 2.0, 1.0]), P(top_p=0.8), [0, 1]),
    (TENTHS, P(min_p=0.6, top_p=0.5), [3]),
    (logits_of([0.4, 0.3, 0.2, 0.1]), P(min_p=0.3, top_p=0.99), [0, 1, 2]),
]


@pytest.mark.parametrize(("row", "params", "wanted"), CASES)
def test_support_in_a_small_vocabulary(row, params, wanted):
    """The kept ids are those worked out by hand."""
    assert support(row, params) == wanted


@pytest.mark.parametrize(("row", "params", "wanted"), CASES)
def test_support_in_a_large_vocabulary(row, params, wanted):
    """The same tokens among 20,000 masked ones give the same support."""
    assert support(spread(row), params) == wanted


@pytest.mark.parametrize("k", [4, 5, 2**40])
def test_k_from_the_vocabulary_size_up_is_off(k):
    """k equal to V and beyond keeps every token."""
    assert support(TENTHS, P(top_k=k)) == [0, 1, 2, 3]


def test_every_tie_at_the_kth_stays_however_many():
    """With 100 tokens equal to the 50th, far more than any margin, all of them stay."""
    row = torch.zeros(WIDE)
    row[torch.arange(100) * 199] = 1.0
    row[19_999] = 2.0
    assert support(row, P(top_k=50)) == [i * 199 for i in range(100)] + [19_999]


def test_large_k_keeps_k():
    """k = 300 of distinct logits keeps the 300 largest."""
    row = torch.arange(WIDE, dtype=torch.float32) / 1000
    assert support(row, P(top_k=300)) == list(range(WIDE - 300, WIDE))


def test_large_k_with_nucleus_renormalises():
    """Of 1,000 equal tokens after top-k, with 1,000 smaller ones below, p = .9 keeps the 1,000 alone."""
    row = torch.full((WIDE,), NEG)
    row[5000:6000], row[:1000] = 0.0, -0.01
    assert support(row, P(top_k=1000, top_p=0.9)) == list(range(5000, 6000))


def test_broad_nucleus():
    """Of 20,000 tokens of mass 2^-(1 + i // 10,000), p = .7 needs the second half too."""
    row = torch.zeros(WIDE)
    row[10_000:] = -1.0
    assert len(support(row, P(top_p=0.7))) == 10_000
    assert len(support(row, P(top_p=0.75))) == WIDE


def test_each_row_has_its_own_parameters():
    """Rows with different k, p and min_p, one of them greedy, are cut each by its own."""
    rows = torch.stack([TENTHS] * 5)
    params = [P(top_k=1), P(), P(top_p=0.5), P(min_p=0.6), P(temperature=0.0, top_k=1)]
    kept = after_filters(rows, *params) > NEG
    assert kept.sum(1).tolist() == [1, 4, 2, 2, 4]


@pytest.mark.parametrize("width", [300, WIDE])
def test_each_row_of_a_batch_keeps_what_it_keeps_alone(width: int):
    """Rows without k beside rows with a small k, where only the largest tokens are looked at first."""
    rows = torch.randn(4, width, generator=torch.Generator().manual_seed(3))
    params = [P(top_k=50), P(top_p=0.9), P(min_p=0.01), P(top_k=20, top_p=0.8)]
    together = after_filters(rows.clone(), *params)
    alone = [after_filters(row[None].clone(), p)[0] for row, p in zip(rows, params, strict=True)]
    assert torch.equal(together, torch.stack(alone))


def test_processed_logits_are_divided_once():
    """T = 2 halves the kept logits and leaves the greedy row alone."""
    rows = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    assert after_filters(rows, P(temperature=2.0), P(temperature=0.0)).tolist() == [[1, 0], [2, 0]]


PROFILES = [
    (TIED, P(top_k=2), Profile(topk_ties="lowest_ids"), [0, 1]),
    (TIED, P(top_k=2), Profile(topk_ties="highest_ids"), [0, 2]),
    (torch.ones(4), P(top_p=0.5), Profile(topp_ties="lowest_ids"), [0, 1]),
    (torch.ones(4), P(top_p=0.5), Profile(topp_ties="highest_ids"), [2, 3]),
    (torch.ones(4), P(top_p=0.5, top_k=3), Profile(topk_ties="lowest_ids"), [0, 1, 2]),
    (torch.tensor([0.0, 0.0, NEG]), P(top_p=0.5), Profile(topp_ties="lowest_ids"), [0]),
    (
        torch.tensor([0.0, 0.0, NEG]),
        P(top_p=0.5),
        Profile(topp_ties="lowest_ids", topp_exact="one_more"),
        [0, 1],
    ),
    (TENTHS, P(top_k=2, top_p=0.5), Profile(filter_order="joint"), [2, 3]),
    (TENTHS, P(top_k=2, top_p=0.5), Profile(filter_order="joint", topk_ties="lowest_ids"), [2, 3]),
    (torch.ones(4), P(top_k=2, top_p=0.5),
     Profile(filter_order="joint", topk_ties="lowest_ids", topp_ties="highest_ids"), [2, 3]),
    (torch.tensor([0.0, -50.0]), P(), Profile(topp_ties="lowest_ids"), [0, 1]),
    (torch.tensor([3.0, 2.0, 1.0]), P(top_p=0.8, temperature=0.5), Profile(temperature_order="after"), [0, 1]),
    (torch.tensor([0.0, 2.0, 4.0]), P(min_p=0.2, temperature=2.0), Profile(minp_order="before_temperature"), [2]),
    (torch.tensor([0.0, 2.0, 4.0]), P(min_p=0.2, temperature=2.0), Profile(temperature_order="after"), [1, 2]),
    (torch.tensor([0.0, 2.0, 4.0]), P(min_p=0.2, temperature=2.0),
     Profile(temperature_order="after", minp_order="after_filters"), [2]),
    (
        logits_of([0.4, 0.3, 0.2, 0.1]),
        P(min_p=0.3, top_p=0.85),
        Profile(minp_order="after_filters"),
        [0, 1, 2],
    ),
    (logits_of([0.4, 0.3, 0.2, 0.1]), P(min_p=0.6, top_p=0.55), Profile(minp_order="after_filters"), [0, 1]),
    (logits_of([0.4, 0.3, 0.2, 0.1]), P(min_p=0.6, top_p=0.55), Profile(), [0]),
]  # fmt: skip


@pytest.mark.parametrize("widen", [torch.as_tensor, spread])
@pytest.mark.parametrize(("row", "params", "profile", "wanted"), PROFILES)
def test_freedoms(row, params, profile, wanted, widen):
    """Each declared choice gives its own support."""
    assert support(widen(row), params, profile=profile) == wanted


def test_temperature_floor():
    """A temperature of .001 under a floor of .01 divides by .01."""
    got = after_filters(
        torch.tensor([[1.0, 0.0]]), P(temperature=0.001), profile=Profile(temperature_floor=0.01)
    )
    assert got.tolist() == [[100.0, 0.0]]


@pytest.mark.parametrize("k", [0, -1, 5])
def test_off_values_of_k_refused_where_declared(k):
    """A profile in which off values are errors names the field and the value."""
    with pytest.raises(ParameterError, match=f"top_k is {k}"):
        support(TENTHS, P(top_k=k), profile=Profile(topk_off="error"))


def test_mass_that_reaches_p_exactly_stops():
    """With weights 4, 2, 2 of 8 and p = .5 the first stays alone, with one_more the tied pair too."""
    weights = torch.tensor([[4.0, 2.0, 2.0]], dtype=torch.float64)
    found = []
    for choice in ("stop", "one_more"):
        state = BatchState.of(batch_of([P(top_p=0.5)], 3))
        rows = Rows(Logits(torch.zeros(1, 3)), state.plan.groups[0], Profile(topp_exact=choice))
        edge = nucleus_cut(rows, torch.tensor([[3.0, 2.0, 2.0]]), weights, weights.sum(1))
        found.append(edge.item())
    assert found == [3.0, 2.0]


@pytest.mark.parametrize(
    ("goal", "inclusive", "wanted"),
    [(1.0, False, 0), (1.0, True, 1), (200.0, False, 199), (200.0, True, 200)],
)
def test_crossing_in_blocks(goal, inclusive, wanted):
    """Among 300 unit weights the goal is crossed where counting says, past the first block as well."""
    assert _crossing(np.ones(300), goal, inclusive) == wanted


def test_min_p_threshold_is_rounded_upwards():
    """A threshold between two float32 numbers becomes the larger one, an exact one stays."""
    cut = torch.tensor([1 + 2.0**-30, 1.0, 1 - 2.0**-30], dtype=torch.float64)
    assert _round_up(cut).tolist() == [1 + 2.0**-23, 1.0, 1.0]


def test_mass_of_tokens_outside_the_candidates_counts():
    """Of 1,000 nearly equal tokens p = .05 keeps the 50 largest."""
    row = torch.full((WIDE,), NEG)
    row[:1000] = torch.arange(1000) * 1e-6
    assert support(row, P(top_p=0.05)) == list(range(950, 1000))


def test_misleading_sample():
    """Where every 32nd token hides most of the mass, the nucleus is still whole."""
    row = torch.zeros(WIDE)
    row[::32] = NEG
    row[1::2] = torch.where(row[1::2] > NEG, 0.01, NEG)
    row[0] = 8.0
    assert len(support(row, P(top_p=0.9))) == 1 + WIDE - WIDE // 32


@pytest.mark.parametrize(("row", "params", "wanted"), CASES)
@pytest.mark.parametrize("edges", ["_Selected", "_Sorted"])
def test_support_over_whole_rows(row, params, wanted, edges, monkeypatch):
    """Without candidates, by selection as on the CPU or by a sort as elsewhere, the support is the same."""
    monkeypatch.setattr(paths, "_Selected", getattr(paths, edges))
    monkeypatch.setattr(state_module, "REACH", {})
    assert support(spread(row), params) == wanted


def test_largest_tokens_in_as_many_blocks():
    """Sixty distinct tokens, each in a block of its own, are cut to the 50 largest."""
    row = torch.zeros(WIDE)
    row[torch.arange(60) * 199] = torch.arange(1.0, 61.0)
    assert support(row, P(top_k=50)) == [i * 199 for i in range(10, 60)]
