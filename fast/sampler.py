"""The sampler: the nine steps of the contract over one batch of logits."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from aliquot.contract.batch import Batch
from aliquot.contract.output import INVALID_TOKEN, Logprobs, SamplerOutput
from aliquot.contract.profile import CANONICAL, Profile
from aliquot.fast.blocks import Logits, Peak
from aliquot.fast.cuts import Rows
from aliquot.fast.dispatch import NATIVE, Kernel, Noise, load, need_of, platform_of, route
from aliquot.fast.draw import race
from aliquot.fast.grammar import apply_bitmask
from aliquot.fast.logprobs import Values, gather
from aliquot.fast.noise import hashed_words, unit_interval
from aliquot.fast.paths import Drawn, narrow, wide, wide_cut
from aliquot.fast.ranked import ranked, ranked_mask
from aliquot.fast.state import BatchState, Group

NoiseHook = Callable[[str, Tensor], Tensor | None]


class Sampler(nn.Module):
    """Draws one token a row under a profile's choices; every parameter of the contract.

    `seed` starts the generator of requests without a seed of their own; None takes it from the system.
    `use_fp64_gumbel` draws by a Gumbel race with one float64 noise value a token instead of one float64 uniform a
    row (DRAW08). `noise_hook` is called once a step as `hook(kind, values)` with kind `inverse_cdf` (values float64
    `[n]`) or `gumbel` (float64 uniforms `[n, V]`); a tensor that it returns is used instead of the noise.
    """

    def __init__(
        self,
        *,
        profile: Profile = CANONICAL,
        use_fp64_gumbel: bool = False,
        seed: int | None = None,
        noise_hook: NoiseHook | None = None,
    ) -> None:
        super().__init__()
        self.profile = profile
        self.use_fp64_gumbel = use_fp64_gumbel
        self.noise_hook = noise_hook
        self._generators: dict[torch.device, torch.Generator] = {}
        self._kernel_noise: dict[torch.device, Noise] = {}
        self.reseed(seed)

    def reseed(self, seed: int | None) -> None:
        """Restart the noise of requests without a seed; None takes a seed from the system."""
        self._seed = torch.Generator().seed() if seed is None else seed
        self._generators.clear()
        self._kernel_noise.clear()

    @torch.no_grad()
    def forward(self, logits: Tensor, state: BatchState) -> SamplerOutput:
        """Sample one token for each row of `logits`, `[n, V]` in float16, bfloat16 or float32.

        A float32 input may be overwritten, a 16-bit one is never touched. Returns ids int64 `[n, 1]` and the logprobs
        asked for. A row with NaN, +inf or nothing but -inf yields -1, or a valid id where the profile says so; it
        never raises and never disturbs other rows (ERR16-ERR18). Raises BatchError if shape or dtype are wrong.
        """
        state.check(logits)
        rows = _working_copy(logits, state)
        if state.grammar_bitmask is not None:
            apply_bitmask(rows, state.grammar_bitmask)
        raw = self._keep_raw(rows, state)
        for edit in state.plan.edits:
            rows = edit.apply(rows)
        if len(rows) == 0:
            return SamplerOutput(sampled_token_ids=self._ids(rows.new_empty(0, dtype=torch.int64)))
        source = Logits(rows)
        if state.plan.only_argmax:
            tokens = self._mark_bad(source.peak.token, source.peak)
            return SamplerOutput(sampled_token_ids=self._ids(tokens))
        late = _after_late_processors(source, state)
        tokens, drawn = self._draw_rows(source, late, state)
        tokens = self._mark_bad(tokens, source.peak)
        raw_source = source if raw is None else Logits(raw)
        logprobs = self._logprobs(raw_source, late, tokens, drawn, state)
        return SamplerOutput(sampled_token_ids=self._ids(tokens), logprobs=logprobs)

    def sample(self, logits: Tensor, batch: Batch) -> SamplerOutput:
        """Sample once from a fresh state that holds the requests of `batch`.

        Raises ParameterError or BatchError for a refused request or shape.
        """
        state = BatchState.of(batch, device=logits.device, profile=self.profile)
        output: SamplerOutput = self(logits, state)
        return output

    @torch.no_grad()
    def logprobs_of(
        self, logits: Tensor, token_ids: Tensor, num_logprobs: int = 0, *, normalise: bool = True
    ) -> Logprobs:
        """Logprobs and ranks of given tokens int64 `[n]`, one a row of `[n, V]` logits (LOGP13).

        This yields prompt logprobs. `num_logprobs` adds the largest, -1 returns whole rows; without `normalise` the
        values are logits.
        """
        values = Values(Logits(logits.detach().float()), normalise=normalise)
        return self._typed(gather(values, token_ids, num_logprobs))

    def _mode(self, state: BatchState) -> tuple[str, str]:
        stage, kind = state.logprobs_mode.split("_")
        return ("processed" if self.profile.logprobs == "processed" else stage), kind

    def _keep_raw(self, rows: Tensor, state: BatchState) -> Tensor | None:
        """A copy of the logits that raw values are read from, None where no edit changes them."""
        if not state.plan.wants_logprobs or self._mode(state)[0] == "processed":
            return None
        return rows.clone() if state.plan.edits else None

    def _draw_rows(
        self, source: Logits, late: Logits, state: BatchState
    ) -> tuple[Tensor, list[tuple[Rows, Drawn]]]:
        """Argmax of the greedy rows of `source`, draws of the others from `late` (GREEDY04)."""
        plan = state.plan
        if any(group.reach for group in plan.groups):
            _ = late.maxima
        tokens, drawn = source.peak.token, []
        noise = self._noise(state) if plan.groups else tokens
        for group in plan.groups:
            part = Rows(late.pick(group.rows), group, self.profile)
            result = self._draw(part, group.pick(noise), state)
            drawn.append((part, result))
            tokens = (
                result.tokens
                if group.rows is None
                else tokens.index_copy(0, group.rows, result.tokens)
            )
        return tokens, drawn

    def _draw(self, rows: Rows, noise: Tensor, state: BatchState) -> Drawn:
        kernel = None if state.device.type == "cpu" else self._kernel(rows.group, state)
        if kernel is not None:
            return self._draw_by(kernel, rows)
        by_position = {self.profile.topk_ties, self.profile.topp_ties} != {"keep_all"}
        if self.use_fp64_gumbel:
            return _race(rows, noise, by_position)
        if by_position:
            return ranked(rows, noise)
        return narrow(rows, noise) if rows.group.reach else wide(rows, noise)

    def _kernel(self, group: Group, state: BatchState) -> Kernel | None:
        """The kernel that the dispatch table names for the group, None for the native path."""
        processed = state.plan.wants_logprobs and self._mode(state)[0] == "processed"
        need = need_of(
            filtered=group.uses_top_k or group.uses_top_p,
            min_p=group.uses_min_p,
            seeded=group.seeded,
            processed=processed,
            fp64_gumbel=self.use_fp64_gumbel,
            profile=self.profile,
        )
        rule = route(platform_of(state.device), need)
        return None if rule.path == NATIVE else load(rule.path)[0]

    def _draw_by(self, kernel: Kernel, rows: Rows) -> Drawn:
        group, device = rows.group, rows.logits.device
        if device not in self._kernel_noise:
            start = torch.tensor([self._seed % 2**63, 0], device=device)
            self._kernel_noise[device] = Noise(start[:1].clone(), start[1:].clone())
        ids = kernel.sample(
            (rows.logits / group.temperature.unsqueeze(1)).contiguous(),
            group.top_k if group.uses_top_k else None,
            group.top_p if group.uses_top_p else None,
            self._kernel_noise[device],
        )
        return Drawn(ids.view(-1).to(torch.int64), rows.peak)

    def _noise(self, state: BatchState) -> Tensor:
        """Float64 uniforms, `[n]` or for the Gumbel race `[n, V]`, seeded rows by their own counter."""
        plan, race_wanted = state.plan, self.use_fp64_gumbel
        shape = (state.batch_size, state.vocab_size) if race_wanted else (state.batch_size,)
        noise = torch.rand(
            shape, dtype=torch.float64, device=state.device, generator=self.generator(state.device)
        )
        if plan.seeded_rows:
            words = hashed_words(plan.seeds, state.positions())
            if race_wanted:
                tokens = torch.arange(state.vocab_size, device=state.device)
                words = hashed_words(words.unsqueeze(1), tokens)
            noise = noise.index_copy(0, plan.seeded_index, unit_interval(words))
        if self.noise_hook is not None:
            given = self.noise_hook("gumbel" if race_wanted else "inverse_cdf", noise)
            noise = noise if given is None else given.to(noise)
        return noise

    def generator(self, device: torch.device) -> torch.Generator:
        """The generator of requests without a seed; a CUDA graph that captures the sampler must register it."""
        if device not in self._generators:
            generator = torch.Generator(device)
            self._generators[device] = generator.manual_seed(self._seed)
        return self._generators[device]

    def _mark_bad(self, tokens: Tensor, peak: Peak) -> Tensor:
        valid = self.profile.bad_row == "any_valid_id"
        return peak.marked(tokens, peak.token if valid else INVALID_TOKEN)

    def _ids(self, tokens: Tensor) -> Tensor:
        return tokens.unsqueeze(1).to(self._id_dtype)

    def _typed(self, logprobs: Logprobs) -> Logprobs:
        return replace(logprobs, token_ids=logprobs.token_ids.to(self._id_dtype))

    @property
    def _id_dtype(self) -> torch.dtype:
        return torch.int32 if self.profile.id_dtype == "int32" else torch.int64

    def _logprobs(
        self,
        source: Logits,
        late: Logits,
        tokens: Tensor,
        drawn: list[tuple[Rows, Drawn]],
        state: BatchState,
    ) -> Logprobs | None:
        plan = state.plan
        if not plan.wants_logprobs:
            return None
        stage, kind = self._mode(state)
        if stage == "processed":
            source = _processed_rows(late, drawn, movable=kind == "logprobs")
        values = Values(source, normalise=kind == "logprobs")
        return self._typed(gather(values, tokens, plan.num_logprobs, plan.explicit))


def _working_copy(logits: Tensor, state: BatchState) -> Tensor:
    """Float32 rows with adjacent tokens; the input itself where it may be written."""
    logits = logits.detach()
    if logits.dtype != torch.float32:
        return logits.to(torch.float32)
    apart = len(logits) < 2 or logits.stride(0) >= logits.shape[1]
    edited = state.grammar_bitmask is not None or state.plan.edits
    if logits.stride(1) == 1 and (apart or not edited):
        return logits
    return logits.contiguous()


def _after_late_processors(source: Logits, state: BatchState) -> Logits:
    """The rows after temperature, min-p and custom argmax-invariant processors, if there are any (PLUG01)."""
    temperature = state.plan.temperature
    if temperature is None:
        return source
    return Logits(state.late.apply(source.logits / temperature))


def _race(rows: Rows, noise: Tensor, by_position: bool) -> Drawn:
    kept = ranked_mask(rows) if by_position else wide_cut(rows)
    drawn = Drawn(rows.peak, kept)
    gap = rows.logits.double() - rows.peak.double().unsqueeze(1)
    scaled = gap / rows.group.temperature.double().unsqueeze(1)
    tokens = race(scaled.masked_fill(~drawn.mask(rows.logits), -torch.inf), noise)
    return Drawn(tokens, kept)


def _processed(rows: Rows, drawn: Drawn, *, movable: bool) -> Tensor:
    """Rows after step 7d: divided by temperature, removed tokens -inf (LOGP05).

    Where only differences count, `movable` rows that would overflow are moved to 0 first.
    """
    logits = rows.without_overflow() if movable else rows.logits
    scaled = logits / rows.group.temperature.unsqueeze(1)
    return scaled.masked_fill_(~drawn.mask(rows.logits), -torch.inf)


def _processed_rows(source: Logits, drawn: list[tuple[Rows, Drawn]], *, movable: bool) -> Logits:
    if not drawn:
        return source
    whole = source.logits
    for rows, result in drawn:
        part, places = _processed(rows, result, movable=movable), rows.group.rows
        whole = part if places is None else whole.index_copy(0, places, part)
    return Logits(whole)
