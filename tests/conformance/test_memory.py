"""What the oracle said is remembered by content, within a bound."""

from dataclasses import replace

import numpy as np

from aliquot.conformance.adapters import oracle
from aliquot.conformance.adapters.oracle import OracleBackend
from aliquot.conformance.case import Case, row
from aliquot.conformance.expectation import Expectation
from aliquot.conformance.memory import ENTRY, Memory
from aliquot.contract.accuracy import CLASSES
from aliquot.contract.profile import CANONICAL


def test_the_same_key_is_made_once() -> None:
    """The second call returns what the first one made."""
    memory = Memory()
    first = memory.get("a", lambda: (np.zeros(3),))
    assert memory.get("a", lambda: (np.ones(3),)) is first


def test_what_was_used_longest_ago_goes_first() -> None:
    """Beyond the limit the entry that was not used lately leaves, and the size follows."""
    memory = Memory(limit=4 * ENTRY)
    for name in ("a", "b", "a", "c"):
        memory.get(name, lambda: (np.zeros(100),))
    assert (list(memory.entries), memory.size) == (["a", "c"], 2 * (ENTRY + 800))


FOUR = row("four", [3.0, 1.0, 2.0, 0.0], output=[1], presence_penalty=1.0)


def key(case: Case, profile: str = "keep_all", accuracy: str = "float32") -> bytes:
    """The key under which a case is remembered."""
    return Expectation(case, replace(CANONICAL, topk_ties=profile), CLASSES[accuracy])._key


def test_everything_that_decides_is_part_of_the_key() -> None:
    """Logits, parameters, histories, grammar, profile and arithmetic each make another key; the name does not."""
    other = replace(FOUR.requests[0], output_token_ids=[2])
    mask = np.array([[7]], dtype=np.int32)
    keys = [
        key(FOUR),
        key(replace(FOUR, logits=FOUR.logits + 1)),
        key(row("four", FOUR.logits[0], output=[1])),
        key(replace(FOUR, requests=(other,))),
        key(replace(FOUR, grammar_bitmask=mask)),
        key(FOUR, profile="lowest_ids"),
        key(FOUR, accuracy="float64"),
    ]
    assert (len(set(keys)), key(replace(FOUR, name="other"))) == (7, keys[0])


def content(case: Case, profile: str = "keep_all", prompt: object = ()) -> bytes:
    """The key under which the oracle as a backend keeps the law of a case's row."""
    batch = case.batch()
    batch.requests[0].prompt_token_ids = prompt  # type: ignore[assignment]
    return oracle.content(case.logits, batch, replace(CANONICAL, topk_ties=profile))


def test_everything_that_a_law_depends_on_is_part_of_its_key() -> None:
    """As above for the laws that the oracle keeps as a backend; the request's id is no part."""
    other = replace(FOUR.requests[0], output_token_ids=[2])
    drafting = replace(FOUR.requests[0], draft_token_ids=(2,))
    renamed = replace(FOUR.requests[0], id="other")
    keys = [
        content(FOUR),
        content(replace(FOUR, logits=FOUR.logits + 1)),
        content(replace(FOUR, logits=FOUR.logits.astype(np.float16))),
        content(row("four", FOUR.logits[0], output=[1])),
        content(replace(FOUR, requests=(other,))),
        content(replace(FOUR, requests=(drafting,))),
        content(replace(FOUR, grammar_bitmask=np.array([[7]], dtype=np.int32))),
        content(FOUR, profile="lowest_ids"),
        content(FOUR, prompt=(1,)),
        content(FOUR, prompt=None),
    ]
    assert len(set(keys)) == len(keys)
    assert content(replace(FOUR, requests=(renamed,))) == keys[0]


def test_the_oracle_keeps_no_law_of_an_output_that_grew() -> None:
    """The same request object one token later has another law."""
    backend, batch = OracleBackend(), FOUR.batch()
    first = backend.law_of(FOUR.logits, batch, 0)
    batch.requests[0].output_token_ids.append(0)
    second = backend.law_of(FOUR.logits, batch, 0)
    assert first is not None
    assert second is not None
    assert second[0] < first[0]
