"""The checker: it finds what is wrong with the smallest example, and passes what is right."""

import json

import pytest
import torch
from processor_cases import UNI, Custom, P

from aliquot.conformance.processor_check import (
    device,
    hook,
    interface,
    invariance,
    library,
    rows,
    state,
)
from aliquot.conformance.processor_check.batch import Row, Rows
from aliquot.conformance.processor_check.check import CHECKS, check_processor, judged
from aliquot.conformance.processor_check.history import (
    Habits,
    History,
    Newcomer,
    Step,
    replay,
)
from aliquot.conformance.processor_check.library import RIGHT, WRONG, Bias
from aliquot.conformance.processor_check.subject import Subject
from aliquot.contract.batch import MoveDirectionality
from aliquot.contract.clauses import clauses
from aliquot.reports.results import Verdict, from_json, to_json

TOKEN = (P(extra_args={"token": 2}),)


def subject_of(cls, given=TOKEN):
    """A subject whose requests are known to make it act."""
    subject = Subject(cls.__name__, cls, given)
    return Subject(cls.__name__, cls, given, acting=tuple(range(1, len(subject.kinds))))


def outcome(module, name, cls, given=TOKEN):
    """The result of one check."""
    (check,) = [check for check in module.CHECKS if check.id == name]
    return judged(check, subject_of(cls, given))


def names(entry):
    """The name of a library entry's class."""
    return entry.cls.__name__


@pytest.mark.parametrize("entry", WRONG, ids=names)
def test_STATE06_PLUG01_wrong_processors_fail(entry):
    """Each of the ten fails the checks of what is wrong with it."""
    results = check_processor(Subject(names(entry), entry.cls, entry.requests))
    failed = {check.id for check in results.checks if check.verdict is Verdict.FAIL}
    assert (results.verdict, failed & set(entry.fails)) == (Verdict.FAIL, set(entry.fails))


@pytest.mark.parametrize("entry", RIGHT, ids=names)
def test_STATE06_PLUG01_right_processors_pass(entry):
    """Each of the ten, the built-ins included, passes every check."""
    results = check_processor(Subject(names(entry), entry.cls, entry.requests))
    others = {check.id: check.reason for check in results.checks if check.verdict != Verdict.PASS}
    assert others == {}


def test_the_library_has_ten_of_each():
    """Ten wrong and ten right ones, and each wrong one says what it must fail."""
    assert (len(WRONG), len(RIGHT), all(entry.fails for entry in WRONG)) == (10, 10, True)


def test_STATE04_the_smallest_history_is_shown():
    """Two requests and one move are enough for a stale move."""
    found = outcome(state, "state-move", library.StaleAfterMove).finding
    token = "params {'extra_args': {'token': 2}}, prompt [], output []"
    assert found.witness == {
        "step 0": f"row 0 added ({token}); row 1 added (params none, prompt [], output [])",
        "step 1": "row 1 to 0",
    }


def test_PLUG01_the_smallest_row_is_shown():
    """Equal maxima in one row are enough for a false claim at ties."""
    found = outcome(invariance, "argmax-claim", library.OneOfEquals).finding
    assert (found.wanted, found.witness["row 0"]["logits"]) == ("argmax 0 of row 0 to stay", {})


def test_PLUG01_only_cold_requests_show_a_claim_false_below_temperature_1():
    """The witness of a claim that is false only below temperature 1 has such a temperature."""
    found = outcome(invariance, "argmax-claim", library.DampedWhenCold).finding
    assert found.witness["row 0"]["params"]["temperature"] < 1


class Timid(library.NearBest):
    """Right, but says that the argmax may change."""

    def is_argmax_invariant(self):
        """Needlessly False."""
        return False


def test_PLUG01_a_needless_claim_is_pointed_out():
    """A processor that never changes the argmax and says that it may is no failure, but it is told."""
    found = outcome(invariance, "argmax-claim", Timid, (P(extra_args={"gap": 2.5}),))
    assert (found.verdict, "it never did" in found.reason) == (Verdict.DIVERGES, True)


class Shifts(Custom):
    """Adds 100 to every logit: the argmax moves only where rounding makes logits equal."""

    invariant = True

    def apply(self, logits):
        """Add."""
        return logits + 100


