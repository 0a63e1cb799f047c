"""The dispatch table, loading of kernels, and that compiled parts compile once."""

import importlib.metadata
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from fast_cases import P, batch_of
from torch._dynamo.testing import CompileCounter

from aliquot.contract.profile import Profile
from aliquot.fast import dispatch
from aliquot.fast.blocks import Logits
from aliquot.fast.compiled import count_at_least, for_any_batch
from aliquot.fast.cuts import Rows
from aliquot.fast.sampler import Sampler
from aliquot.fast.state import BatchState

FLASHINFER = "aliquot.fast.kernel_flashinfer:FlashInfer"
PLAIN = {
    "filtered": True,
    "min_p": False,
    "seeded": False,
    "processed": False,
    "fp64_gumbel": False,
}


def need(profile=None, **changes):
    """A group that a kernel could serve, with changes."""
    return dispatch.need_of(**{**PLAIN, **changes}, profile=profile or Profile())


@pytest.mark.parametrize(
    ("platform", "changes", "path"),
    [
        ("cpu", {}, "native"),
        ("cuda", {}, FLASHINFER),
        ("rocm", {}, "aliquot.fast.kernel_aiter:Aiter"),
        ("xpu", {}, "aliquot.fast.kernel_xpu:Xpu"),
        ("mps", {}, "native"),
        ("cuda", {"seeded": True}, "native"),
        ("cuda", {"processed": True}, "native"),
        ("cuda", {"min_p": True}, "native"),
        ("cuda", {"filtered": False}, "native"),
        ("cuda", {"fp64_gumbel": True}, "native"),
        ("cuda", {"profile": Profile(topk_ties="lowest_ids")}, "native"),
        ("cuda", {"profile": Profile(filter_order="joint")}, "native"),
        ("cuda", {"profile": Profile(bad_row="any_valid_id")}, FLASHINFER),
    ],
)
def test_route(platform, changes, path):
    """Each platform and need takes the path that the documents state."""
    assert dispatch.route(platform, need(**changes)).path == path


@pytest.fixture
def _fresh_registry():
    """Forget what was registered and loaded, before and after."""
    dispatch._registered.cache_clear()
    dispatch.load.cache_clear()
    yield
    dispatch._registered.cache_clear()
    dispatch.load.cache_clear()


@pytest.mark.usefixtures("_fresh_registry")
def test_registered_kernel_replaces_the_tables(monkeypatch):
    """An entry point named after the platform serves it, but not what only the native path can."""
    entry = SimpleNamespace(name="mps", value="vendor.kernels:Mps")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    assert dispatch.route("mps", need()).path == "vendor.kernels:Mps"
    assert dispatch.route("mps", need(seeded=True)).path == "native"


@pytest.mark.usefixtures("_fresh_registry")
def test_missing_library_is_a_stated_fallback():
    """A library that is not installed gives no kernel and the reason."""
    assert dispatch.load("no_such_library:Kernel") == (None, "no_such_library is not installed")


@pytest.mark.usefixtures("_fresh_registry")
def test_broken_library_is_an_error(monkeypatch):
    """A kernel that is there but fails raises with its name and the cause."""
    broken = ModuleType("broken_kernels")
    broken.Kernel = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "broken_kernels", broken)
    with pytest.raises(
        dispatch.KernelError, match="broken_kernels:Kernel cannot be loaded: division"
    ) as found:
        dispatch.load("broken_kernels:Kernel")
    assert isinstance(found.value.__cause__, ZeroDivisionError)


def test_explain_states_every_rule():
    """The printed table has a line for each rule, with path and reason."""
    lines = dispatch.explain()
    assert [line[:2] for line in lines] == [(r.platform, r.when) for r in dispatch.TABLE]
    assert all(path and reason for *_, path, reason in lines)


class _Recorder:
    """A kernel that keeps what it is given."""

    def sample(self, logits, top_k, top_p, noise):
        self.seen = logits.tolist(), top_k, top_p, noise.seed.tolist(), noise.offset.tolist()
        noise.advance(len(logits))
        return torch.zeros(len(logits), dtype=torch.int64)


def test_kernel_sees_tempered_logits_and_moving_noise():
    """A kernel gets logits over temperature, None for an unused filter, and another offset each step."""
    state = BatchState.of(batch_of([P(temperature=0.5, top_p=0.25)], 2))
    sampler, kernel = Sampler(seed=9), _Recorder()
    rows = Rows(Logits(torch.tensor([[1.0, 2.0]])), state.plan.groups[0], Profile())
    offsets = []
    for _ in range(2):
        sampler._draw_by(kernel, rows)
        offsets.append(kernel.seen[4])
    assert kernel.seen[:2] == ([[2.0, 4.0]], None)
    assert (kernel.seen[2].tolist(), kernel.seen[3], offsets) == ([0.25], [9], [[0], [32]])


def test_one_compilation_for_every_batch_size():
    """Batches of 1, 2, 5, 1 and 64 rows compile once."""
    counter = CompileCounter()
    count = for_any_batch(count_at_least, counter)
    for rows in (1, 2, 5, 1, 64):
        logits = torch.arange(10.0).expand(rows, 10).contiguous()
        assert count(logits, logits.gather(1, torch.full((rows, 1), 7))).tolist() == [3] * rows
    assert counter.frame_count == 1
