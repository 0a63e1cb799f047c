"""The benchmark's table and plots from its JSON: `python benchmarks/sampler_report.py docs/benchmark/vllm-0.32.0`."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OURS = "aliquot"
AXES = {
    "n": "rows n",
    "V": "vocabulary V",
    "k": "top-k alone",
    "p": "top-p alone, 1 - p",
}


def table(report: dict[str, Any]) -> str:
    """Markdown: one table for each input, times in ms and how many times ours."""
    lines = [_conditions(report["environment"])]
    inputs = dict.fromkeys(result["input"] for result in report["results"])
    for name in inputs:
        results = [result for result in report["results"] if result["input"] == name]
        others = list(
            dict.fromkeys(o for result in results for o in result["median_ms"] if o != OURS)
        )
        head = ["case", f"{OURS} ms", *others, "of one read", "extra memory"]
        lines += ["", f"## {name}", "", _row(head), _row(["---"] * len(head))]
        lines += [_row(_cells(result, others)) for result in results]
    return "\n".join(lines) + "\n"


def _conditions(environment: dict[str, Any]) -> str:
    about = ", ".join(f"{key} {value}" for key, value in environment.items())
    return (
        "# Sampler benchmark\n\nMedians of interleaved runs in one process; other samplers as ms and as a multiple"
        f" of ours.\n*Of one read*: our time over that of one `amax` of the logits. *Extra memory*: peak of torch's"
        f" allocations in a step, in units of the logits.\n\n{about}"
    )


def _cells(result: dict[str, Any], others: list[str]) -> list[str]:
    medians = result["median_ms"]
    ours = medians[OURS]
    compared = [
        f"{medians[o]:.2f} ({medians[o] / ours:.1f}x)" if o in medians else "" for o in others
    ]
    read, memory = ours / result["floor_ms"], result["extra_memory"]
    return [result["case"], f"{ours:.2f}", *compared, f"{read:.1f}x", f"{memory:.2f}"]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def plot_cases(report: dict[str, Any], path: Path) -> None:
    """Times of all samplers, one panel for each input, logarithmic."""
    inputs = list(dict.fromkeys(result["input"] for result in report["results"]))
    figure, axes = plt.subplots(1, len(inputs), figsize=(12, 6), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], inputs, strict=True):
        results = [r for r in report["results"] if r["input"] == name]
        makers = dict.fromkeys(maker for r in results for maker in r["median_ms"])
        for shift, maker in enumerate(makers):
            places = [i + 0.2 * shift for i, r in enumerate(results) if maker in r["median_ms"]]
            times = [r["median_ms"][maker] for r in results if maker in r["median_ms"]]
            axis.barh(places, times, height=0.19, label=maker)
        axis.set(xscale="log", xlabel="ms", title=name)
        axis.set_yticks([i + 0.3 for i in range(len(results))], [r["case"] for r in results])
    axes[0][0].invert_yaxis()
    axes[0][0].legend(fontsize="small", ncols=4, loc="lower left", bbox_to_anchor=(0, 1.08))
    _save(figure, path)


def plot_growth(report: dict[str, Any], path: Path) -> None:
    """Our time as n, V, k and p grow."""
    figure, axes = plt.subplots(1, len(AXES), figsize=(12, 3.2))
    for axis, (name, label) in zip(axes, AXES.items(), strict=True):
        points = [point for point in report["growth"] if point["axis"] == name]
        values = [1 - p["value"] if name == "p" else p["value"] for p in points]
        axis.plot(values, [p["median_ms"] for p in points], marker="o")
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="ms")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def write(report: dict[str, Any], folder: Path) -> None:
    """Write table and plots into `folder`."""
    plt.rcParams["svg.hashsalt"] = "aliquot"
    (folder / "sampler.md").write_text(table(report))
    plot_cases(report, folder / "sampler_cases.svg")
    plot_growth(report, folder / "sampler_growth.svg")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write(json.loads((folder / "sampler.json").read_text()), folder)