def test_PLUG01_rounding_is_not_a_false_claim():
    """Logits that only rounding makes equal leave the claim undecided."""
    close = Row(0, 1.0, (), (), (1.0, 1.0 + 2**-22, 0.0, 0.0), 0.0, 1.0)
    difference = invariance.moved(subject_of(Shifts), Rows((close,)))
    assert (difference.decided, difference.cause) == (False, "different logits become equal")


def test_PLUG01_a_clear_gap_is_decided():
    """Logits that differ by much more than rounding and become equal make the claim false."""

    class Caps(Shifts):
        def apply(self, logits):
            return logits.clamp(max=1.0)

    apart = Row(0, 1.0, (), (), (1.0, 2.0, 0.0, 0.0), 0.0, 1.0)
    assert invariance.moved(subject_of(Caps), Rows((apart,))).decided


def test_PLUG09_a_changing_claim_fails():
    """A claim that depends on the batch is none."""

    class Fickle(Bias):
        def is_argmax_invariant(self):
            return bool(self.rows)

    found = outcome(interface, "claim-kept", Fickle)
    assert (found.verdict, found.finding.got) == (Verdict.FAIL, "[False, True, False]")


def test_a_processor_that_never_acts_is_no_pass():
    """Without a request that makes it act nothing was checked: ERROR, with what to do."""
    results = check_processor(Subject("idle", Custom))
    assert [(c.id, c.verdict) for c in results.checks] == [("active", Verdict.ERROR)]


def reading(read):
    """A processor that looks at the logits on the host."""

    class Reads(Bias):
        def apply(self, logits):
            read(logits)
            return super().apply(logits)

    return Reads


@pytest.mark.parametrize(
    ("read", "operation"),
    [
        (lambda x: x.max().item(), "_local_scalar_dense"),
        (lambda x: bool((x > 0).any()), "_local_scalar_dense"),
        (lambda x: x.tolist(), "_to_copy"),
        (lambda x: x.cpu(), "_to_copy"),
        (lambda x: x.numpy(), "numpy"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x[x > 0], "index"),
        (lambda x: torch.empty(x.shape).copy_(x), "copy_"),
    ],
)
def test_PLUG09_a_device_read_is_found(read, operation):
    """Whatever needs the device's data on the host fails, by the name of the operation."""
    found = outcome(device, "device-sync", reading(read))
    assert found.finding.got == f"{operation}, which waits for the device and reads its data"


@pytest.mark.parametrize(
    "free",
    [
        lambda x: x.masked_fill_(x > 0, 0.0),
        lambda x: x.__setitem__(x > 0, 0.0),
        lambda x: x.__setitem__((torch.tensor([0]), torch.tensor([1])), 0.0),
        lambda x: x.topk(2),
    ],
)
def test_PLUG09_work_on_the_device_passes(free):
    """Masks, scatters and top-k do not wait."""
    assert outcome(device, "device-sync", reading(free)).verdict is Verdict.PASS


def test_PLUG09_a_result_on_the_host_fails():
    """The result must stay on the device of the logits."""

    class Elsewhere(Bias):
        def apply(self, logits):
            return torch.zeros(logits.shape)

    assert outcome(device, "device-sync", Elsewhere).finding.got == "float32 [2, 17] on cpu"


def test_STATE08_idle_work_is_pointed_out():
    """A processor that works for requests that ask for nothing is told how much."""

    class Busy(Bias):
        def apply(self, logits):
            return super().apply(logits.add_(0.0))

    found = outcome(device, "idle-cost", Busy)
    assert (found.verdict, "does 1 tensor operations" in found.reason) == (Verdict.DIVERGES, True)


def test_the_cost_counts_passes_over_the_logits():
    """Three additions to all logits are three operations and three passes."""

    class Thrice(Custom):
        def apply(self, logits):
            return logits.add_(1).sub_(1).add_(0)

    subject = subject_of(Thrice)
    assert device.cost(subject, [subject.request(0)] * 2) == (3, 3.0)


