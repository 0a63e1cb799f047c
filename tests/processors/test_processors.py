"""The interface, the update builder, the built-in processors and the wrapper for one request."""

import pytest
import torch
from processor_cases import CPU, NEG, SWAP, UNI, Custom, Invariant, P, changed, holding, made

from aliquot.contract.batch import BatchUpdate
from aliquot.fast.processors.builtin import LogitBias, MinP, MinTokens
from aliquot.fast.processors.collection import LogitsProcessors
from aliquot.fast.processors.per_request import PerRequestProcessor
from aliquot.fast.processors.updates import BatchUpdateBuilder


def builder(*removed):
    """A builder that saw these rows removed."""
    made = BatchUpdateBuilder()
    for row in removed:
        made.removed_append(row)
    return made


def test_STATE01_removed_rows_are_descending():
    """The removed rows come sorted, whatever the order in which they left."""
    assert builder(1, 4, 0).removed == [4, 1, 0]


def test_STATE01_the_lowest_row_is_filled_first():
    """Peek and pop give the lowest removed row."""
    batch = builder(1, 4, 0)
    assert (batch.peek_removed(), batch.pop_removed(), batch.removed) == (0, 0, [4, 1])


def test_nothing_is_removed_after_the_first_read():
    """A removal that comes late is refused with the row."""
    batch = builder(2)
    assert batch.peek_removed() == 2
    with pytest.raises(RuntimeError, match="row 3 is removed after the removed rows were read"):
        batch.removed_append(3)


def test_an_update_holds_the_step():
    """What was gathered comes out once, with the size of the batch."""
    batch = builder(3)
    batch.added.append((0, P(), (), []))
    batch.moved.append((2, 1, UNI))
    update = batch.get_and_reset(3)
    assert (update.batch_size, update.removed, len(update.added), update.moved) == (
        3, [3], 1, [(2, 1, UNI)],
    )  # fmt: skip


def test_STATE07_no_change_gives_no_update():
    """A step in which nothing happened gives None, also after one in which something did."""
    batch = builder(3)
    assert (batch.get_and_reset(1) is not None, batch.get_and_reset(1)) == (True, None)


def test_a_new_step_may_remove_again():
    """Handing out the update allows removals again."""
    batch = builder(3)
    batch.get_and_reset(1)
    batch.removed_append(0)
    assert batch.removed == [0]


def test_reset_forgets_the_step():
    """After a reset there is nothing to hand out."""
    batch = builder(3)
    batch.reset()
    assert batch.get_and_reset(1) is None


def test_empty_batch_has_no_row_to_fill():
    """Without removals there is nothing to peek at or to pop."""
    assert (builder().peek_removed(), builder().pop_removed()) == (None, None)


def test_PLUG01_the_claim_decides_the_list():
    """Processors stand in the list of their claim, in the order given."""
    first, second, third = made(Invariant), made(Custom), made(Invariant)
    both = LogitsProcessors([first, second, third])
    assert (both.argmax_invariant, both.non_argmax_invariant) == ([first, third], [second])


def test_PLUG09_the_claim_is_asked_once():
    """A processor is asked for its claim once, when it is sorted in."""

    class Counting(Custom):
        asked = 0

        def is_argmax_invariant(self):
            Counting.asked += 1
            return True

    LogitsProcessors([made(Counting)])
    assert Counting.asked == 1


def test_PLUG09_a_claim_is_a_bool():
    """Anything but True and False is refused with what was given."""

    class Unsure(Custom):
        invariant = None

    with pytest.raises(ValueError, match=r"Unsure: is_argmax_invariant\(\) is None, allowed are"):
        LogitsProcessors([made(Unsure)])


def test_update_state_reaches_all():
    """Every processor gets the update, None included."""

    class Noting(Custom):
        def update_state(self, batch_update):
            seen.append(batch_update)

    seen = []
    LogitsProcessors([made(Noting), made(Noting)]).update_state(None)
    assert seen == [None, None]


def test_PLUG07_every_hook_is_asked():
    """The hook of any processor can refuse a request."""

    class Refusing(Custom):
        @classmethod
        def validate_params(cls, params):
            raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        LogitsProcessors([made(Custom), made(Refusing)]).validate_params(P())


def test_STATE08_built_ins_do_nothing_for_plain_requests():
    """With a request that asks for nothing the logits stay the same object, unchanged."""
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    same = [holding(cls, P()).apply(logits) is logits for cls in (MinTokens, LogitBias, MinP)]
    assert (same, logits.tolist()) == ([True] * 3, [[1.0, 2.0, 3.0, 4.0]])


