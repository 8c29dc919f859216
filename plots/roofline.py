"""Rooflines: every variant as a point under the bandwidth and the FMA rate of its machine.

Work is the algorithm's own minimum, whatever a variant really does: 2 n k d operations an iteration
(fuzzy c-means 4 n k d) and every point read once, so that the arithmetic intensity of k-means is
k/2 FLOP/byte in float32 and k/4 in float64. A variant that reads the data twice lies lower, not
further left. A point is what a variant reaches at best among the problems of that intensity.
Studies of threads, sizes, shapes, bounds and quality are left out, and so is a panel for one dot.
"""

from __future__ import annotations

from math import atan, degrees
from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Json
from style import FAMILIES, GRID, colour_of, family_of, legend_below, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Fewer threads than the machine has, or studies of many problems, which would bury the articles'.
LEFT_OUT = {"threads", "scaling", "cpu_shapes", "gpu_shapes", "gpu_borders", "bounds", "quality"}


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind: a panel for each machine whose probe is known."""
    best: dict[str, dict[tuple[str, str, float], dict[str, Any]]] = {}
    for cell in inputs.campaigns.cells:
        if cell.table in LEFT_OUT or not cell.shown:
            continue
        if cell.right and cell.gflops > 0 and cell.machine in inputs.campaigns.probes:
            here = best.setdefault(cell.machine, {})
            key = (cell.variant, cell.precision, round(cell.intensity, 6))
            if key not in here or cell.gflops > here[key]["gflops"]:
                here[key] = {"variant": cell.variant, "precision": cell.precision,
                             "algorithm": cell.algorithm, "intensity": key[2],
                             "gflops": cell.gflops}
    if not best:
        raise NothingToDraw("no verified cell whose ledger has a probe of its machine")
    most = max(len(here) for here in best.values())
    points = {machine: list(here.values()) for machine, here in best.items()
              if len(here) > 1 or most == 1}
    machines = [{"name": name, "roofs": roofs(inputs.campaigns.probes[name]), "points": found}
                for name, found in sorted(points.items(), key=lambda each: -len(each[1]))]
    return [Picture("roofline", "Rooflines", {"machines": machines}, draw)]


def roofs(probe: Json) -> dict[str, dict[str, float]]:
    """A machine's limits: bandwidths [GB/s] of the memory and of the fastest cache that was
    probed, and rates [GFLOP/s]."""
    sizes = probe["read_by_size"]
    found = {
        "bandwidths": {
            "memory": sizes[-1]["gbs"],
            "cache": max(each["gbs"] for each in sizes),
        },
        "rates": {"FMA f32": probe["fma_f32_gflops"], "FMA f64": probe["fma_f64_gflops"]},
    }
    for name, key in (("tensor TF32", "gemm_tf32_gflops"), ("tensor f16", "gemm_f16_gflops")):
        if key in probe:
            found["rates"][name] = probe[key]
    return found


def draw(data: dict[str, Any]) -> Figure:
    """One panel for each machine, below one another."""
    machines = data["machines"]
    figure = new_figure(3.5 * len(machines) + 0.5)
    grid = figure.subplots(len(machines), 1, squeeze=False)
    for (axes,), machine in zip(grid, machines):
        _draw_panel(axes, machine)
        axes.set_ylabel("GFLOP/s of the algorithm's minimum")
    grid[-1][0].set_xlabel("arithmetic intensity of the algorithm's minimum, FLOP/byte")
    _legend(figure, machines)
    return figure


def _draw_panel(axes: Axes, machine: dict[str, Any]) -> None:
    points, limits = machine["points"], machine["roofs"]
    low = min(point["intensity"] for point in points) / 2
    high = max(point["intensity"] for point in points) * 20  # room for the limits' names
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(min(point["gflops"] for point in points) / 2, max(limits["rates"].values()) * 3)
    _draw_roofs(axes, limits, low, high)
    for point in points:
        colour = colour_of(point["variant"])
        axes.plot(point["intensity"], point["gflops"], linestyle="none", markersize=5,
                  marker="D" if point["algorithm"] == "fcm" else "o", markeredgecolor=colour,
                  markeredgewidth=1.1, alpha=0.9,
                  markerfacecolor=colour if point["precision"] == "f32" else "white")
    for point in fastest(points):
        axes.annotate(short_name(point["variant"]), (point["intensity"], point["gflops"]), (2, 4),
                      textcoords="offset points", rotation=30, fontsize=7, color="#333333")
    axes.set_title(machine["name"])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(True, **GRID)


def fastest(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fastest float32 point at each intensity."""
    best: dict[float, dict[str, Any]] = {}
    for point in points:
        known = best.get(point["intensity"])
        if point["precision"] == "f32" and (known is None or point["gflops"] > known["gflops"]):
            best[point["intensity"]] = point
    return list(best.values())


def _draw_roofs(axes: Axes, limits: dict[str, dict[str, float]], low: float, high: float) -> None:
    line = {"color": "#555555", "linewidth": 1.1}
    for name, rate in limits["rates"].items():
        start = max(low, rate / max(limits["bandwidths"].values()))
        axes.plot([start, high], [rate, rate], linestyle="--" if "tensor" in name else "-", **line)
        axes.annotate(f"{name}, {rate / 1e3:,.3g} TFLOP/s", (high, rate), (-2, 2), fontsize=7,
                      textcoords="offset points", ha="right", color="#333333")
    top = max(limits["rates"].values())
    for name, gbs in limits["bandwidths"].items():
        end = min(high, top / gbs)
        axes.plot([low, end], [low * gbs, end * gbs], linestyle="-", **line)
        axes.text(low * 1.06, low * gbs * 1.25, f"{name}, {gbs:,.0f} GB/s", fontsize=7,
                  color="#333333", rotation=degrees(atan(gbs)), rotation_mode="anchor",
                  transform_rotates_text=True)


def _legend(figure: Figure, machines: list[dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    used = {family_of(point["variant"]) for machine in machines for point in machine["points"]}
    handles = [Line2D([], [], linestyle="none", marker="s", color=colour, label=family)
               for family, colour in FAMILIES.items() if family in used]
    for label, mark, face in (("k-means f32", "o", "#444444"), ("f64 (open)", "o", "white"),
                              ("fuzzy c-means", "D", "#444444")):
        handles.append(Line2D([], [], linestyle="none", marker=mark, markeredgecolor="#444444",
                              markerfacecolor=face, label=label))
    legend_below(figure, handles, 6)
