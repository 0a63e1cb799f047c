"""The contract as a page: `python -m aliquot.contract.document > docs/contract.md`."""

import math
from collections.abc import Iterable, Iterator

from aliquot.contract.accuracy import CLASSES
from aliquot.contract.clauses import Clause, Group, clauses, groups
from aliquot.contract.profile import FREEDOMS, Freedom

INTRODUCTION = """\
# The contract

What a sampler of next tokens must do, in {count} numbered clauses. *n* is the number of rows, *V* the size of the
vocabulary; a *row* is the logits of one request at one step, and a *request* carries the parameters. A clause has a
level (must, should, may), a formula where one helps, and names the *freedom* in which samplers may differ without
being wrong. The freedoms and their choices are at the end, the canonical choice first; a backend declares its
choices as its profile and is judged by them.

The same ids stand at the lines of the oracle that implement them and in the names of the tests. This page is made
by `python -m aliquot.contract.document` from `contract/clauses.toml`.
"""

ORDER = """\
## The steps in order

0. grammar bitmask, before the sampler sees the logits
1. raw logprobs or raw logits are kept
2. the logits become float32
3. allowed token ids
4. bad words
5. min tokens, then logit bias, then custom processors that may change the argmax
6. repetition, frequency and presence penalty, then the thinking budget
7. sampling: greedy rows take the argmax; random rows pass temperature, min-p, custom argmax-invariant processors,
   top-k, top-p and are drawn
8. logprobs and ranks are gathered
9. ids and logprobs are returned
"""


def markdown() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION.format(count=len(clauses())),
        contents(groups()),
        ORDER,
        *(chapter(group) for group in groups()),
        freedoms(FREEDOMS),
        accuracy_classes(),
    ]
    return "\n".join(parts)


def contents(chapters: Iterable[Group]) -> str:
    """The list of chapters with the ranges of their ids."""
    lines = [
        f"- [{group.name}](#{group.name.replace(' ', '-')}): {group.about} ({ids(group)})"
        for group in chapters
    ]
    return "\n".join([*lines, ""])


def ids(group: Group) -> str:
    """First and last id of a chapter."""
    return f"{group.clauses[0].id} to {group.clauses[-1].id}"


def chapter(group: Group) -> str:
    """One chapter: its heading and its clauses."""
    return "\n".join([f"## {group.name}", "", f"{group.about}.", "", *map(entry, group.clauses)])


def entry(clause: Clause) -> str:
    """One clause as a paragraph with an anchor."""
    return "".join([*_sentences(clause), "\n"])


def _sentences(clause: Clause) -> Iterator[str]:
    yield f'<a id="{clause.id}"></a>**{clause.id} {clause.title}** ({clause.level}). {clause.text}'
    if clause.formula:
        yield f" `{clause.formula}`"
    if clause.freedom:
        yield f" Freedom: [{clause.freedom}](#freedoms)."


def freedoms(choices: Iterable[Freedom]) -> str:
    """The table of freedoms."""
    rows = [
        f"| {freedom.name} | {freedom.about} | {', '.join(freedom.choices)} |"
        for freedom in choices
    ]
    floor = (
        "| temperature_floor | temperatures between 1e-5 and 0.01 | 0 (as given), or the floor |"
    )
    head = ["## freedoms", "", "| field | about | choices |", "|---|---|---|"]
    return "\n".join([*head, *rows, floor, ""])


def accuracy_classes() -> str:
    """The table of accuracy classes."""
    rows = [
        f"| {c.name} | 2^{_exponent(c.unit)} | {c.summation} | {c.exp_ulps:g} u |"
        for c in CLASSES.values()
    ]
    about = (
        "The arithmetic that a backend declares; every tolerance is derived from it. u is the unit roundoff, the sums"
        " are those over the vocabulary."
    )
    head = [
        "## accuracy classes",
        "",
        about,
        "",
        "| name | u | sums | exp and log |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def _exponent(unit: float) -> int:
    return round(math.log2(unit))


if __name__ == "__main__":
    print(markdown(), end="")
