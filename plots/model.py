"""How far several GPUs scale: what the model predicts, and what was measured of it.

Left, the efficiency of four workloads on 1 to 1024 GPUs. Beyond the dashed line GPUs are in more
than one host, and the exchange between hosts rests on assumed figures. Right, cells of several GPUs
or ranks that reference runs hold: a ring is the predicted efficiency, a dot the measured one. The
page of the scaling model has formula, inputs and times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from style import FAMILIES, GRID, LINES, MARKS, colour_of, legend_below, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Lines are workloads and no variants: colours of families that compute on no GPU.
COLOURS = [FAMILIES[name] for name in ("simd", "eigen", "openmp", "cublas")]


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind."""
    if inputs.model is None:
        raise NothingToDraw("`--model` names no output of scripts/scaling_model.py --json")
    return [Picture("scaling-model", "Efficiency of several GPUs, predicted and measured",
                    inputs.model, draw)]


def draw(data: dict[str, Any]) -> Figure:
    """The curves, and beside them what was measured."""
    figure = new_figure(3.6)
    curves, measured = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_curves(curves, data)
    _draw_measured(measured, data["compared"])
    legend_below(figure, curves.get_legend_handles_labels()[0], len(COLOURS))
    return figure


def _draw_curves(axes: Axes, data: dict[str, Any]) -> None:
    for number, workload in enumerate(data["workloads"]):
        axes.plot([gpus for gpus, _ in workload["points"]], [100 * share for _, share in workload["points"]],
                  color=COLOURS[number % len(COLOURS)], marker=MARKS[number % len(MARKS)],
                  linestyle=LINES[number % len(LINES)], linewidth=1.3, markersize=4.5,
                  label=workload["title"])
    counts = [gpus for gpus, _ in data["workloads"][0]["points"]]
    axes.axvline(data["gpus_per_node"], color="#7F7F7F", linestyle="--", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_ylim(0, 105)
    axes.set_xlabel("GPUs")
    axes.set_ylabel("efficiency, %")
    axes.set_title("Predicted")
    axes.grid(True, **GRID)


def _draw_measured(axes: Axes, compared: list[dict[str, Any]]) -> None:
    shown = [each for each in compared if each["efficiency"] is not None]
    names = [f"{short_name(each['variant'])}, {each['parts']} {each['of']}\n{each['problem']}" for each in shown]
    for place, each in enumerate(shown):
        colour = colour_of(each["variant"])
        both = [100 * each["predicted_efficiency"], 100 * each["efficiency"]]
        axes.plot(both, [place, place], color=colour, linewidth=1)
        axes.plot(both[0], place, marker="o", markersize=7, markerfacecolor="white", color=colour)
        axes.plot(both[1], place, marker="o", markersize=5, color=colour)
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 110)
    axes.set_xlabel("efficiency, %")
    axes.set_title("Measured (dot) and predicted (ring)")
    axes.grid(True, axis="x", **GRID)
