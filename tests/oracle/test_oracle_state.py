"""Batch updates, plug-ins and speculative decoding."""

import numpy as np
import pytest
from oracle_cases import batch, request, run

from aliquot.contract.batch import BatchError, BatchUpdate, MoveDirectionality
from aliquot.contract.params import SamplingParams
from aliquot.oracle import pipeline, plugins, speculative
from aliquot.oracle.batch_state import apply_update, batch_of

ONE_WAY, SWAP = MoveDirectionality.UNIDIRECTIONAL, MoveDirectionality.SWAP
A, B, C = (request(id=name) for name in "abc")


def ids(rows):
    """Request ids by row."""
    return {row: r.id for row, r in rows.items()}


def updated(rows, **changes):
    """Request ids by row after an update."""
    return ids(apply_update(rows, BatchUpdate(batch_size=len(rows), **changes)))


def added(index, k=0):
    """An added request, recognised by its top_k."""
    return (index, SamplingParams(top_k=k), None, [])


def test_STATE01_removed_then_added_then_moved():
    """A row is freed, filled anew, and the new request moves on."""
    rows = apply_update(
        {0: A, 1: B},
        BatchUpdate(batch_size=2, moved=[(1, 0, ONE_WAY)], added=[added(1, 7)], removed=[1, 0]),
    )
    assert {row: r.params.top_k for row, r in rows.items()} == {0: 7}


def test_STATE02_output_ids_are_live():
    """What the caller appends later is seen."""
    output = [1]
    rows = apply_update({}, BatchUpdate(batch_size=1, added=[(0, SamplingParams(), [4], output)]))
    output.append(2)
    assert rows[0].output_token_ids == [1, 2]


def test_STATE03_an_add_overwrites():
    """The request that stood there is gone."""
    rows = apply_update({0: A}, BatchUpdate(batch_size=1, added=[added(0, 9)]))
    assert [r.params.top_k for r in rows.values()] == [9]


@pytest.mark.parametrize(
    ("rows", "wanted"), [({0: A, 1: B}, {1: "a"}), ({0: A}, {1: "a"}), ({1: B}, {})]
)
def test_STATE04_unidirectional_moves(rows, wanted):
    """From 0 to 1: the source is freed, the target overwritten, by nothing if the source is empty."""
    assert updated(rows, moved=[(0, 1, ONE_WAY)]) == wanted


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [({0: A, 1: B}, {0: "b", 1: "a"}), ({0: A}, {1: "a"}), ({1: B}, {0: "b"}), ({}, {})],
)
def test_STATE05_swaps(rows, wanted):
    """Rows 0 and 1 exchange what they hold, emptiness included."""
    assert updated(rows, moved=[(0, 1, SWAP)]) == wanted


def test_STATE06_history_does_not_matter():
    """Rows reached by a detour give the laws of a fresh batch."""
    detour = {0: request([1], presence_penalty=2.0), 1: request(top_k=1), 2: C}
    rows = apply_update(
        detour, BatchUpdate(batch_size=2, removed=[2], moved=[(0, 1, SWAP), (1, 0, SWAP)])
    )
    logits = np.array([[1.0, 2.0, 0.5], [3.0, 2.0, 1.0]])
    fresh = batch(detour[0], detour[1], vocab_size=3)
    laws = [pipeline.run(logits, b).law.tolist() for b in (batch_of(rows, 3), fresh)]
    assert laws[0] == laws[1]


def test_STATE07_no_update_no_change():
    """None leaves all rows, in a mapping of their own."""
    rows = {0: A}
    after = apply_update(rows, None)
    assert (ids(after), after is rows) == ({0: "a"}, False)


def test_STATE08_nothing_active_nothing_done():
    """Requests without parameters leave every logit as it came."""
    logits = [[1.0, -2.0, 0.0]]
    assert run(logits, request([0, 1], [2])).filtered.tolist() == logits


def test_rows_with_gaps_are_no_batch():
    """A batch needs rows 0 to n-1."""
    with pytest.raises(BatchError, match=r"rows are \[0, 2\]"):
        batch_of({0: A, 2: B}, 4)


def step(name):
    """A custom step that does nothing."""
    return pipeline.Step(name, (), lambda rows, context: rows)


def test_PLUG01_PLUG02_places_of_custom_processors():
    """Invariant ones follow min-p, the others precede the penalties, each in the given order."""
    custom = [plugins.Processor(step(n), n.startswith("i")) for n in ("i1", "x1", "i2", "x2")]
    names = [s.name for s in plugins.placed(pipeline.CONTRACT, custom)]
    assert names[4:12] == [
        "logit_bias", "x1", "x2", "penalties", "thinking_budget", "temperature", "min_p", "i1",
    ]  # fmt: skip
    assert names[12] == "i2"


