"""F11: token masks, biases, stop ids and the thinking budget."""

from dataclasses import replace
from typing import Any

import numpy as np

from aliquot.conformance.faults.fault import Fault, each, per_row, with_params
from aliquot.contract.batch import Batch, Request
from aliquot.oracle import bad_words, thinking
from aliquot.oracle.pipeline import CONTRACT, Context, Rows, Step, replaced

WORD = 32


def _opposite(row: Rows, r: int, context: Context) -> Rows:
    allowed = context.params[r].allowed_token_ids
    if allowed is not None and len(allowed) < row.size:
        row[list(allowed)] = -np.inf
    return row


def _whole_words_only(batch: Batch) -> Batch:
    """The mask covers whole words of the vocabulary; the columns behind are free."""
    if batch.grammar_bitmask is None:
        return batch
    mask = batch.grammar_bitmask.copy()
    mask[:, batch.vocab_size // WORD :] = -1
    return replace(batch, grammar_bitmask=mask)


def _rows_reversed(batch: Batch) -> Batch:
    mask = batch.grammar_bitmask
    return batch if mask is None else replace(batch, grammar_bitmask=mask[::-1].copy())


def _eos_only(request: Request, r: int, batch: Batch) -> Request:
    return with_params(request, stop_token_ids=())


def _last_stop_only(request: Request, r: int, batch: Batch) -> Request:
    ids = request.params.stop_ids
    return with_params(request, eos_token_id=None, stop_token_ids=ids[-1:])


def _default_skipped(request: Request, r: int, batch: Batch) -> Request:
    return with_params(request, min_tokens=0) if request.params.min_tokens == 1 else request


def _whole_numbers(request: Request, r: int, batch: Batch) -> Request:
    bias = {t: float(int(b)) for t, b in request.params.logit_bias.items()}
    return with_params(request, logit_bias=bias) if bias else request


def _unclipped(row: Rows, r: int, context: Context) -> Rows:
    for token, bias in context.batch.requests[r].params.logit_bias.items():
        row[token] += bias
    return row


def _filled_with_zero(row: Rows, r: int, context: Context) -> Rows:
    for word in context.params[r].bad_words:
        if bad_words.about_to_complete(word, context.histories[r]):
            row[word[-1]] = 0.0
    return row


def _dropped(request: Request, r: int, batch: Batch) -> Request:
    known = range(batch.vocab_size)
    bias = request.params.logit_bias
    if all(t in known or t < 0 for t in bias):
        return request
    return with_params(request, logit_bias={t: b for t, b in bias.items() if t in known or t < 0})


ID_LISTS = ("stop_token_ids", "allowed_token_ids", "logprob_token_ids")


def _from_the_end(request: Request, r: int, batch: Batch) -> Request:
    """Negative ids count from the end of the vocabulary."""
    params, vocab = request.params, batch.vocab_size
    changed: dict[str, Any] = {
        name: tuple(_wrap(t, vocab) for t in ids)
        for name in ID_LISTS
        if (ids := getattr(params, name)) and min(ids) < 0
    }
    if any(t < 0 for t in params.logit_bias):
        changed["logit_bias"] = {_wrap(t, vocab): b for t, b in params.logit_bias.items()}
    if any(t < 0 for word in params.bad_words for t in word):
        changed["bad_words"] = [[_wrap(t, vocab) for t in word] for word in params.bad_words]
    return with_params(request, **changed) if changed else request


def _wrap(token: int, vocab: int) -> int:
    return token + vocab if -vocab <= token < 0 else token


def _thinking(change: Any) -> tuple[Step, ...]:
    """The contract's steps with another rule for the token that a used-up budget forces."""

    def change_row(row: Rows, r: int, context: Context) -> Rows:
        request, markers = context.batch.requests[r], context.batch.thinking
        budget = request.params.thinking_token_budget
        if markers is None or budget is None or not markers.end:
            return row
        prompt = thinking.real(request.prompt_token_ids or (), row.size)
        token = change(prompt, thinking.real(context.histories[r], row.size), markers, budget)
        if token is not None:
            row[token] = thinking.FORCED_LOGIT
        return row

    return replaced(CONTRACT, "thinking_budget", per_row(change_row))


def _from_the_first(prompt: Any, output: Any, markers: Any, budget: int) -> int | None:
    """A begun end marker is started anew, unless it was this rule that forced its beginning."""
    token = thinking.forced(prompt, output, markers, budget)
    natural = thinking.forced(prompt, output[:-1], markers, budget) is None
    return markers.end[0] if token is not None and natural else token


def _closed_by_any_end(prompt: Any, output: Any, markers: Any, budget: int) -> int | None:
    """An end marker anywhere in the history, also before the section, closes it."""
    history, size = (*prompt, *output), len(markers.end)
    closed = any(
        tuple(history[i : i + size]) == tuple(markers.end) for i in range(len(history) - size + 1)
    )
    return None if closed else thinking.forced(prompt, output, markers, budget)


FAULTS = (
    Fault(
        name="allow-polarity",
        about="an allow-list masks the listed tokens",
        report="vllm-project/vllm PR 14169",
        group="F11",
        clauses=("ALLOW01", "ALLOW03", "ALLOW04"),
        steps=replaced(CONTRACT, "allowed_token_ids", per_row(_opposite)),
    ),
    Fault(
        name="grammar-narrow",
        about="the grammar's mask ends at the last whole word of the vocabulary",
        report="mlc-ai/xgrammar PR 694",
        group="F11",
        clauses=("GRAM01", "GRAM02"),
        requests=_whole_words_only,
    ),
    Fault(
        name="grammar-rows",
        about="the rows of the grammar's mask come in another order than the requests",
        report="vllm-project/tpu-inference PR 1563",
        group="F11",
        clauses=("GRAM04", "GRAM02"),
        requests=_rows_reversed,
    ),
    Fault(
        name="min-eos-only",
        about="below min_tokens only EOS is masked",
        report="vllm-project/vllm PR 15407",
        group="F11",
        clauses=("MINTOK03",),
        requests=each(_eos_only),
    ),
    Fault(
        name="min-one-stop-id",
        about="below min_tokens only the last stop id is masked",
        report="QwenAudio/CosyVoice PR 1916",
        group="F11",
        clauses=("MINTOK03",),
        requests=each(_last_stop_only),
    ),
    Fault(
        name="min-one-is-default",
        about="min_tokens = 1 is taken for the default and has no effect",
        report="NVIDIA/TensorRT-LLM PR 1935",
        group="F11",
        clauses=("MINTOK01", "MINTOK03"),
        requests=each(_default_skipped),
    ),
    Fault(
        name="bias-whole-numbers",
        about="biases are truncated to whole numbers",
        report="dphnAI/sonar PR 278",
        group="F11",
        clauses=("BIAS04", "BIAS01"),
        requests=each(_whole_numbers),
    ),
    Fault(
        name="bias-unclipped",
        about="biases beyond 100 are not clipped",
        report="sgl-project/sglang PR 31866",
        group="F11",
        clauses=("BIAS02",),
        steps=replaced(CONTRACT, "logit_bias", per_row(_unclipped)),
    ),
    Fault(
        name="ban-is-zero",
        about="a bad word's last token gets the logit 0",
        report="LostRuins/koboldcpp issue 398",
        group="F11",
        clauses=("BADW01", "BADW02"),
        steps=replaced(CONTRACT, "bad_words", per_row(_filled_with_zero)),
    ),
    Fault(
        name="bias-beyond-vocabulary",
        about="a bias of an id at V or above is not refused",
        report="vllm-project/vllm PR 16529",
        group="F11",
        clauses=("ERR09", "ERR15"),
        lenient=True,
        requests=each(_dropped),
    ),
    Fault(
        name="negative-ids",
        about="negative ids are not refused",
        report="vllm-project/vllm PR 51795",
        group="F11",
        clauses=("ERR09", "ERR15"),
        lenient=True,
        requests=each(_from_the_end),
    ),
    Fault(
        name="think-restarts-end",
        about="an end marker that the model has begun is started anew",
        report="NVIDIA/TensorRT-LLM issue 18616",
        group="F11",
        clauses=("THINK06",),
        steps=_thinking(_from_the_first),
    ),
    Fault(
        name="think-stale-end",
        about="an end marker anywhere in the history closes the thinking section",
        report="sgl-project/sglang PR 33146",
        group="F11",
        clauses=("THINK10", "THINK08"),
        steps=_thinking(_closed_by_any_end),
    ),
)