def test_IO10_an_exception_for_no_rows_is_found():
    """A processor that cannot take n = 0 fails with what it raised."""

    class NeedsRows(Bias):
        def apply(self, logits):
            logits.max()
            return super().apply(logits)

    found = outcome(rows, "empty-batch", NeedsRows)
    assert found.finding.got.startswith("apply raised")


def test_IO02_a_processor_for_contiguous_rows_only_fails():
    """A view that needs contiguous logits raises for rows in a wider buffer."""

    class Flat(Bias):
        def apply(self, logits):
            logits.view(-1)
            return super().apply(logits)

    found = outcome(rows, "row-stride", Flat)
    assert "in a wider buffer" in found.finding.got


def test_ERR16_nan_is_found():
    """NaN from finite logits fails."""

    class Divides(Bias):
        def apply(self, logits):
            for row in self.rows:
                logits[row, 0] = torch.nan
            return logits

    assert outcome(rows, "finite", Divides).finding.got.startswith("nan (")


def test_PLUG07_a_hook_that_accepts_what_apply_cannot_bear_fails():
    """Accepted and then an exception: the alteration is shown."""

    class Unchecked(Bias):
        @classmethod
        def validate_params(cls, params):
            """Accept."""

    found = outcome(hook, "validate-params", Unchecked)
    assert (found.verdict, "acceptance, then apply raised" in found.finding.got) == (
        Verdict.FAIL,
        True,
    )


def test_PLUG07_a_hook_that_refuses_good_requests_fails():
    """The requests that the check was given must be accepted."""

    class Strict(Bias):
        @classmethod
        def validate_params(cls, params):
            raise ValueError("no")

    assert outcome(hook, "validate-params", Strict).finding.got == "ValueError: no"


def test_PLUG07_a_hook_raises_value_errors_only():
    """A TypeError for a wrong type is not a refusal."""

    class Clumsy(Bias):
        @classmethod
        def validate_params(cls, params):
            if params.extra_args.get("token", 0) < 0:
                raise ValueError("no")

    assert outcome(hook, "validate-params", Clumsy).finding.got.startswith("TypeError")


def test_STATE06_state_outside_the_instance_is_found():
    """A processor whose instances share state gives results that differ from run to run."""
    shared = []

    class Shares(Bias):
        def apply(self, logits):
            shared.append(0)
            return super().apply(logits) + (len(shared) == 50)

    found = outcome(state, "state-quiet", Shares).finding
    assert found.likely_cause == "the processor keeps state outside its instance"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_checks_name_clauses(check):
    """Every check names clauses that exist."""
    assert set(check.clauses) & set(clauses()) == set(check.clauses) != set()


def test_ids_are_unique():
    """No two checks share an id."""
    assert len({check.id for check in CHECKS}) == len(CHECKS)


def revives(seed=0):
    """The results of one check on a processor that revives masked tokens."""
    subject = Subject("m:RevivesMasked", library.RevivesMasked, TOKEN, seed)
    return check_processor(subject, [check for check in CHECKS if check.id == "masked"])


def test_results_are_reproducible_and_readable():
    """Two checks with one seed give the same bytes, and they read back as the same results."""
    first, second = to_json(revives(seed=3)), to_json(revives(seed=3))
    assert (first, from_json(first)) == (second, revives(seed=3))


def test_the_command_is_shown():
    """A finding says how to see it again, with the requests."""
    (found,) = [check.finding for check in revives().checks if check.finding]
    assert found.reproduce == (
        "aliquot check-processor m:RevivesMasked --seed 0 "
        "--params '" + json.dumps([{"extra_args": {"token": 2}}]) + "'"
    )


def played(history):
    """The updates of a history and the tokens held by each row at its end."""
    steps = list(replay(history, subject_of(Bias)))
    return [step.update for step in steps], [r.output_token_ids for r in steps[-1].requests]


def newcomers(*outputs):
    """Requests without parameters, told apart by their output."""
    return tuple(Newcomer(0, (), (token,)) for token in outputs)


def test_STATE04_a_gap_is_closed_by_the_last_request():
    """Row 0 leaves, the last row moves there, and the filled row is not named as removed."""
    (_, update), rows_ = played(History(newcomers(0, 1, 2), (Step(finish=(2,)),), Habits()))
    assert (update.removed, update.moved, rows_) == ([], [(2, 0, UNI)], [[2], [1]])