def test_min_tokens_masks_stop_ids():
    """Below the minimum the stop ids of that row are -inf, those of the other row are not."""
    processor = holding(MinTokens, P(min_tokens=1, eos_token_id=0, stop_token_ids=(2,)), P())
    assert changed(processor, [1.0, 1, 1, 1], [1.0, 1, 1, 1]) == [[NEG, 1, NEG, 1], [1, 1, 1, 1]]


def test_logit_bias_is_added():
    """The bias is added to its tokens in its row."""
    processor = holding(LogitBias, P(), P(logit_bias={1: 2.5, 3: -1.0}))
    assert changed(processor, [0.0, 0, 0, 0], [0.0, 0, 0, 0]) == [[0, 0, 0, 0], [0, 2.5, 0, -1]]


def test_min_p_keeps_what_is_half_as_likely():
    """min_p = .5 keeps tokens with at least half the largest probability, in its row only."""
    processor = holding(MinP, P(min_p=0.5), P())
    rows = changed(processor, [1.0, 0.5, 0, -9], [1.0, 0.5, 0, -9])
    assert rows == [[1.0, 0.5, NEG, NEG], [1.0, 0.5, 0, -9]]


def test_min_p_is_off_for_greedy_requests():
    """A greedy request's min_p removes nothing."""
    assert changed(holding(MinP, P(min_p=1.0, temperature=0.0)), [1.0, 0.0]) == [[1.0, 0.0]]


def test_min_p_follows_a_swap():
    """After a swap the threshold acts in the other row."""
    processor = holding(MinP, P(min_p=1.0), P())
    processor.update_state(BatchUpdate(batch_size=2, moved=[(0, 1, SWAP)]))
    assert changed(processor, [1.0, 0.0], [1.0, 0.0]) == [[1.0, 0.0], [1.0, NEG]]


@pytest.mark.parametrize(("cls", "claim"), [(MinTokens, False), (LogitBias, False), (MinP, True)])
def test_PLUG01_claims_of_the_built_ins(cls, claim):
    """MinP alone is argmax-invariant."""
    assert made(cls).is_argmax_invariant() is claim


class ByRequest(PerRequestProcessor):
    """Calls the function that a request carries."""

    def is_argmax_invariant(self):
        """Whatever the function does."""
        return False

    def request_callable(self, params):
        """The function in extra_args."""
        return params.extra_args.get("call")


def test_a_function_of_two_arguments_gets_output_and_row():
    """It sees the live output ids and its own row; a row returned anew is copied back."""
    output = [3]
    processor = made(ByRequest)
    params = P(extra_args={"call": lambda ids, row: row + sum(ids)})
    processor.update_state(BatchUpdate(batch_size=2, added=[(1, params, (), output)]))
    output.append(4)
    assert changed(processor, [0.0, 0.0], [0.0, 1.0]) == [[0, 0], [7, 8]]


def test_a_function_of_three_arguments_gets_the_prompt_too():
    """Prompt ids, output ids and row, in this order; a change in place counts."""
    processor = made(ByRequest)
    params = P(extra_args={"call": lambda prompt, ids, row: row.add_(prompt[0] - ids[0])})
    processor.update_state(BatchUpdate(batch_size=1, added=[(0, params, (9,), [2])]))
    assert changed(processor, [0.0, 1.0]) == [[7, 8]]


def test_a_function_of_one_argument_is_refused():
    """The message says how many arguments it takes and how many are allowed."""
    with pytest.raises(
        ValueError, match="ByRequest: its function takes 1 arguments, allowed are 2"
    ):
        holding(ByRequest, P(extra_args={"call": lambda row: row}))


def test_a_prompt_of_embeddings_has_no_ids():
    """A function that wants prompt ids is refused for a request that has none."""
    processor = made(ByRequest)
    params = P(extra_args={"call": lambda prompt, ids, row: row})
    with pytest.raises(ValueError, match="takes prompt ids, the request has embeddings"):
        processor.update_state(BatchUpdate(batch_size=1, added=[(0, params, None, [])]))


def test_extra_args_survive_a_greedy_request():
    """The parameters as the sampler acts on them keep the extra arguments."""
    assert P(temperature=0.0, extra_args={"a": 1}).effective().extra_args == {"a": 1}


def test_stop_ids_have_the_name_that_processors_know():
    """all_stop_token_ids is the set of EOS and stop ids."""
    assert P(eos_token_id=2, stop_token_ids=(2, 5)).all_stop_token_ids == {2, 5}


def test_PLUG09_the_constructor_gets_three_arguments():
    """Configuration, device and pinning arrive as given."""
    assert Custom(1, CPU, True).built_with == (1, CPU, True)
