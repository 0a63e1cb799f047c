"""Expected against drawn frequencies as inline SVG that follows the page's colours."""

import io
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aliquot.reports.results import SEVERITY, CheckResult, Frequencies, RunResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

MAX_PLOTS = 12
MAX_CELLS = 40
LABELLED_CELLS = 16
AXIS_CHARACTERS = 60
BAND = 3.0
"""Half width of the drawn band in standard errors of a cell's count; a guide for the eye, no test."""

# matplotlib knows no CSS variables: it draws in stand-in colours that are replaced in its output.
_INK, _QUIET, _EXPECTED, _BAND, _OUTSIDE = (f"#0101{code:02x}" for code in range(1, 6))
_VARIABLES = {
    _INK: "var(--ink)",
    _QUIET: "var(--quiet)",
    _EXPECTED: "var(--accent)",
    _BAND: "var(--band)",
    _OUTSIDE: "var(--fail)",
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.edgecolor": _QUIET,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "text.parse_math": False,
    "path.simplify": True,
}


def chosen(results: RunResults) -> list[CheckResult]:
    """At most `MAX_PLOTS` of the checks with frequencies: failures first, then one of each clause."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, int, CheckResult]] = []
    for check in results.checks:
        if check.frequencies:
            clause = check.clauses[0] if check.clauses else ""
            ranked.append((SEVERITY.index(check.verdict), seen[clause], len(ranked), check))
            seen[clause] += 1
    return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:3])[:MAX_PLOTS]]


def to_svg(frequencies: Frequencies, prefix: str) -> str:
    """Draw frequencies as an SVG element whose ids start with `prefix`, in CSS variables' colours.

    Above, the expected probability of each cell with a band of `BAND` standard errors and the drawn
    share; below, the difference in standard errors. More than `MAX_CELLS` cells: the smallest are
    drawn as one.
    """
    import matplotlib  # slow to load: only who draws pays

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"svg.hashsalt": "aliquot"})
        figure = _figure(_merged(frequencies))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), prefix)


def _merged(frequencies: Frequencies) -> Frequencies:
    if len(frequencies.labels) <= MAX_CELLS:
        return frequencies
    order = np.argsort(-np.asarray(frequencies.expected), kind="stable")
    kept, rest = np.sort(order[: MAX_CELLS - 1]).tolist(), order[MAX_CELLS - 1 :].tolist()
    return Frequencies(
        title=frequencies.title,
        labels=(*(frequencies.labels[i] for i in kept), f"{len(rest)} more"),
        expected=(
            *(frequencies.expected[i] for i in kept),
            sum(frequencies.expected[i] for i in rest),
        ),
        drawn=(*(frequencies.drawn[i] for i in kept), sum(frequencies.drawn[i] for i in rest)),
    )


def _standard_errors(expected: Floats, draws: int) -> Floats:
    """Standard error of each cell's drawn share, float64 [cells]; 0 for an impossible or sure cell."""
    inside = np.clip(expected, 0.0, 1.0)
    return np.sqrt(inside * (1.0 - inside) / max(draws, 1))


def _figure(frequencies: Frequencies) -> "Figure":
    from matplotlib.figure import Figure

    expected = np.asarray(frequencies.expected, dtype=np.float64)
    counts = np.asarray(frequencies.drawn, dtype=np.float64)
    drawn = counts / max(counts.sum(), 1.0)
    errors = _standard_errors(expected, int(counts.sum()))
    figure = Figure(figsize=(5.6, 3.1))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[2.4, 1])
    figure.subplots_adjust(left=0.115, right=0.99, top=0.98, bottom=0.17, hspace=0.14)
    figure.align_ylabels()
    _draw_shares(top, expected, drawn, errors)
    _draw_residuals(bottom, expected, drawn, errors)
    _label_cells(bottom, frequencies.labels)
    return figure


def _draw_shares(axes: "Axes", expected: Floats, drawn: Floats, errors: Floats) -> None:
    cells = np.arange(len(expected), dtype=np.float64)
    low = np.maximum(expected - BAND * errors, 0.0)
    high = np.minimum(expected + BAND * errors, 1.0)
    axes.add_collection(_band(cells, low, high))
    axes.hlines(expected, cells - 0.36, cells + 0.36, color=_EXPECTED, linewidth=1.5, clip_on=False)
    outside = (drawn < low) | (drawn > high)
    _dots(axes, cells, drawn, outside)
    axes.set_ylim(0.0, max(float(np.max(np.maximum(high, drawn), initial=0.0)), 1e-12) * 1.08)
    axes.set_ylabel("share of draws")


