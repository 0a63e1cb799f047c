"""Finding, loading and building processors, and every refusal."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType

import pytest
import torch
from processor_cases import CONFIG, CPU, Broken, Custom, Invariant

from aliquot.fast.processors import loading
from aliquot.fast.processors.builtin import LogitBias, MinP, MinTokens
from aliquot.fast.processors.interface import EngineConfig, LogitsProcessor

SPECULATIVE = EngineConfig(
    CONFIG.scheduler_config, CONFIG.model_config, speculative_config=object()
)
OURS, VLLM = loading.ENTRY_POINT_GROUPS


def build(*custom, config=CONFIG, device=CPU, **more):
    """The classes that come out of a build, first the invariant ones."""
    processors = loading.build_logits_processors(config, device, custom=custom, **more)
    return [type(p) for p in processors.argmax_invariant], [
        type(p) for p in processors.non_argmax_invariant
    ]


@pytest.fixture
def install(monkeypatch):
    """Pretend that packages with these entry points are installed."""

    def pretend(*points):
        found = EntryPoints(EntryPoint(name, value, group) for name, value, group in points)
        monkeypatch.setattr(loading, "entry_points", lambda group: found.select(group=group))

    return pretend


def test_PLUG02_built_ins_come_first():
    """MinTokens and LogitBias before a custom one, MinP before a custom one of its class."""
    assert build(Custom, Invariant) == ([MinP, Invariant], [MinTokens, LogitBias, Custom])


def test_PLUG02_installed_ones_come_before_named_ones(install):
    """Entry points of both groups, then what the call names."""
    install(
        ("b", "processor_cases:Custom", VLLM),
        ("a", "aliquot.conformance.processor_check.library:Bias", OURS),
    )
    names = [cls.__name__ for cls in build("aliquot.conformance.processor_check.library:NoEcho")[1]]
    assert names == ["MinTokens", "LogitBias", "Bias", "Custom", "NoEcho"]


def test_PLUG02_a_class_in_both_groups_runs_once(install):
    """A package that serves both groups does not act twice."""
    install(("x", "processor_cases:Custom", OURS), ("x", "processor_cases:Custom", VLLM))
    assert build()[1].count(Custom) == 1


@pytest.mark.parametrize("name", ["processor_cases", ":Custom", "processor_cases:", ""])
def test_PLUG03_a_name_has_a_module_and_a_class(name):
    """Anything that is not module:Qualified.Name is refused with the name."""
    with pytest.raises(ValueError, match=rf"{name!r}: allowed is module:Qualified\.Name"):
        loading.load_class(name)


def test_PLUG03_a_nested_class_is_found(monkeypatch):
    """The part after the colon may be dotted."""
    monkeypatch.setattr(Custom, "Inner", Invariant, raising=False)
    assert loading.load_class("processor_cases:Custom.Inner") is Invariant


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("processor_cases:Missing", "module processor_cases has no Missing"),
        ("processor_cases:made", "is a function, allowed is a class"),
        ("processor_cases:NEG", "is a float, allowed is a class"),
        ("decimal:Decimal", "class Decimal does not derive from"),
        (dict, "class dict does not derive from"),
    ],
)
def test_PLUG03_what_is_no_processor_is_refused(name, message):
    """A missing name, a function, a value and a foreign class raise ValueError."""
    with pytest.raises(ValueError, match=message):
        loading.load_class(name)


def test_PLUG03_an_entry_point_is_checked_too(install):
    """An installed function is refused like a named one."""
    install(("wrong", "processor_cases:made", OURS))
    with pytest.raises(ValueError, match=r"plug-in wrong \(processor_cases:made\): is a function"):
        build()


def test_PLUG04_a_module_that_fails_is_loud():
    """RuntimeError with the cause, never silence."""
    with pytest.raises(RuntimeError, match="no_such_module_x:A: cannot be loaded") as caught:
        build("no_such_module_x:A")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_PLUG04_an_entry_point_that_fails_is_loud(install):
    """RuntimeError that names the plug-in, with the cause."""
    install(("gone", "no_such_module_x:A", VLLM))
    with pytest.raises(RuntimeError, match=r"plug-in gone \(no_such_module_x:A\)") as caught:
        build()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_PLUG04_a_constructor_that_fails_is_loud():
    """RuntimeError that names the class, with the cause."""
    with pytest.raises(RuntimeError, match="Broken: cannot be built: no memory") as caught:
        build(Broken)
    assert isinstance(caught.value.__cause__, OSError)


def test_PLUG04_an_abstract_class_cannot_be_built():
    """The interface itself is no processor."""
    with pytest.raises(RuntimeError, match="LogitsProcessor: cannot be built: Can't instantiate"):
        build(LogitsProcessor)


def test_PLUG05_pooling_models_run_none(install):
    """No built-in and no installed processor."""
    install(("a", "processor_cases:Custom", OURS))
    assert build(is_pooling_model=True) == ([], [])


def test_PLUG05_pooling_models_refuse_custom_ones():
    """The refusal names what was given."""
    with pytest.raises(ValueError, match="Custom given, allowed are none with a pooling model"):
        build(Custom, is_pooling_model=True)


def test_PLUG06_speculative_decoding_keeps_min_tokens():
    """Only MinTokens stays, and a warning says what is off."""
    with pytest.warns(UserWarning, match="min_p and logit_bias are off with speculative decoding"):
        assert build(config=SPECULATIVE) == ([], [MinTokens])


def test_PLUG06_speculative_decoding_refuses_custom_ones():
    """The refusal names what was given."""
    with pytest.raises(ValueError, match="m:A given, allowed are none with speculative decoding"):
        build("m:A", config=SPECULATIVE)


def test_PLUG08_custom_ones_are_ignored_on_tpu(install, monkeypatch):
    """Neither named nor installed ones are loaded, not even to fail; the built-ins stay."""
    monkeypatch.setattr(loading, "BUILT_IN", (Invariant,))
    install(("gone", "no_such_module_x:A", OURS))
    assert build(Custom, device=torch.device("xla")) == ([Invariant], [])


@pytest.fixture
def vllm(monkeypatch):
    """A stand-in with the parts of vLLM that its processors use, under vLLM's module names."""
    from vllm_stand_in import INTERFACE, VLLM

    for name in ("vllm.v1", "vllm.v1.sample", "vllm.v1.sample.logits_processor"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm", VLLM)
    monkeypatch.setitem(sys.modules, INTERFACE.__name__, INTERFACE)
    return INTERFACE


def test_PLUG03_a_class_written_for_vllm_is_accepted(vllm):
    """It derives from vLLM's interface and is wrapped by ours."""
    import vllm_stand_in

    assert build(vllm_stand_in.Recorder)[1][-1].__name__ == "VllmProcessor"


def test_PLUG09_a_vllm_processor_gets_vllms_types(vllm):
    """Updates arrive with vLLM's enum, its parameters and the same live list."""
    import vllm_stand_in
    from processor_cases import SWAP, P

    from aliquot.contract.batch import BatchUpdate

    output = []
    processor = loading.build(vllm_stand_in.Recorder, CONFIG, CPU, False)
    added = [(0, P(min_p=0.5, eos_token_id=3, extra_args={"a": 1}), (7,), output)]
    processor.update_state(
        BatchUpdate(batch_size=2, removed=[1], added=added, moved=[(0, 1, SWAP)])
    )
    (update,) = processor.target.updates
    row, params, prompt, live = update.added[0]
    assert (row, prompt, live is output, update.moved) == (
        0, [7], True, [(0, 1, vllm.MoveDirectionality.SWAP)],
    )  # fmt: skip
    assert (params.min_p, params.extra_args, params._all_stop_token_ids) == (0.5, {"a": 1}, {3})


def test_STATE07_a_vllm_processor_sees_none(vllm):
    """No update stays None."""
    import vllm_stand_in

    processor = loading.build(vllm_stand_in.Recorder, CONFIG, CPU, False)
    processor.update_state(None)
    assert processor.target.updates == [None]


def test_PLUG07_a_vllm_processor_is_asked_with_vllms_parameters(vllm):
    """Its hook gets vLLM's object and may refuse."""
    import vllm_stand_in
    from processor_cases import P

    processor = loading.build(vllm_stand_in.Recorder, CONFIG, CPU, False)
    with pytest.raises(ValueError, match="token is -1 in a SamplingParams"):
        processor.validate_params(P(extra_args={"token": -1}))
