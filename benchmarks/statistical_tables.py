"""Write the result tables of docs/statistics.md and the plots beside them from the result files."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
from statistical_common import RESULTS, RUN_ALPHA

from aliquot.statistical.power import plan

PAGE = RESULTS.parent / "statistics.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
LARGE_ROW = "N(0,1), V = 128,256"
PLANNED = (0.04, 0.01, 0.001)
STYLE = {
    "svg.hashsalt": "aliquot",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
Row = dict[str, Any]


def load(name: str) -> Row:
    """Content of a result file."""
    content: Row = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def rows_of(name: str, kind: str | None = None) -> list[Row]:
    """Result rows of a file, of one kind if given."""
    return [row for row in load(name)["results"] if kind is None or row["kind"] == kind]


def number(value: Any) -> str:
    """Number for a table: thousands separated, small ones to three digits, None as never."""
    if value is None:
        return "never"
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def percent(value: float) -> str:
    """Share as a percentage."""
    return f"{100 * value:.0f} %"


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Markdown table; numbers are set to the right."""
    marks = ["---:" if isinstance(cell, int | float | None) else "---" for cell in rows[0]]
    lines = [list(heads), marks] + [[number(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def provenance(*names: str) -> str:
    """Command, seed, machine and versions of result files."""
    lines = []
    for name in names:
        content = load(name)
        machine = content["machine"]
        versions = ", ".join(f"{key} {value}" for key, value in machine["versions"].items())
        lines.append(
            f"`{content['command']}`, seed {content['seed']}, {content['seconds']:,.0f} s on "
            f"{machine['processor']}, {machine['cores']} cores; {versions}."
        )
    return "\n".join(lines)


def replay_section() -> str:
    """Draws that replay needs, and the null."""
    found = [
        (
            *(row[key] for key in ("row", "fault", "tv", "mismatches", "draws_tried", "draws_99")),
            f"± {row['draws_99'] / math.sqrt(row['mismatches']):,.0f}",
        )
        for row in rows_of("replay", "detection")
    ]
    heads = ("row", "fault", "TV", "mismatches", "of draws", "draws for 99 %", "standard error")
    keys = ("draws", "agree", "rounding", "mismatches")
    nulls = rows_of("replay_null")
    large = [row for row in nulls if row["row"] == LARGE_ROW]
    groups = {
        LARGE_ROW: large,
        f"{len(nulls) - len(large)} rows of the corpus": [row for row in nulls if row not in large],
        "all": nulls,
    }
    sums = [(name, *(sum(row[k] for row in rows) for k in keys)) for name, rows in groups.items()]
    parts = ["### Replay", table(heads, found), "torch's own float32 exponential race, correct:"]
    parts += [table(("row", *keys), sums), provenance("replay", "replay_null")]
    return "\n\n".join(parts)


def blackbox_section() -> str:
    """Medians of the black-box tests."""
    heads = ("test", "row", "fault", "median draws", "least", "most", "to reach", "named right")
    found = [
        (
            *(row.get(key, "") for key in ("kind", "row", "fault")),
            *(row[key] for key in ("median", "least", "most")),
            number(row["target"]) if row.get("target") and "real" not in row.get("row", "") else "",
            f"{row['named_right']} of {row['runs']}" if "named_right" in row else "",
        )
        for row in rows_of("blackbox") + rows_of("two_sample")
    ]
    notes = (
        "Two-sample draws are counted for each of the two samples (a pilot is one million more "
        "draws of the reference, which rank the tail of a large vocabulary poorly); independence "
        "draws over all rows of the batch (where pairs share: pairs); tail draws over all five "
        "gaps. A source with 32 bits is as good as float64 at these gaps in so few draws."
    )
    parts = ["### Black box, alpha = 1e-6", "![Draws until found](statistics/blackbox.svg)"]
    parts += [table(heads, found), notes, provenance("blackbox", "two_sample")]
    return "\n\n".join(parts)


def null_section() -> str:
    """False alarms."""
    runs, processes = rows_of("null", "complete runs")[0], rows_of("null", "e-processes")[0]
    peaks = [(name, float(log_e)) for name, log_e in runs["largest_log10_e"].items()]
    p_heads = ("test", "cells", "draws", "tables", "KS p-value", "below 1e-3")
    keys = ("test", "vocab", "draws", "tables", "ks_p", "below_1e_3")
    return "\n\n".join(
        [
            "### False alarms",
            f"{runs['runs']:,} complete runs of {runs['draws_a_test']:,} draws a test at alpha = "
            f"{runs['alpha']:g}: {runs['red']} red, {runs['replay_mismatches']} replay mismatches in "
            f"{runs['replay_draws']:,} draws. Largest e-value of any run, as a power of ten "
            "(a test rejects at 6.85):",
            table(("test", "log10 e"), peaks),
            f"{processes['processes']:,} null e-processes at alpha = {processes['alpha']:g}, looked at "
            f"{processes['looks']} times: {processes['crossed']} crossed (at most "
            f"{processes['expected_at_most']:g} expected); mean of the last e-values "
            f"{processes['mean_e']:.3f} (standard error {processes['sd_of_mean']:.3f}).",
            table(p_heads, [[row[key] for key in keys] for row in rows_of("null", "p-values")]),
            provenance("null"),
        ]
    )


def complete_section() -> str:
    """Complete runs of the suites on right samplers."""
    found = load("complete_runs")
    heads = ("backend", "tier", "complete runs, one seed each", "checks judged", "red runs")
    keys = ("backend", "tier", "runs", "checks judged", "red runs")
    return "\n\n".join(
        [
            "### Complete runs on right samplers",
            table(heads, [[row[key] for key in keys] for row in found["summary"]]),
            "`python benchmarks/complete_runs.py`, which goes on where it was interrupted; "
            + ", ".join(f"{name} {told}" for name, told in found["environment"].items())
            + ".",
        ]
    )


def power_section() -> str:
    """Stated effects against simulation."""
    heads = ("test", "cells", "draws", "stated effect", "power there", "measured / stated")
    keys = ("test", "cells", "draws", "stated_effect", "power_at_stated", "measured_over_stated")
    return "\n\n".join(
        [
            "### Stated minimum detectable effects",
            "![Power around the stated effect](statistics/power.svg)",
            table(heads, [[row[key] for key in keys] for row in rows_of("power")]),
            "Measured is the effect that 99 % of the simulated runs found. The effect of the tail test "
            "is the fraction of the hits lost, of the support test the forbidden mass, of the others a "
            "total variation.",
            provenance("power"),
        ]
    )


def plan_section() -> str:
    """Draws planned for three effects."""
    plans = [plan(effect, RUN_ALPHA) for effect in PLANNED]
    needs = {step.test: step.needs for step in plans[0].steps}
    draws = [{step.test: step.draws for step in made.steps} for made in plans]
    heads = ("test", *(f"draws for {effect:g}" for effect in PLANNED), "needs")
    rows = [(test, *(by_test[test] for by_test in draws), needs[test]) for test in needs]
    return "\n\n".join(["### Plans at alpha = 1e-6, power 99 %", table(heads, rows)])


def weak_section() -> str:
    """Customary rules beside ours."""
    heads = (
        "row",
        "fault",
        "TV",
        "replay, at most",
        "e-process",
        "chi-square 10 sigma",
        "cosine 0.99 escapes",
        "TV < 0.05 escapes",
        "tolerance 1e-3 escapes",
    )
    found = [
        (
            row["row"],
            row["fault"],
            row["tv"],
            row["replay_draws"],
            row["ours_draws"],
            row["ten_sigma_draws"],
            percent(row["cosine_escapes"]),
            percent(row["tv_escapes"]),
            percent(row["tolerance_escapes"]),
        )
        for row in rows_of("weak", "rules")
    ]
    alarms = [
        (row["row"], percent(row["cosine_false_alarms"]), percent(row["tv_false_alarms"]))
        for row in rows_of("weak", "null")
    ]
    zeros = rows_of("weak", "zeros")[0]
    counts = [
        (row["fault"], percent(row["count_escapes"]), row["ours_draws"])
        for row in rows_of("weak", "count")
    ]
    return "\n\n".join(
        [
            "### Customary verdict rules on the same faults",
            "![Draws needed by each rule](statistics/weak.svg)",
            table(heads, found),
            "Draws are medians; escapes are the share of runs in which a fault passes. A rule that "
            "is red for a correct sampler too has no use there, whatever it catches:",
            table(
                ("row", "cosine red on a correct sampler", "TV red on a correct sampler"), alarms
            ),
            f"A kernel that returns zeros passes the tolerance rule in {zeros['tolerance_escapes']} of "
            f"{zeros['cases']} cases at V >= 32,000, and {zeros['ours_escapes']} as a law here.",
            table(("fault", "count of kept tokens escapes", "draws of the support test"), counts),
            provenance("weak"),
        ]
    )


def speed_section() -> str:
    """Time of a million draws."""
    rows = [(row["part"], row["draws"], row["vocab"], row["seconds"]) for row in rows_of("speed")]
    heads = ("part", "draws", "vocabulary", "seconds, best of five")
    return "\n\n".join(["### Speed", table(heads, rows), provenance("speed")])


def save(figure: Any, name: str) -> None:
    """Write a plot with the same bytes on every run."""
    figure.tight_layout()
    path = RESULTS / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")
    plt.close(figure)


def plot_weak() -> None:
    """Draws needed on the large row, by rule; escapes are written out."""
    rows = [row for row in rows_of("weak", "rules") if row["row"] == LARGE_ROW][::-1]
    rules = (
        ("ten_sigma_draws", "chi-square, 10 sigma", "#b8b8b8"),
        ("ours_draws", "e-process, alpha = 1e-6", "#1f6f8b"),
        ("replay_draws", "replay, at most", "#e07a1f"),
    )
    figure, axes = plt.subplots(figsize=(7.5, 4.5))
    for offset, (key, label, color) in enumerate(rules):
        places = [place + (offset - 1) * 0.27 for place in range(len(rows))]
        axes.barh(places, [row[key] or 0 for row in rows], 0.25, label=label, color=color)
    for place, row in enumerate(rows):
        passed = [name for name in ("cosine", "tolerance") if row[f"{name}_escapes"] > 0.5]
        if passed:
            axes.annotate(
                f"passes {', '.join(passed)}",
                (1.02, place),
                va="center",
                xycoords=("axes fraction", "data"),
                fontsize=7,
            )
    axes.set_yticks(range(len(rows)), [row["fault"] for row in rows])
    axes.set_xscale("log")
    axes.set_xlabel(f"draws needed, {LARGE_ROW}")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=3)
    save(figure, "weak")


def plot_blackbox() -> None:
    """Median, least and most draws of the known-law e-process on each row, with the targets."""
    rows = rows_of("blackbox", "known law")
    faults = list(dict.fromkeys(row["fault"] for row in rows))
    names = list(dict.fromkeys(row["row"] for row in rows))
    figure, axes = plt.subplots(figsize=(7.5, 4))
    for offset, name in enumerate(names):
        found = [row for row in rows if row["row"] == name and row["median"] and row["most"]]
        places = [faults.index(row["fault"]) + (offset - 1.5) * 0.18 for row in found]
        spread = [
            [row["median"] - row["least"] for row in found],
            [row["most"] - row["median"] for row in found],
        ]
        axes.errorbar(
            places,
            [row["median"] for row in found],
            yerr=spread,
            fmt="o",
            ms=4,
            capsize=2,
            label=name,
        )
    targets = {row["fault"]: row["target"] for row in rows if row["target"]}
    for fault, target in targets.items():
        place = faults.index(fault)
        axes.hlines(target, place - 0.4, place + 0.4, color="black", lw=1, ls=":")
    axes.set_xticks(range(len(faults)), faults)
    axes.set_yscale("log")
    axes.set_ylabel("draws until e >= 1e6")
    axes.legend(frameon=False, fontsize=7, title="dotted: to reach on N(0,1)", title_fontsize=7)
    save(figure, "blackbox")


def plot_power() -> None:
    """Simulated power at multiples of the stated effect."""
    figure, axes = plt.subplots(figsize=(7.5, 4))
    for row in rows_of("power"):
        points = sorted((float(multiple), rate) for multiple, rate in row["power_at"].items())
        label = f"{row['test']}, {row['cells']} cells, {row['draws']:,} draws"
        axes.plot(*zip(*points, strict=True), marker=".", lw=1, label=label)
    axes.axvspan(0.8, 1.2, color="#eeeeee", zorder=0)
    axes.axhline(0.99, color="black", lw=0.8, ls=":")
    axes.set_xlabel("effect / stated effect")
    axes.set_ylabel("power, alpha = 1e-6")
    axes.legend(frameon=False, fontsize=6.5)
    save(figure, "power")


SECTIONS: tuple[Callable[[], str], ...] = (
    replay_section,
    blackbox_section,
    null_section,
    complete_section,
    power_section,
    plan_section,
    weak_section,
    speed_section,
)


def update(page: Path) -> None:
    """Replace what stands between the markers of the page."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    results = "\n\n".join(section() for section in SECTIONS)
    page.write_text(f"{before}{BEGIN}\n\n{results}\n\n{END}{after}")


if __name__ == "__main__":
    plt.rcParams.update(STYLE)
    for plot in (plot_weak, plot_blackbox, plot_power):
        plot()
    update(PAGE)