def _band(cells: Floats, low: Floats, high: Floats) -> "PolyCollection":
    from matplotlib.collections import PolyCollection

    left, right = cells - 0.36, cells + 0.36
    corners = np.stack([left, low, right, low, right, high, left, high], axis=1)
    return PolyCollection(
        list(corners.reshape(-1, 4, 2)), facecolor=_BAND, linewidth=0, clip_on=False
    )


def _draw_residuals(axes: "Axes", expected: Floats, drawn: Floats, errors: Floats) -> None:
    cells = np.arange(len(expected), dtype=np.float64)
    gap = drawn - expected
    scaled = np.divide(gap, errors, out=np.sign(gap) * 2 * BAND, where=errors > 0)
    limit = max(float(np.max(np.abs(scaled), initial=0.0)) * 1.15, BAND + 1.0)
    axes.axhspan(-BAND, BAND, color=_BAND, linewidth=0)
    axes.axhline(0.0, color=_EXPECTED, linewidth=1.0)
    outside = np.abs(scaled) > BAND
    for chosen_cells, colour in ((~outside, _INK), (outside, _OUTSIDE)):
        axes.vlines(
            cells[chosen_cells],
            0.0,
            scaled[chosen_cells],
            color=colour,
            linewidth=1.0,
            clip_on=False,
        )
    _dots(axes, cells, scaled, outside)
    axes.set_ylim(-limit, limit)
    axes.set_ylabel("std. errors")


def _dots(axes: "Axes", cells: Any, heights: Floats, outside: Any) -> None:
    for chosen_cells, colour in ((~outside, _INK), (outside, _OUTSIDE)):
        axes.plot(
            cells[chosen_cells],
            heights[chosen_cells],
            linestyle="none",
            marker="o",
            markersize=3.6,
            color=colour,
            markeredgewidth=0,
            clip_on=False,
        )


def _label_cells(axes: "Axes", labels: tuple[str, ...]) -> None:
    step = -(-len(labels) // LABELLED_CELLS) or 1
    shown = range(0, len(labels), step)
    short = [_clipped(labels[cell]) for cell in shown]
    crowded = sum(len(label) + 2 for label in short) > AXIS_CHARACTERS
    axes.set_xticks(
        list(shown), short, rotation=35 if crowded else 0, ha="right" if crowded else "center"
    )
    axes.tick_params(length=2.5)
    axes.set_xlim(-0.7, max(len(labels), 1) - 0.3)


def _clipped(label: str) -> str:
    """A cell's label on the axis, at most 12 characters."""
    return label if len(label) <= 12 else f"{label[:11]}…"


def _inline(svg: str, prefix: str) -> str:
    """Take the svg element out of matplotlib's file; make ids unique on the page, colours variables."""
    element = svg[svg.index("<svg") :]
    for pattern, replacement in _REWRITES:
        element = pattern.sub(replacement, element)
    element = _short_ids(element, prefix)
    element = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found.group()], element)
    return re.sub(r'="[^"]*"', _rounded, element).strip()


_REWRITES = tuple(
    (re.compile(pattern, re.S), replacement)
    for pattern, replacement in (
        (r"<metadata>.*?</metadata>", ""),
        (r"<style.*?</style>", ""),  # it would style the whole page; the page's own sheet has it
        (r'<svg[^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">'),
        (r"xlink:href", "href"),
        (r'font: ([\d.]+px)[^;"]*', r"font-size: \1"),
        (r"\s*\n\s*", " "),
        (r"<defs>\s*</defs>|<g ?/>", ""),
    )
)


def _short_ids(element: str, prefix: str) -> str:
    """Number the ids that are referred to, so that they are short and unique; drop the others."""
    used = list(dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]*)', element)))
    names = {name: f"{prefix}{number}" for number, name in enumerate(used)}
    element = re.sub(
        r'\sid="([^"]*)"',
        lambda found: f' id="{names[found[1]]}"' if found[1] in names else "",
        element,
    )
    return re.sub(
        r'(href="#|url\(#)([^")]*)', lambda found: f"{found[1]}{names[found[2]]}", element
    )


def _rounded(attribute: re.Match[str]) -> str:
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number.group()):.1f}", attribute.group())
