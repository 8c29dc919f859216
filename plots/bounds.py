"""How many times longer than its model bound an iteration takes, on each machine.

A row is a problem of the articles' tables. A dot is a variant with right answers in float32. The
best of each row is named at its right. The model bound is the least time that a pass over all
points and centroids can take by a model of the machine, at rates that were probed on it. A variant
that proves that most distances cannot matter does not compute them, and may pass the bound: it then
lies left of the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell
from style import FAMILIES, GRID, colour_of, family_of, legend_below, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRECISION = "f32"
ROW = 0.3  # inches


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind: a panel for each machine whose probe is known."""
    machines: dict[str, list[Cell]] = {}
    for name in inputs.definitions:
        if name.startswith("article"):
            for cell in inputs.campaigns.of_table(name):
                if cell.right and cell.limit is not None and cell.precision == PRECISION:
                    machines.setdefault(cell.machine, []).append(cell)
    if not machines:
        raise NothingToDraw("no verified cell of an article's table whose ledger has a probe of its machine")
    most = max(len(cells) for cells in machines.values())
    data = [{"name": name, "rows": rows(cells)}
            for name, cells in sorted(machines.items(), key=lambda each: -len(each[1]))
            if len(cells) > 1 or most == 1]  # a panel for one dot says nothing
    return [Picture("bounds", "Time of an iteration against its model bound", {"machines": data}, draw)]


def rows(cells: list[Cell]) -> list[dict[str, Any]]:
    """The problems by table and size, each with its variants, the best first. Problems that differ in
    the number of iterations alone are one: an iteration of either is the same work."""
    found: dict[tuple[str, int, int, int], dict[str, Any]] = {}
    for cell in cells:
        assert cell.limit is not None
        row = found.setdefault((cell.table, cell.n, cell.d, cell.k),
                               {"table": cell.table, "n": cell.n, "d": cell.d, "k": cell.k, "times": {}})
        ratio = cell.ms_per_iteration / cell.limit.ms
        row["times"][cell.variant] = min(ratio, row["times"].get(cell.variant, ratio))
    for row in found.values():
        row["times"] = sorted(row["times"].items(), key=lambda each: (each[1], each[0]))
    return [found[key] for key in sorted(found)]


def times_text(value: float) -> str:
    """Two digits: 1.2, 26, 17,000."""
    return f"{value:.2g}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"


def title_of(row: dict[str, Any]) -> str:
    """004: 100,000 × 2, k = 5."""
    return f"{row['table'].removeprefix('article')}: {row['n']:,} × {row['d']}, k = {row['k']}"


def draw(data: dict[str, Any]) -> Figure:
    """The machines below one another, on one axis."""
    machines = data["machines"]
    counts = [len(machine["rows"]) for machine in machines]
    figure = new_figure(ROW * sum(counts) + 0.55 * len(machines) + 0.75)
    grid = figure.subplots(len(machines), 1, squeeze=False, sharex=True,
                           gridspec_kw={"height_ratios": counts})
    every = [ratio for machine in machines for row in machine["rows"] for _, ratio in row["times"]]
    for (axes,), machine in zip(grid, machines):
        _draw_panel(axes, machine)
    grid[0][0].set_xscale("log")
    grid[0][0].set_xlim(min(0.7, *every) / 1.3 if len(every) > 1 else 0.5, max(every) * 1.4)
    grid[-1][0].xaxis.set_major_formatter("{x:,g}")
    grid[-1][0].set_xlabel("ms per iteration over the model bound")
    _legend(figure, machines)
    return figure


def _draw_panel(axes: Axes, machine: dict[str, Any]) -> None:
    axes.axvline(1.0, color="black", linewidth=1.6)
    for place, row in enumerate(machine["rows"]):
        for variant, ratio in reversed(row["times"]):  # the best lies on top
            axes.plot(ratio, place, linestyle="none", marker="o", markersize=7, markeredgewidth=0.7,
                      color=colour_of(variant), markeredgecolor="white", clip_on=False)
        variant, ratio = row["times"][0]
        axes.annotate(f"{short_name(variant)}, {times_text(ratio)} ×", (1.01, place), va="center", fontsize=8,
                      xycoords=("axes fraction", "data"), color="#333333", annotation_clip=False)
    axes.set_yticks(range(len(machine["rows"])), [title_of(row) for row in machine["rows"]])
    axes.set_ylim(len(machine["rows"]) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_title(machine["name"])
    axes.grid(True, **GRID)
    axes.spines["left"].set_visible(False)


def _legend(figure: Figure, machines: list[dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    used = {family_of(variant) for machine in machines for row in machine["rows"] for variant, _ in row["times"]}
    handles = [Line2D([], [], linestyle="none", marker="o", markersize=7, color=colour, label=family)
               for family, colour in FAMILIES.items() if family in used]
    handles.append(Line2D([], [], color="black", linewidth=1.6, label="model bound"))
    legend_below(figure, handles, min(10, len(handles)))
