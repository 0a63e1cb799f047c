"""The persistent batch: what each row asks for, kept between steps and changed only where the batch changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aliquot.contract.batch import (
    Added,
    Batch,
    BatchError,
    BatchUpdate,
    LogprobsMode,
    ThinkingMarkers,
)
from aliquot.contract.params import ParameterError, SamplingParams, validate
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.fast.edits import AllowedIds, BadWords, Edit, LogitBias, MinTokens
from aliquot.fast.live import RowMap
from aliquot.fast.logprobs import Explicit, columns
from aliquot.fast.penalties import Penalties
from aliquot.fast.processors.collection import LogitsProcessors
from aliquot.fast.processors.stage import after_temperature, before_penalties
from aliquot.fast.thinking import ThinkingBudget
from aliquot.fast.upload import capturing, upload

# Rows with a filter are first drawn from this many of their largest tokens; top-k rows from k and a margin for ties.
REACH = {64: 80, 256: 272}


Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Row:
    """One request as the sampler acts on it; `output` is the live list."""

    params: SamplingParams
    output: list[int]


@dataclass(frozen=True, eq=False)
class Group:
    """Random rows that take the same path, with their parameters on the device, `[g]` each.

    `rows` is None when the group is the whole batch. `top_k` is V where off. `reach` is how many of the
    largest tokens are tried first, 0 for none. It and the flags are known to
    the host, so that no step waits for the device.
    """

    rows: Tensor | None
    temperature: Tensor
    top_p: Tensor
    min_p: Tensor
    top_k: Tensor
    reach: int
    unit_temperature: bool
    uses_top_p: bool
    uses_min_p: bool
    uses_top_k: bool
    seeded: bool

    def pick(self, per_row: Tensor) -> Tensor:
        """The group's part of something with one entry per row of the batch."""
        return per_row if self.rows is None else per_row.index_select(0, self.rows)

    @property
    def filtered(self) -> bool:
        """Whether any row has a filter."""
        return self.uses_top_p or self.uses_min_p or self.uses_top_k

    def subset(self, members: Tensor) -> "Group":
        """The group's rows at the positions `members`."""
        rows = members if self.rows is None else self.rows[members]
        parts = {name: getattr(self, name)[members] for name in _PER_ROW}
        return replace(self, rows=rows, **parts)


