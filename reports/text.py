"""Numbers and strings as the pages print them."""

import json
import math
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

Item = TypeVar("Item")

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
TIMES = "\N{MULTIPLICATION SIGN}"
ALPHA = "\N{GREEK SMALL LETTER ALPHA}"
MINUS = "\N{MINUS SIGN}"
SHOWN_ITEMS = 24

_ALLOWED = "\t\n"
_ESCAPED = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in _ALLOWED
}
_INVISIBLE = (*range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_ILLEGAL = (*range(0xD800, 0xE000), 0xFFFE, 0xFFFF)
_ESCAPED |= {code: f"\\u{code:04x}" for code in (*_INVISIBLE, *_ILLEGAL)}


def printable(text: str) -> str:
    """Write control and invisible characters and lone surrogates as escapes such as \\x1b.

    What is left is legal in XML 1.0 and in HTML and can be encoded as UTF-8.
    """
    return text.translate(_ESCAPED)


def cleaned(item: Item) -> Item:
    """Apply `printable` to every string in nested dataclasses, tuples, lists and dicts."""
    made: Any = item
    if isinstance(item, Enum):
        return item
    if isinstance(item, str):
        made = printable(item)
    elif isinstance(item, tuple | list):
        made = type(item)(cleaned(entry) for entry in item)
    elif isinstance(item, dict):
        made = {cleaned(key): cleaned(entry) for key, entry in item.items()}
    elif is_dataclass(item) and not isinstance(item, type):
        made = replace(item, **{f.name: cleaned(getattr(item, f.name)) for f in fields(item)})
    return cast("Item", made)


def clip(text: str, limit: int) -> str:
    """Shorten `text` to `limit` characters and say how many were cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({count(len(text) - limit)} more characters)"


def count(number: int) -> str:
    """An integer with a comma between thousands."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """A counted noun: "1 check", "2 checks"."""
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def scientific(value: float, digits: int = 2) -> str:
    """A number with `digits` significant digits, as a power of ten when very small or large."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if -4 <= power < 6:
        return f"{value:.{max(digits - 1 - power, 0)}f}"
    tens = f"10{str(power).translate(SUPERSCRIPTS)}"
    return tens if value == float(f"1e{power}") else f"{mantissa}{TIMES}{tens}"


def value(item: Any) -> str:
    """A JSON value of a witness on one line; of a long list the first items and the length."""
    if isinstance(item, list | tuple):
        inner = ", ".join(value(entry) for entry in item[:SHOWN_ITEMS])
        rest = f", … {plural(len(item), 'value')}" if len(item) > SHOWN_ITEMS else ""
        return f"[{inner}{rest}]"
    if isinstance(item, dict):
        shown = list(item.items())[:SHOWN_ITEMS]
        inner = ", ".join(f"{key}: {value(entry)}" for key, entry in shown)
        rest = f", … {plural(len(item), 'entry')}" if len(item) > SHOWN_ITEMS else ""
        return f"{{{inner}{rest}}}"
    if isinstance(item, float):
        return f"{item:.9g}"
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
