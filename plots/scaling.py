"""How the time of an iteration grows with n, d and k, with the model bound drawn.

The table `scaling` varies one size at a time and names its problems after it, such as n=1e5. Each
machine has a row of panels, because each has its own bound. Times are milliseconds an iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, cell_order, excluded
from style import GRID, legend_below, marks_of, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "scaling"
BAND = "#DCD3F2"  # behind the fastest at each size; no family has it
SIZES = {"n": "number of points n", "d": "dimensions d", "k": "clusters k"}


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind."""
    cells = inputs.campaigns.of_table(TABLE)
    right = [cell for cell in cells if cell.right]
    if not right:
        raise NothingToDraw(f"no verified cell of the table {TABLE}; "
                            "scripts/reference_run.sh makes them")
    order = cell_order(inputs.definitions.get(TABLE, {"rows": []}))
    machines = [
        {"name": machine, "fixed": _fixed_sizes(right), "panels": panels(right, machine, order)}
        for machine in sorted({cell.machine for cell in right}, key=_gpu_first(right))
    ]
    notes = tuple(excluded(cell for cell in cells if cell.status != "unavailable"))
    return [Picture("scaling", "Time of an iteration as n, d and k grow",
                    {"machines": machines}, draw, notes)]


def _gpu_first(cells: list[Cell]) -> Any:
    devices = {cell.machine: cell.device for cell in cells}
    return lambda machine: (devices[machine] != "gpu", machine)


def _fixed_sizes(cells: list[Cell]) -> dict[str, str]:
    """What stays the same where a size is varied: {"n": "d = 16, k = 16", ...}."""
    fixed = {}
    for size in SIZES:
        varied = [cell for cell in cells if cell.problem.startswith(f"{size}=")]
        fixed[size] = ", ".join(
            f"{other} = {getattr(varied[0], other):,}" for other in SIZES if other != size
        ) if varied else ""
    return fixed


def panels(cells: list[Cell], machine: str, order: dict[tuple[str, str], int]) -> dict[str, Any]:
    """For each varied size: a line of (size, ms per iteration) for each variant in the order of
    the table, and the line of the bound."""
    found: dict[str, Any] = {}
    for size in SIZES:
        lines: dict[str, list[tuple[int, float]]] = {}
        limit: dict[int, float] = {}
        here = [cell for cell in cells
                if cell.machine == machine and cell.problem.startswith(f"{size}=")]
        here.sort(key=lambda cell: (order.get((cell.variant, cell.precision), 1000), cell.variant))
        for cell in here:
            x = getattr(cell, size)
            lines.setdefault(cell.variant, []).append((x, cell.ms_per_iteration))
            if cell.limit is not None:
                limit[x] = cell.limit.ms
        found[size] = {"lines": {name: sorted(points) for name, points in lines.items()},
                       "limit": sorted(limit.items())}
    return found


def fastest(lines: dict[str, list[tuple[int, float]]]) -> list[tuple[int, float]]:
    """The least ms per iteration of any variant at each size."""
    best: dict[int, float] = {}
    for size, ms in (point for points in lines.values() for point in points):
        best[size] = min(ms, best.get(size, ms))
    return sorted(best.items())


def draw(data: dict[str, Any]) -> Figure:
    """A row of three panels for each machine, one legend."""
    machines = data["machines"]
    names = list(dict.fromkeys(name for machine in machines
                               for panel in machine["panels"].values() for name in panel["lines"]))
    marks = marks_of(names)
    columns = 4
    figure = new_figure(3.3 * len(machines) + 0.18 * (-(-(len(names) + 2) // columns)) + 0.1)
    grid = figure.subplots(len(machines), len(SIZES), squeeze=False, sharey="row")
    for row, machine in zip(grid, machines):
        for axes, (size, label) in zip(row, SIZES.items()):
            _draw_panel(axes, machine["panels"][size], marks)
            axes.set_xlabel(label)
            axes.set_title(machine["fixed"][size], fontsize=8.5, fontweight="normal")
        row[0].set_ylim(*_range(machine["panels"].values()))
        row[0].set_ylabel(f"ms per iteration\n{machine['name']}")
    _legend(figure, names, marks, columns)
    return figure


def _range(panels_here: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """Least and most ms of an axis: all lines, and of the bound what lies not too far below."""
    times, bounds = [], []
    for panel in panels_here:
        times += [ms for points in panel["lines"].values() for _, ms in points]
        bounds += [ms for _, ms in panel["limit"]]
    return max(min([*times, *bounds]), min(times) / 20) / 1.6, max([*times, *bounds]) * 1.6


def _draw_panel(axes: Axes, panel: dict[str, Any], marks: dict[str, dict[str, Any]]) -> None:
    axes.plot(*zip(*fastest(panel["lines"])), color=BAND, linewidth=8,
              solid_capstyle="round", zorder=1)
    for name, points in panel["lines"].items():
        axes.plot(*zip(*points), **marks[name])
    if panel["limit"]:
        axes.plot(*zip(*panel["limit"]), color="black", linewidth=2.2)
        axes.fill_between(*zip(*panel["limit"]), 1e-9, color="black", alpha=0.06, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(True, **GRID)


def _legend(figure: Figure, names: list[str], marks: dict[str, dict[str, Any]],
            columns: int) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **marks[name], label=short_name(name)) for name in names]
    handles.append(Line2D([], [], color=BAND, linewidth=8,
                          label="fastest of them"))
    handles.append(Line2D([], [], color="black", linewidth=2.2, label="model bound"))
    legend_below(figure, handles, columns)
