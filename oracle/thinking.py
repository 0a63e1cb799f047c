"""Thinking budget: the most tokens of a section between a start and an end marker.

The state is a function of the history alone: prompt, then output (then drafts), read from left to
right. A start marker opens a section and an end marker closes the open one; both match as whole
sequences (THINK05), each on tokens that no earlier marker used, and a start marker inside an open
section is an ordinary token (THINK10, THINK11). THINK04: the section may begin in the prompt, its
tokens there count. THINK01: once the tokens after the start marker reach the budget the next tokens
are the end marker, one a step. THINK03: budget 0 does so at once. THINK06: a first part of the end
marker that stands there already is continued. THINK02: the forced token's logit becomes 1e9, after
the penalties. THINK07: a section that ends by itself, its end marker within the budget, leaves the
full budget to the next. THINK08: after a forced end every section is closed at once. THINK12: an
end inside the prompt is never a forced one. THINK09: no end marker, no effect. Padding and
placeholder are no tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from aliquot.contract.batch import ThinkingMarkers
from aliquot.oracle.context import Context
from aliquot.oracle.rows import Rows

CLAUSES = (
    "THINK01",
    "THINK02",
    "THINK03",
    "THINK04",
    "THINK05",
    "THINK06",
    "THINK07",
    "THINK08",
    "THINK09",
    "THINK10",
    "THINK11",
    "THINK12",
)
FORCED_LOGIT = 1e9


def apply(rows: Rows, context: Context) -> Rows:
    """Rows with 1e9 at the token that each used-up budget forces."""
    out = rows.copy()
    markers = context.batch.thinking
    requests = zip(out, context.batch.requests, context.histories, strict=True)
    for row, request, history in requests:
        budget = request.params.thinking_token_budget
        if markers is not None and budget is not None:
            prompt = real(request.prompt_token_ids or (), row.size)
            token = forced(prompt, real(history, row.size), markers, budget)
            if token is not None:
                row[token] = FORCED_LOGIT  # THINK02
    return out


def real(tokens: Sequence[int], vocab_size: int) -> tuple[int, ...]:
    """The history without padding and placeholders."""
    return tuple(t for t in tokens if 0 <= t < vocab_size)


@dataclass
class Section:
    """Where the reading stands: `seen` holds the tokens since the last marker, `left` the budget of a section."""

    left: int
    open: bool = False
    seen: list[int] = field(default_factory=list)

    def read(self, token: int, markers: ThinkingMarkers, drawn: bool) -> None:
        """Take one more token of the history; `drawn` tells output from prompt."""
        self.seen.append(token)
        if not self.open and ends_in(self.seen, markers.start):
            self.open, self.seen = True, []  # THINK04 THINK10
        elif self.open and ends_in(self.seen, markers.end):  # THINK05 THINK11
            if drawn and len(self.seen) > self.left:  # THINK07 THINK12
                self.left = 0  # THINK08
            self.open, self.seen = False, []


def forced(
    prompt: Sequence[int], output: Sequence[int], markers: ThinkingMarkers, budget: int
) -> int | None:
    """The token that the budget forces next, or None."""
    if not markers.end or not markers.start:  # THINK09
        return None
    section = Section(left=budget)
    for token in prompt:
        section.read(token, markers, drawn=False)
    for token in output:
        section.read(token, markers, drawn=True)
    if not section.open or len(section.seen) < section.left:  # THINK01 THINK03
        return None
    return markers.end[begun(section.seen, markers.end)]  # THINK06


def ends_in(tokens: Sequence[int], marker: Sequence[int]) -> bool:
    """Whether the tokens end in the whole marker."""
    return len(tokens) >= len(marker) and list(tokens[-len(marker) :]) == list(marker)


def begun(tokens: Sequence[int], marker: Sequence[int]) -> int:
    """The length of the longest proper first part of the marker in which the tokens end (THINK06)."""
    lengths = range(min(len(tokens), len(marker) - 1), 0, -1)
    return next((k for k in lengths if ends_in(tokens, marker[:k])), 0)
