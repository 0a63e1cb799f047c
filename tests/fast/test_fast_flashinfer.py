"""Our calls through FlashInfer's own Python code, stand-ins only for its compiled kernels: `nox -s flashinfer`."""

import inspect
from typing import Any

import pytest
import torch
from fast_cases import P, batch_of

from aliquot.contract.profile import Profile
from aliquot.fast import state as state_module
from aliquot.fast.blocks import Logits
from aliquot.fast.cuts import Rows
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState

pytestmark = pytest.mark.flashinfer

ROWS, V, SEED = 3, 40, 2**62 + 5
LAST = V - 1


class StandIn:
    """Takes the place of the compiled module: keeps each call and lets every kernel draw the last token."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def build_and_load(self) -> "StandIn":
        """What FlashInfer calls to compile; there is nothing to compile."""
        return self

    def __getattr__(self, name: str) -> Any:
        def kernel(*arguments: Any) -> None:
            self.calls.append((name, arguments))
            if name == "top_k_mask_logits":
                arguments[1].copy_(arguments[0])
            else:
                arguments[1].fill_(LAST)

        return kernel


@pytest.fixture(scope="module")
def stand_in():
    """FlashInfer with a stand-in for its compiled module, which it loads once."""
    import flashinfer.sampling

    made = StandIn()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flashinfer.sampling, "gen_sampling_module", lambda: made)
        patch.setattr(
            flashinfer.sampling, "_get_row_states_buffer", lambda *_, **__: torch.zeros(1)
        )
        yield made


class Watched:
    """FlashInfer's functions behind a record of the keywords that they are called with."""

    def __init__(self, module: Any) -> None:
        self.module, self.called = module, {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            function = getattr(self.module, name)
            self.called = inspect.signature(function).bind(*arguments, **keywords).arguments
            return function(*arguments, **keywords)

        return call


@pytest.fixture
def drawn(stand_in, monkeypatch):
    """A function that draws by FlashInfer: the ids, what FlashInfer was given, the kernels' calls and the noise."""
    import flashinfer.sampling

    from aliquot.fast import kernel_flashinfer

    watched = Watched(flashinfer.sampling)
    monkeypatch.setattr(kernel_flashinfer, "kernels", watched)
    monkeypatch.setattr(state_module, "REACH", {})

    def draw(*params):
        stand_in.calls.clear()
        sampler = Sampler(seed=SEED)
        state = BatchState.of(batch_of(params, V))
        rows = Rows(Logits(torch.randn(ROWS, V)), state.plan.groups[0], Profile())
        tokens = sampler._draw_by(kernel_flashinfer.FlashInfer(), rows).tokens
        (noise,) = sampler._kernel_noise.values()
        return tokens, watched.called, list(stand_in.calls), noise

    return draw


FILTERS = {
    "both": [P(top_k=5, top_p=0.5), P(top_p=0.25), P(top_k=1)],
    "top_k": [P(top_k=5), P(top_k=7), P(top_k=1)],
    "top_p": [P(top_p=0.5), P(top_p=0.25), P(top_p=0.9)],
}
EVERY = pytest.mark.parametrize("params", FILTERS.values(), ids=FILTERS)


@EVERY
def test_ids_become_int64(drawn, params):
    """FlashInfer's int32 ids come back as int64 `[g]`."""
    tokens, _, calls, _ = drawn(*params)
    assert calls[-1][1][1].dtype == torch.int32
    assert (tokens.dtype, tokens.tolist()) == (torch.int64, [LAST] * ROWS)


@EVERY
def test_seed_and_offset_reach_the_kernel_whole(drawn, params):
    """Seed and offset are int64 tensors that the kernel reads itself; the offset moves on."""
    _, given, calls, noise = drawn(*params)
    assert {given["seed"].dtype, given["offset"].dtype} == {torch.int64}
    assert given["seed"].tolist() == [SEED]
    assert any(argument is given["seed"] for argument in calls[-1][1])
    assert noise.offset.item() > 0


@EVERY
def test_no_wait_and_no_shortcut(drawn, params):
    """The check for NaN, which waits for the device, is off; draws repeat; no bound on k opens the shortcut."""
    _, given, calls, _ = drawn(*params)
    assert (given["check_nan"], given["deterministic"]) == (False, True)
    assert "top_k_max" not in given
    assert calls[-1][0] in {"top_k_sampling_from_probs", "top_p_sampling_from_probs"}


@EVERY
def test_the_kernel_reads_float32(drawn, params):
    """The last kernel gets contiguous float32 probabilities of all rows."""
    probs = drawn(*params)[2][-1][1][0]
    assert (probs.dtype, probs.is_contiguous(), tuple(probs.shape)) == (
        torch.float32,
        True,
        (ROWS, V),
    )


def test_top_k_first(drawn):
    """With both filters top-k masks the logits, then the nucleus is cut on what is left."""
    _, given, calls, _ = drawn(*FILTERS["both"])
    assert given["filter_apply_order"] == "top_k_first"
    assert [name for name, _ in calls] == ["top_k_mask_logits", "top_p_sampling_from_probs"]


@pytest.mark.parametrize(("name", "wanted"), [("both", [5, V, 1]), ("top_k", [5, 7, 1])])
def test_top_k_goes_as_int32(drawn, name, wanted):
    """Each row's k reaches the kernel as int32, V where top-k is off."""
    _, given, calls, _ = drawn(*FILTERS[name])
    assert (given["top_k"].dtype, given["top_k"].tolist()) == (torch.int32, wanted)
    assert any(argument is given["top_k"] for argument in calls[0][1])


@pytest.mark.parametrize(
    ("name", "wanted"), [("both", [0.5, 0.25, 1]), ("top_p", [0.5, 0.25, 0.9])]
)
def test_top_p_goes_as_float32(drawn, name, wanted):
    """Each row's p reaches the kernel as float32, 1 where the nucleus is off."""
    _, given, calls, _ = drawn(*FILTERS[name])
    assert torch.equal(given["top_p"], torch.tensor(wanted))
    assert any(argument is given["top_p"] for argument in calls[-1][1])
