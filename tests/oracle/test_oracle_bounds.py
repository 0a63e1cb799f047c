"""Must, may and the intervals contain every correct sampler, and are sharp."""

import itertools

import numpy as np
import oracle_float32
import pytest
import torch
from oracle_cases import INF, batch, request, run

from aliquot.contract.accuracy import CLASSES
from aliquot.contract.profile import CANONICAL, FREEDOMS, Profile
from aliquot.oracle import pipeline
from aliquot.oracle.bounds import keep_bounds, preceding_mass, value_bounds
from aliquot.oracle.intervals import Arithmetic, Held

F32, LANES = CLASSES["float32"], CLASSES["float32-lanes"]
ORDERED = (
    "topk_ties",
    "topp_ties",
    "topp_exact",
    "filter_order",
    "temperature_order",
    "minp_order",
)
PROFILES = [
    Profile(**dict(zip(ORDERED, choice, strict=True)))
    for choice in itertools.product(*[f.choices for f in FREEDOMS if f.name in ORDERED])
]


def keep(row, profile=CANONICAL, accuracy=F32, **params):
    """Must and may tokens of one float32 row, as lists."""
    logits = np.array([row], dtype=np.float32)
    bounds = keep_bounds(
        logits,
        batch(request(**params), vocab_size=logits.size),
        accuracy=accuracy,
        profile=profile,
    )
    return np.flatnonzero(bounds.must[0]).tolist(), np.flatnonzero(bounds.may[0]).tolist()


def random_row(rng):
    """A short float32 row: normal, tied, nearly tied or flat."""
    size = int(rng.integers(1, 40))
    scale, offset = rng.choice([0.1, 1, 3, 10]), rng.choice([0, 20])
    normal = rng.normal(size=size) * scale + offset
    near = np.where(rng.random(size) < 0.5, 1.0, 1 + 2.0**-23)
    kinds = (normal, np.round(normal * 2) / 2, rng.integers(0, 3, size=size), near, np.zeros(size))
    return kinds[rng.integers(5)].astype(np.float32)


def random_request(size, rng):
    """Every parameter that acts on values, often at a telling one."""
    tokens = [rng.integers(0, size, size=rng.integers(4)).tolist() for _ in range(2)]
    return request(
        *tokens,
        temperature=float(rng.choice([1, 0.5, 0.7, 1.3, 0.01, 50])),
        top_k=int(rng.integers(0, size + 2)),
        top_p=float(rng.choice([1, 0.5, 0.25, 0.9, 0.1, 0.7, rng.random() + 1e-9])),
        min_p=float(rng.choice([0, 0, 0.1, 0.5, 1, rng.random()])),
        repetition_penalty=float(rng.choice([1, 1.1, 0.5])),
        frequency_penalty=float(rng.choice([0, 0.3])),
        presence_penalty=float(rng.choice([0, -0.7])),
        logit_bias={int(t): 0.3 for t in rng.integers(0, size, size=rng.integers(3))},
    )


def inside(interval, row, values):
    """Whether all values [V] lie in the row's intervals."""
    return bool(((interval.lo[row] <= values) & (values <= interval.hi[row])).all())


@pytest.mark.parametrize("seed", range(4))
def test_a_float32_sampler_is_inside_under_every_profile(seed):
    """Kept tokens, logits, logprobs and ranks of 2,400 samplers written down in float32, and of the oracle."""
    rng, outside = np.random.default_rng(seed), []
    for index in range(600):
        profile = PROFILES[rng.integers(len(PROFILES))]
        row = random_row(rng)
        asks = random_request(row.size, rng)
        one = batch(asks, vocab_size=row.size, logprobs_mode="processed_logprobs")
        kept = keep_bounds(row[None], one, accuracy=F32, profile=profile)
        values = value_bounds(row[None], one, accuracy=F32, profile=profile)
        order = [step.name for step in pipeline.steps_for(profile)][7:]
        single = oracle_float32.filtered(row, asks, profile, order, ascending=index % 2)
        double = pipeline.run(row[None], one, profile=profile).filtered[0]
        for got in (single, double):
            stays, logprobs = got > -INF, oracle_float32.log_softmax(got)
            ranks = (logprobs[None, :] >= logprobs[:, None]).sum(axis=1)
            claims = {
                "may": not (stays & ~kept.may[0]).any(),
                "must": not (kept.must[0] & ~stays).any(),
                "logits": inside(values.logits, 0, got),
                "logprobs": inside(values.logprobs, 0, logprobs),
                "ranks": inside(values.ranks, 0, ranks),
            }
            outside += [(index, profile, name) for name, ok in claims.items() if not ok]
    assert outside == []


def torch_nucleus(row, p, descending):
    """The kept tokens [V] by torch's float32 sort, softmax and cumsum, ties kept."""
    logits = torch.from_numpy(row)
    ordered = logits.sort(descending=descending).values
    mass = torch.cumsum(torch.softmax(ordered, dim=-1), dim=-1)
    if descending:
        stays = torch.cat([torch.zeros(1), mass[:-1]]) < np.float32(p)
        stays[0] = True
    else:
        stays = mass > 1 - torch.tensor(p, dtype=torch.float32)
        stays[-1] = True
    return (logits >= ordered[stays].min()).numpy()