def test_PLUG01_invariant_processors_leave_greedy_rows():
    """A processor that claims invariance and breaks it changes no greedy id."""
    liar = pipeline.Step("liar", (), lambda rows, context: -rows)
    steps = plugins.placed(pipeline.CONTRACT, [plugins.Processor(liar, argmax_invariant=True)])
    asks = batch(request(temperature=0.0), request(top_k=1), vocab_size=2)
    outcome = pipeline.run(np.array([[1.0, 2.0], [1.0, 2.0]]), asks, steps=steps)
    assert outcome.law.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def model(seed, size=3):
    """A language model of `size` tokens: a fixed random law for each prefix, some tokens impossible."""

    def law(prefix):
        rng = np.random.default_rng([seed, *prefix])
        weights = rng.dirichlet(np.full(size, 0.7)) * (rng.random(size) < 0.8)
        return weights / weights.sum() if weights.sum() else np.full(size, 1 / size)

    return law


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drafts", [0, 1, 2, 3])
def test_SPEC01_emitted_tokens_have_the_target_law(seed, drafts):
    """By enumeration, completed by the target alone, every sequence has its target probability."""
    target, draft = model(seed), model(seed + 100)
    emitted = speculative.emitted_law(target, draft, drafts)
    got = speculative.completed(emitted, target, drafts + 1)
    wanted = speculative.completed({(): 1.0}, target, drafts + 1)
    roundings = 8 * (drafts + 1) * 3 ** (drafts + 1) * 2.0**-53
    assert max(abs(got.get(s, 0.0) - wanted.get(s, 0.0)) for s in {*got, *wanted}) <= roundings


def test_SPEC01_a_wrong_residual_shows(monkeypatch):
    """Drawing the replacement from p instead of max(p - q, 0) changes the law visibly."""
    monkeypatch.setattr(speculative, "residual", lambda p, q: p)
    target, draft = model(1), model(2)
    got = speculative.completed(speculative.emitted_law(target, draft, 1), target, 1)
    wanted = speculative.completed({(): 1.0}, target, 1)
    assert max(abs(got[s] - wanted[s]) for s in wanted) > 0.01


P, Q = np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.6, 0.2])


@pytest.mark.parametrize(
    ("token", "u", "wanted"),
    [(0, 0.999, True), (1, 0.83, True), (1, 0.84, False), (2, 0.0, False)],
)
def test_SPEC02_SPEC03_acceptance(token, u, wanted):
    """Accepted iff u q(x) < p(x); never where p(x) = 0, also for u = 0."""
    assert speculative.accepts(P, Q, token, u) is wanted


def test_SPEC04_residual():
    """max(p - q, 0) renormalised; p itself where nothing is left."""
    assert speculative.residual(P, Q).tolist() == [1.0, 0.0, 0.0]
    assert speculative.residual(P, P).tolist() == P.tolist()


def verified(laws, drafts, us, last, draft_laws=None):
    """What one request emits."""
    asks = batch(request(drafts=drafts), vocab_size=3)
    return speculative.verify([np.array(laws)], asks, [draft_laws], [us], [last]).tolist()


def test_SPEC05_SPEC06_SPEC08_bonus_and_padding():
    """Certain drafts: all accepted adds the bonus, a rejection drops the rest and pads with -1."""
    laws = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]
    assert verified(laws, (1, 2), [0.4, 0.4], 0.0) == [[1, 2, 0]]
    assert verified(laws, (1, 2), [0.4, 0.6], 0.0) == [[1, 1, -1]]
    assert verified(laws, (1, 2), [0.6, 0.4], 0.0) == [[0, -1, -1]]


def test_SPEC04_SPEC10_residual_has_its_own_uniform():
    """The replacement is drawn by the last uniform, not by the one that rejected."""
    laws = [[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]
    q = np.array([[0.0, 1.0, 0.0]])
    drawn = [verified(laws, (1,), [0.9], last, q)[0][0] for last in (0.0, 0.3, 0.4, 0.99)]
    assert drawn == [0, 0, 2, 2]


@pytest.mark.parametrize(("draft", "wanted"), [(1, [[1, 0]]), (0, [[1, -1]])])
def test_SPEC07_greedy_rows(draft, wanted):
    """A certain target accepts its argmax and emits it otherwise."""
    assert verified([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], (draft,), [0.99], 0.5) == wanted


def test_SPEC09_what_each_position_sees():
    """Position i sees the output and the drafts before it, the bonus all drafts."""
    asks = batch(request([7], drafts=(8, 9)), request([5]), vocab_size=10)
    seen = [r.output_token_ids for r in speculative.positions(asks).requests]
    assert seen == [[7], [7, 8], [7, 8, 9], [5]]


def test_SPEC09_bonus_row_in_a_plain_run():
    """A request with drafts is penalised and matched as its bonus position is."""
    asks = request([0], drafts=(1,), presence_penalty=1.0, bad_words=[(0, 1, 2)])
    assert run([3.0, 3.0, 3.0], asks).penalised.tolist() == [[2.0, 2.0, -np.inf]]


def test_PLUG06_bias_and_min_p_are_off():
    """The laws of speculative positions ignore logit bias and min-p."""
    asks = batch(request(drafts=(1,), logit_bias={0: 9.0}, min_p=1.0), vocab_size=2)
    laws = speculative.target_laws(np.log([[3.0, 1.0], [1.0, 3.0]]), asks)
    assert [law.round(12).tolist() for law in laws] == [[[0.75, 0.25], [0.25, 0.75]]]


def test_SPEC11_rows_without_drafts():
    """Rows of 0 and 2 drafts side by side; the first emits one token."""
    asks = batch(request(), request(drafts=(0, 0)), vocab_size=2)
    laws = speculative.target_laws(np.zeros((4, 2)), asks)
    ids = speculative.verify(laws, asks, [None, None], np.full((2, 2), 0.9), [0.7, 0.2])
    assert ids.tolist() == [[1, -1, -1], [1, -1, -1]]