def test_STATE05_a_gap_is_closed_by_a_swap():
    """With the habit of swapping, the empty row stays named as removed."""
    habits = Habits(fill=MoveDirectionality.SWAP)
    (_, update), rows_ = played(History(newcomers(0, 1), (Step(finish=(1,)),), habits))
    assert (update.removed, update.moved, rows_) == (
        [0], [(1, 0, MoveDirectionality.SWAP)], [[1]],
    )  # fmt: skip


def test_STATE03_a_newcomer_takes_the_lowest_free_row():
    """It overwrites the row, which is not named as removed."""
    step = Step(finish=(0, 1), start=newcomers(7))
    (_, update), rows_ = played(History(newcomers(0, 1, 2), (step,), Habits()))
    assert (update.removed, update.added[0][0], rows_) == ([2], 1, [[0], [7]])


def test_STATE01_a_refilled_row_may_be_named():
    """With the habit of naming it, the row is both removed and added."""
    step = Step(finish=(0,), start=newcomers(7))
    habits = Habits(keeps_size=True, lists_refilled=True)
    (_, update), _ = played(History(newcomers(0), (step,), habits))
    assert (update.removed, update.added[0][0]) == ([0], 0)


def test_STATE02_a_placeholder_is_replaced_after_the_update():
    """The output ends in -1 until the step is settled."""
    history = History(newcomers(0), (Step(grown=(5,)),), Habits(placeholder=True))
    steps = replay(history, subject_of(Bias))
    output = next(steps).requests[0].output_token_ids
    step = next(steps)
    before = list(output)
    step.settle()
    assert (before, output) == ([0, -1], [0, 5])


class AddedFirst(Bias):
    """Applies additions before removals."""

    def update_state(self, batch_update):
        """Wrong when a row is in both."""
        super().update_state(batch_update)
        for row in batch_update.removed if batch_update else ():
            if row in {added[0] for added in batch_update.added}:
                self.rows.pop(row, None)


class ReadsEarly(Bias):
    """Reads the last token at the update, when it may not be known."""

    def update_state(self, batch_update):
        """Keep the last tokens."""
        super().update_state(batch_update)
        self.last = {row: output[-1:] for row, (_, output) in self.rows.items()}

    def apply(self, logits):
        """Lower them."""
        for row, tokens in self.last.items():
            logits[row, tokens] -= 1.0
        return logits


class SwapsOnlyFull(Bias):
    """Leaves a row as it was when the other row of a swap is empty."""

    def move(self, a, b, *, swap):
        """Wrong for a swap with an empty row, right for one with a request that asks for nothing."""
        if swap and a in self.rows and b in self.emptied:
            self.rows[b] = self.rows[a]
        else:
            super().move(a, b, swap=swap)

    def update_state(self, batch_update):
        """Know which rows were emptied."""
        self.emptied = set(batch_update.removed) if batch_update else set()
        super().update_state(batch_update)

    def apply(self, logits):
        """A row that is held twice counts twice."""
        if len(set(map(id, self.rows.values()))) < len(self.rows):
            logits += 1.0
        return super().apply(logits) if max(self.rows, default=0) < len(logits) else logits


class Drifts(Bias):
    """Counts its own steps."""

    steps = 0

    def apply(self, logits):
        """Add a little more each time."""
        self.steps += bool(self.rows)
        return super().apply(logits) + self.steps


@pytest.mark.parametrize(
    ("cls", "fails", "holds"),
    [
        (AddedFirst, "state-removed-added", "state-overwrite"),
        (ReadsEarly, "state-placeholder", "state-live-output"),
        (SwapsOnlyFull, "state-swap-empty", "state-swap"),
        (Drifts, "state-quiet", "masked"),
    ],
)
def test_STATE01_STATE02_STATE05_STATE07_each_check_finds_its_own_fault(cls, fails, holds):
    """A fault in one kind of change fails the check of that kind and not its neighbour's."""
    subject = subject_of(cls)
    found = {
        check.id: judged(check, subject).verdict for check in CHECKS if check.id in (fails, holds)
    }
    assert found == {fails: Verdict.FAIL, holds: Verdict.PASS}