def nuclei_outside(rows, p, accuracy, descending):
    """How many rows have a torch nucleus outside must and may."""
    asks = batch(*[request(top_p=p)] * len(rows), vocab_size=rows.shape[1])
    bounds = keep_bounds(rows, asks, accuracy=accuracy)
    kept = np.array([torch_nucleus(row, p, descending) for row in rows])
    return int(((kept & ~bounds.may) | (bounds.must & ~kept)).any(axis=1).sum())


def generated(count, size, seed):
    """Normal float32 rows of several widths and offsets, a quarter rounded to bfloat16."""
    rng = np.random.default_rng(seed)
    scale, offset = rng.uniform(0.2, 6, size=(count, 1)), rng.choice([0, 15], size=(count, 1))
    rows = (rng.normal(size=(count, size)) * scale + offset).astype(np.float32)
    rows[::4] = (rows[::4].view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return rows


@pytest.mark.parametrize(("accuracy", "descending"), [(F32, False), (LANES, True)])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_torch_is_inside_on_generated_rows(accuracy, descending, p):
    """Torch's nucleus on 1,700 rows for each p: 10,200 in all."""
    counts = [
        nuclei_outside(generated(count, size, seed=size), p, accuracy, descending)
        for count, size in ((1200, 50), (450, 1000), (50, 8192))
    ]
    assert counts == [0, 0, 0]


@pytest.mark.parametrize(("accuracy", "descending"), [(F32, False), (LANES, True)])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_torch_is_inside_on_real_rows(accuracy, descending, p, real_rows):
    """Torch's nucleus on logits of a language model, float32 and bfloat16."""
    assert [nuclei_outside(rows, p, accuracy, descending) for rows in real_rows] == [0, 0]


def test_torchs_lane_sums_are_outside_the_blocked_class(real_rows):
    """Softmax of descending real logits loses small terms in its running sums: float32 is not its class."""
    assert nuclei_outside(real_rows[0], 0.99, F32, descending=True) > 0


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_sharp_enough_at_128256_tokens(p):
    """At most 3 undecided tokens at the median of five normal rows."""
    rows = np.random.default_rng(1).normal(size=(5, 128_256)).astype(np.float32)
    bounds = keep_bounds(rows, batch(*[request(top_p=p)] * 5, vocab_size=128_256), accuracy=F32)
    assert np.median(bounds.undecided.sum(axis=1)) <= 3


@pytest.mark.parametrize(
    ("ties", "must", "may"),
    [
        ("keep_all", [0, 1, 3], [0, 1, 3]),
        ("lowest_ids", [0, 1], [0, 1]),
        ("highest_ids", [1, 3], [1, 3]),
        ("any_ids", [1], [0, 1, 3]),
    ],
)
def test_tied_tokens_at_the_kth(ties, must, may):
    """Exact ties are decided under every choice but any_ids."""
    assert keep([2.0, 3.0, 1.0, 2.0], Profile(topk_ties=ties), top_k=2) == (must, may)


@pytest.mark.parametrize(
    ("ties", "must", "may"),
    [
        ("keep_all", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("lowest_ids", [0, 1], [0, 1]),
        ("highest_ids", [2, 3], [2, 3]),
        ("any_ids", [], [0, 1, 2, 3]),
    ],
)
def test_four_equal_tokens_at_one_half(ties, must, may):
    """Powers of two add up without rounding, so exact mass is decided."""
    assert keep([1.0] * 4, Profile(topp_ties=ties), top_p=0.5) == (must, may)


def test_neighbours_may_collapse_but_never_swap():
    """One unit apart, divided by 3: the upper stays, the lower may tie with it."""
    lower = np.float32(1.0)
    upper = np.nextafter(lower, np.float32(2.0))
    assert keep([lower, upper], top_k=1, temperature=3.0) == ([1], [0, 1])
    assert keep([lower, upper], top_k=1, temperature=2.0) == ([1], [1])


def test_greedy_rows():
    """A penalty's rounding may decide a greedy row; untouched ties fall to the lowest id."""
    assert keep([1.0, 3.0, 3.0], temperature=0.0) == ([1], [1])
    assert keep([1.0, 3.0, 3.0], Profile(greedy_ties="any_maximum"), temperature=0.0) == (
        [],
        [1, 2],
    )
    touched = {"output": [0], "temperature": 0.0, "presence_penalty": 0.1}
    rival = np.float32(1.1) - np.float32(0.1)
    assert keep([1.1, rival], **touched)[1] == [0, 1]


def test_overflow_leaves_nothing_sure():
    """A row that float32 cannot hold after the temperature has no must token."""
    assert keep([3e38, 0.0], temperature=0.5) == ([], [0, 1])


@pytest.mark.parametrize(
    ("p", "must", "may"), [(0.35, [0], [0]), (0.4, [0], [0, 1, 2]), (0.6, [0, 1], [0, 1, 2])]
)
def test_undecided_tokens_loosen_what_follows(p, must, may):
    """Whether top-k keeps a third token moves the mass of the first from 0.54 to 0.37."""
    row = np.log(np.float32([0.5, 0.3, 0.3]))
    row[2] = np.nextafter(row[1], np.float32(-9.0))
    assert keep(row, top_k=2, top_p=p, temperature=3.0) == (must, may)


@pytest.mark.parametrize("mode", ["raw_logits", "raw_logprobs"])
def test_raw_values_are_those_of_the_incoming_row(mode):
    """Raw logits are exact, raw logprobs within the class, whatever the parameters."""
    row = np.random.default_rng(0).normal(size=(1, 5000)).astype(np.float32)
    asks = batch(
        request([1], temperature=0.3, top_k=2, presence_penalty=1.0),
        vocab_size=5000,
        logprobs_mode=mode,
    )
    bounds = value_bounds(row, asks, accuracy=F32)
    assert (bounds.logits.lo == row).all()
    assert inside(
        bounds.logprobs,
        0,
        torch.log_softmax(torch.from_numpy(row[0].astype(np.float64)), 0).numpy(),
    )
    assert (bounds.logprobs.hi - bounds.logprobs.lo).max() < 2.0**-17


def test_ranks_know_which_tokens_may_tie():
    """Logits a unit apart may have equal logprobs far below the best; raw logits never tie."""
    row = np.array([[40.0, 1.0, np.nextafter(np.float32(1.0), np.float32(2.0))]], dtype=np.float32)
    by_mode = {}
    for mode in ("raw_logits", "raw_logprobs"):
        asks = batch(request(), vocab_size=3, logprobs_mode=mode)
        ranks = value_bounds(row, asks, accuracy=F32).ranks
        by_mode[mode] = (ranks.lo[0].tolist(), ranks.hi[0].tolist())
    assert by_mode == {"raw_logits": ([1, 3, 2], [1, 3, 2]), "raw_logprobs": ([1, 3, 2], [1, 3, 3])}


def test_removed_tokens_rank_last():
    """A processed row's masked tokens are -inf and share rank V."""
    asks = batch(request(top_k=1), vocab_size=3, logprobs_mode="processed_logits")
    bounds = value_bounds(np.array([[1.0, 3.0, 2.0]], dtype=np.float32), asks, accuracy=F32)
    assert (bounds.ranks.lo.tolist(), bounds.logits.hi.tolist()) == (
        [[3, 1, 3]],
        [[-INF, 3.0, -INF]],
    )


def test_bounds_name_bad_rows():
    """They raise as the pipeline does."""
    with pytest.raises(pipeline.RowError, match="row 0, request r, step logits"):
        keep([float("nan"), 1.0])


def test_oracle_law_has_no_mass_outside_may():
    """The law's support lies between must and may."""
    row = np.random.default_rng(3).normal(size=2000)
    params = {"top_p": 0.9, "top_k": 500, "min_p": 0.01}
    must, may = keep(row.astype(np.float32), **params)
    support = np.flatnonzero(run(row.astype(np.float32), request(**params)).law[0]).tolist()
    assert set(must) <= set(support) <= set(may)


def test_largest_token_is_sure_under_min_p():
    """min_p = 1 keeps the maxima for sure, though their probabilities are rounded."""
    assert keep([1.0, 3.3, 3.3], min_p=1.0, temperature=0.7) == ([1, 2], [1, 2])


def test_mass_carries_two_sums_and_a_division():
    """Three equal tokens: each sum is 2 roundings deep, so 5 u relative to 1 - M, and exp's 4 u M (1 - M)."""
    flat = Held.around(np.zeros(3), np.zeros(3))
    mass = preceding_mass(flat, "lowest_ids", Arithmetic(F32))
    units = [(mass.hi[1] - 1 / 3) * 2**24, (1 / 3 - mass.lo[1]) * 2**24]
    assert [round(unit, 4) for unit in units] == [round(5 * 2 / 3 + 4 * 2 / 9, 4)] * 2
    assert (mass.lo[0], mass.hi[0]) == (0.0, 0.0)


@pytest.mark.parametrize(("ties", "must"), [("keep_all", [1, 2, 3]), ("highest_ids", [3])])
def test_the_largest_is_sure_for_any_p(ties, must):
    """p far below the rounding of a sum keeps the largest for sure (TOPP05)."""
    assert keep([1.0, 2.0, 2.0, 2.0], Profile(topp_ties=ties), top_p=1e-9)[0] == must


@pytest.mark.parametrize(("units", "must"), [(0.5, [0]), (1.5, [0, 1])])
def test_the_rounding_of_one_minus_p_counts(units, must):
    """Below 1/2 a sampler that compares with 1 - p rounds it: (1 - p) u on top of the mass's own error."""
    flat = Held.around(np.zeros(3), np.zeros(3))
    top = preceding_mass(flat, "lowest_ids", Arithmetic(F32)).hi[1]
    p = float(np.float32(top + units * 2.0**-24))
    assert keep([0.0] * 3, Profile(topp_ties="lowest_ids"), top_p=p)[0] == must
