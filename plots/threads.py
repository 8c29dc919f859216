"""Strong scaling: how many times faster is the same work with more threads?

Speed-up is the time of an iteration with one thread divided by that with T threads, of the same
variant and problem. It is the median of the ratios within each round, because the machine drifts
from round to round. A variant below the diagonal is bound by memory, by what it does serially, or
by waiting.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, cell_order, excluded
from style import GRID, legend_below, marks_of, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "threads"


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind."""
    cells = inputs.campaigns.of_table(TABLE, all_threads=True)
    definition = inputs.definitions.get(TABLE, {"rows": [], "problems": []})
    found = panels([cell for cell in cells if cell.right], definition)
    if not found:
        raise NothingToDraw(f"no verified cell of the table {TABLE} with one thread and with more; "
                            "scripts/thread_scaling.sh makes them")
    notes = tuple(excluded(cell for cell in cells if cell.status != "unavailable"))
    return [Picture("threads", "Thread scaling", {"panels": found}, draw, notes)]


def panels(cells: list[Cell], definition: dict[str, Any]) -> list[dict[str, Any]]:
    """For each problem the lines of (threads, ms per iteration, speed-up) of its variants."""
    order = cell_order(definition)
    problems = list(dict.fromkeys([each["id"] for each in definition["problems"]]
                                  + [cell.problem for cell in cells]))
    found = []
    for problem in problems:
        lines: dict[str, list[list[float]]] = {}
        here = [cell for cell in cells if cell.problem == problem]
        here.sort(key=lambda cell: (order.get((cell.variant, cell.precision), 1000), cell.threads))
        one = {cell.variant: cell for cell in here if cell.threads == 1}
        for cell in here:
            if cell.variant in one and (gain := speed_up(one[cell.variant], cell)):
                lines.setdefault(cell.variant, []).append(
                    [cell.threads, cell.ms_per_iteration, gain])
        lines = {variant: points for variant, points in lines.items() if len(points) > 1}
        if lines:
            machine = here[0].machine.split(",")[0]
            found.append({"problem": problem, "machine": machine, "lines": lines})
    return found


def speed_up(one: Cell, more: Cell) -> float | None:
    """How many times faster `more` is, by the rounds that both have; None without any."""
    ratios = [one.by_round[number] / ms for number, ms in more.by_round.items()
              if number in one.by_round]
    return median(ratios) if ratios else None


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each problem, side by side."""
    found = data["panels"]
    names = list(dict.fromkeys(name for panel in found for name in panel["lines"]))
    marks = marks_of(names)
    figure = new_figure(3.2)
    grid = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for axes, panel in zip(grid, found):
        _draw_panel(axes, panel, marks)
    grid[0].set_ylabel(f"times faster than one thread\n{found[0]['machine']}")
    _legend(figure, names, marks)
    return figure


def _draw_panel(axes: Axes, panel: dict[str, Any], marks: dict[str, dict[str, Any]]) -> None:
    most = max(points[-1][0] for points in panel["lines"].values())
    axes.plot([1, most], [1, most], color="black", linewidth=2.2)
    for name, points in panel["lines"].items():
        axes.plot([point[0] for point in points], [point[2] for point in points], **marks[name])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    counts = sorted({int(point[0]) for points in panel["lines"].values() for point in points})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.set_xlabel("threads")
    axes.set_title(panel["problem"])
    axes.grid(True, **GRID)


def _legend(figure: Figure, names: list[str], marks: dict[str, dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **marks[name], label=short_name(name)) for name in names]
    handles.append(Line2D([], [], color="black", linewidth=2.2, label="T times with T threads"))
    legend_below(figure, handles, 5)