_PER_ROW = ("temperature", "top_p", "min_p", "top_k")


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything about the batch that only a change of the batch can change.

    `temperature` `[n, 1]`, 1 for greedy rows, is set when processors run after it: rows are then divided by it, and
    the groups ask for temperature 1 and no min-p.
    """

    groups: tuple[Group, ...]
    edits: tuple[Edit, ...]
    seeded_rows: tuple[int, ...]
    seeded_index: Tensor
    seeds: Tensor
    positions: Tensor
    num_logprobs: int | None
    explicit: Explicit | None
    temperature: Tensor | None

    @cached_property
    def only_argmax(self) -> bool:
        """Whether every row is greedy and none wants logprobs."""
        return not self.groups and not self.wants_logprobs

    @property
    def wants_logprobs(self) -> bool:
        """Whether step 8 has anything to return."""
        return self.num_logprobs is not None or self.explicit is not None


class BatchState:
    """The state of a persistent batch (STATE01-STATE08).

    `update` follows a BatchUpdate; between updates nothing is recomputed and output lists are read live. Parameters
    are kept in float32 in pinned host memory and copied to `device` once per change. `grammar_bitmask`, int32
    `[n, ceil(V/32)]`, may be set before each step. Custom `processors` run at their places in the sampler
    (PLUG01), their hooks at `update`, which is called before each step.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        device: torch.device | str = "cpu",
        logprobs_mode: LogprobsMode = "raw_logprobs",
        thinking: ThinkingMarkers | None = None,
        profile: Profile = CANONICAL,
        processors: LogitsProcessors | None = None,
    ) -> None:
        self.vocab_size, self.device = vocab_size, torch.device(device)
        self.logprobs_mode: LogprobsMode = logprobs_mode
        self.profile = profile
        self.grammar_bitmask: np.ndarray | Tensor | None = None
        self.batch_size = 0
        self._rows: RowMap[Row] = RowMap(lambda added: Row(added[1].effective(), added[3]))
        self._processors = processors or LogitsProcessors()
        self.late = after_temperature(self._processors, self.device, profile)
        self._early = before_penalties(self._processors)
        self.edits: tuple[Edit, ...] = (
            AllowedIds(self.device),
            BadWords(self.device),
            MinTokens(self.device),
            LogitBias(self.device),
            *((self._early,) if len(self._early) else ()),
            Penalties(vocab_size, self.device),
            ThinkingBudget(thinking, self.device),
        )
        self._plan: Plan | None = None

    @classmethod
    def of(
        cls, batch: Batch, *, device: torch.device | str = "cpu", profile: Profile = CANONICAL
    ) -> "BatchState":
        """A fresh state that holds the requests of `batch`; raises ParameterError for a refused one."""
        batch.validate()
        state = cls(
            batch.vocab_size,
            device=device,
            logprobs_mode=batch.logprobs_mode,
            thinking=batch.thinking,
            profile=profile,
        )
        added: list[Added] = [
            (row, r.params, r.prompt_token_ids, r.output_token_ids)
            for row, r in enumerate(batch.requests)
        ]
        state._apply(BatchUpdate(batch_size=len(added), added=added))
        state.grammar_bitmask = batch.grammar_bitmask
        return state

    def update(self, update: BatchUpdate | None) -> None:
        """Follow a change of the batch; None means no change (STATE07).

        Raises ParameterError naming the row and the field if an added request is refused, or what a processor's hook
        raises (PLUG07); the state is then as before.
        """
        if update is None:
            self._early.update_state(None)
            self.late.update_state(None)
            return
        for row, params, _, _ in update.added:
            validate(params, self.vocab_size, f"at row {row}")
            self._processors.validate_params(params)
        self._apply(update)

    def _apply(self, update: BatchUpdate) -> None:
        if self.profile.topk_off == "error":
            for row, params, _, _ in update.added:
                self._check_top_k(row, params.top_k)
        self.batch_size = update.batch_size
        self._rows.update(update)
        for edit in self.edits:
            edit.update_state(update)
        self.late.update_state(update)
        self._plan = None

    def _check_top_k(self, row: int, k: int) -> None:
        if not 0 < k <= self.vocab_size:
            raise ParameterError(
                f"request at row {row}: top_k is {k}, allowed is [1, {self.vocab_size}]"
            )

    def check(self, logits: Tensor) -> None:
        """Raise BatchError for logits or a grammar bitmask that do not fit, and in the capture of a CUDA graph.

        A graph cannot follow edits that read the outputs at each step.
        """
        wanted = (self.batch_size, self.vocab_size)
        if tuple(logits.shape) != wanted:
            raise BatchError(f"batch: logits are {tuple(logits.shape)}, allowed is {wanted}")
        if logits.dtype not in (torch.float16, torch.bfloat16, torch.float32):
            raise BatchError(
                f"batch: logits are {logits.dtype}, allowed are float16, bfloat16, float32"
            )
        if self.grammar_bitmask is not None:
            self._check_bitmask(self.grammar_bitmask)
        if capturing(self.device):
            self._check_capture()

    def _check_bitmask(self, mask: "np.ndarray | Tensor") -> None:
        wanted = (self.batch_size, -(-self.vocab_size // 32))
        dtype = str(mask.dtype).removeprefix("torch.")
        if tuple(mask.shape) != wanted or dtype != "int32":
            raise BatchError(
                f"batch: grammar_bitmask is {dtype} {tuple(mask.shape)}, allowed is int32 {wanted}"
            )

    def _check_capture(self) -> None:
        followers = [type(edit).__name__ for edit in self.plan.edits if edit.follows_output]
        if followers:
            raise BatchError(
                f"batch: {', '.join(followers)} in the capture of a CUDA graph, allowed are edits that do not "
                "follow the outputs"
            )

    def positions(self) -> Tensor:
        """Number of output tokens of each seeded row, int64 on the device, the same tensor until the batch changes."""
        if not capturing(self.device):
            self.count_outputs()
        return self.plan.positions

    def count_outputs(self) -> None:
        """Read the outputs' lengths for the seeded rows; only a replayed CUDA graph needs this to be called for it."""
        counts = [len(self._row(row).output) for row in self.plan.seeded_rows]
        self.plan.positions.copy_(
            upload(np.asarray(counts, dtype=np.int64), self.device), non_blocking=True
        )

    def _row(self, row: int) -> Row:
        return self._rows.get(row) or _EMPTY

    @property
    def plan(self) -> Plan:
        """The batch's groups, seeds and logprob requests, computed once per change."""
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def _make_plan(self) -> Plan:
        rows = [self._row(row) for row in range(self.batch_size)]
        distinct, kinds = _distinct(rows)
        left = [_after_late(params) for params in distinct] if len(self.late) else distinct
        paths: dict[tuple[int, bool, bool, bool], list[int]] = {}
        for kind, params in enumerate(distinct):
            if not params.greedy:
                paths.setdefault(self._path(left[kind]), []).append(kind)
        seeds = {k: p.seed for k, p in enumerate(distinct) if not p.greedy and p.seed is not None}
        seeded = np.flatnonzero(np.isin(kinds, list(seeds)))
        number = _most_logprobs(distinct)
        return Plan(
            groups=tuple(
                self._group(np.flatnonzero(np.isin(kinds, those)), kinds, left, reach)
                for (reach, *_), those in paths.items()
            ),
            temperature=self._temperatures(distinct, kinds) if paths and len(self.late) else None,
            edits=tuple(edit for edit in self.edits if len(edit)),
            seeded_rows=tuple(seeded.tolist()),
            seeded_index=upload(seeded, self.device),
            positions=torch.zeros(len(seeded), dtype=torch.int64, device=self.device),
            seeds=upload(
                np.asarray([seeds[k] for k in kinds[seeded].tolist()], dtype=np.int64), self.device
            ),
            num_logprobs=number,
            explicit=Explicit.of(
                [row.params.logprob_token_ids for row in rows],
                columns(number, self.vocab_size),
                self.device,
            ),
        )

    def _path(self, params: SamplingParams) -> tuple[int, bool, bool, bool]:
        """Reach and kind of a request; requests alike in them share a group.

        On the CPU the kind is whether it has a filter, elsewhere also what decides between kernel and native path.
        """
        k = params.top_k if 0 < params.top_k < self.vocab_size else 0
        filtered = k > 0 or params.top_p < 1 or params.min_p > 0
        if self.device.type != "cpu":
            return 0, filtered, params.min_p > 0, params.seed is not None
        reach = next((reach for limit, reach in REACH.items() if k <= limit), 0)
        return (reach if filtered else 0), filtered, False, False

    def _group(
        self, members: Indices, kinds: Indices, distinct: Sequence[SamplingParams], reach: int
    ) -> Group:
        """The group of the rows `members`, which have the parameters `distinct[kinds]`."""
        everything = len(members) == self.batch_size
        used, place = np.unique(kinds[members], return_inverse=True)
        params = [distinct[kind] for kind in used.tolist()]
        k = [p.top_k if 0 < p.top_k < self.vocab_size else self.vocab_size for p in params]
        numbers = np.asarray(
            [(self._temperature(p), p.top_p, p.min_p) for p in params], dtype=np.float32
        )[place]
        temperature, top_p, min_p = upload(np.ascontiguousarray(numbers.T), self.device)
        return Group(
            rows=None if everything else upload(members, self.device),
            temperature=temperature,
            top_p=top_p,
            min_p=min_p,
            top_k=upload(np.asarray(k, dtype=np.int64)[place], self.device),
            reach=reach,
            unit_temperature=bool((numbers[:, 0] == 1).all()),
            uses_top_p=bool((numbers[:, 1] < 1).any()),
            uses_min_p=bool((numbers[:, 2] > 0).any()),
            uses_top_k=min(k) < self.vocab_size,
            seeded=any(p.seed is not None for p in params),
        )

    def _temperature(self, params: SamplingParams) -> float:
        """The temperature as float32 can hold it, raised to the profile's floor."""
        ceiling = float(np.finfo(np.float32).max)
        return min(max(params.temperature, self.profile.temperature_floor), ceiling)

    def _temperatures(self, distinct: Sequence[SamplingParams], kinds: Indices) -> Tensor:
        each = [1.0 if p.greedy else self._temperature(p) for p in distinct]
        return upload(np.asarray(each, dtype=np.float32)[kinds][:, None], self.device)


_EMPTY = Row(SamplingParams(temperature=0.0), [])


def _distinct(rows: Sequence[Row]) -> tuple[list[SamplingParams], Indices]:
    """The rows' parameters, shared ones once, and which of them each row has, `[n]`."""
    distinct = {id(row.params): row.params for row in rows}
    number = {key: kind for kind, key in enumerate(distinct)}
    kinds = [number[id(row.params)] for row in rows]
    return list(distinct.values()), np.asarray(kinds, dtype=np.int64)


def _after_late(params: SamplingParams) -> SamplingParams:
    """What is left to ask for once temperature and min-p have acted."""
    return replace(params, temperature=1.0, min_p=0.0)


def _most_logprobs(distinct: Sequence[SamplingParams]) -> int | None:
    asked = [p.logprobs for p in distinct if p.logprobs is not None and p.logprob_token_ids is None]
    return None if not asked else -1 if -1 in asked else max(asked)
