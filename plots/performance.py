"""Performance profiles of time to quality, after Dolan and More (2002).

A line shows for how many instances a variant needs at most so many times the time of the fastest
one on its machine. It starts at the share of instances on which the variant is the fastest, and
ends at the share that it solves at all. A variant that approximates, re-seeds or stops short shows
it here, and not in its time per iteration.

Quality is reached in the first pass whose inertia is within 1 % (left) or 0.1 % (right) of the best
known. From a report of `clusterbench quality` an instance is a problem with one initial state, and
the time is that of a whole answer with the passes until then. Many starts end in worse minima and
never get there. Without a report an instance is a problem of the table `scaling`, and the time is
the number of passes times the ms per iteration, both from the problem's own start. The picture is
drawn only where a variant reaches the quality on at least half of the instances. Otherwise it would
show how hard they are, and not the variants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, Json, cell_order
from style import GRID, legend_below, marks_of, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "scaling"
WITHIN = (0.01, 0.001)  # of the smallest inertia known
LEAST_SHARE = 0.5  # that one variant must reach


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind: a row for each machine with at least two variants."""
    if inputs.quality is not None:
        return [picture_of([from_report(inputs.quality)])]
    cells = inputs.campaigns.of_table(TABLE)
    order = cell_order(inputs.definitions.get(TABLE, {"rows": []}))
    cells.sort(key=lambda cell: (order.get((cell.variant, cell.precision), 1000), cell.variant))
    best = best_inertia(cells)
    machines = []
    for machine in sorted({cell.machine for cell in cells if cell.right}):
        here = [cell for cell in cells if cell.machine == machine]
        profiles = [profile(here, best, within) for within in WITHIN]
        if len(profiles[0]["lines"]) > 1:
            machines.append({"name": machine, "profiles": profiles})
    if not machines:
        raise NothingToDraw(f"no two variants with verified cells of the table {TABLE} and traces")
    return [picture_of(machines)]


def picture_of(machines: list[dict[str, Any]]) -> Picture:
    """Of the machines on which the profiles say something."""
    telling = [machine for machine in machines
               if any(points[-1][1] >= LEAST_SHARE for points in machine["profiles"][0]["lines"].values())]
    if not telling:
        raise NothingToDraw(f"no variant comes within {100 * WITHIN[0]:g} % of the best inertia on half of the "
                            "instances")
    return Picture("performance", "Performance profiles of time to quality", {"machines": telling}, draw)


def from_report(report: Json) -> dict[str, Any]:
    """The profiles of single starts that `clusterbench quality` has computed: an instance is a
    problem with one initial state, and times contain prepare()."""
    solvers = report["solvers"]
    profiles = []
    for each in report["profiles"]:
        if each["measure"] == "one_start":
            lines = {solvers[line["solver"]]["variant"]:
                     [[ratio, number / each["instances"]]
                      for number, ratio in enumerate(line["ratios"], 1)]
                     for line in each["lines"] if line["ratios"]}
            profiles.append({"within": each["within"], "problems": each["instances"],
                             "lines": lines})
    if not any(profile["lines"] for profile in profiles):
        raise NothingToDraw("no variant of the quality report reaches its goal")
    return {"name": ", ".join(machine["name"] for machine in report["machines"]),
            "profiles": profiles}


def best_inertia(cells: list[Cell]) -> dict[str, float]:
    """The smallest inertia that any variant reaches on each problem."""
    best: dict[str, float] = {}
    for cell in cells:
        if cell.right and cell.inertia and None not in cell.inertia:
            best[cell.problem] = min(*cell.inertia, best.get(cell.problem, cell.inertia[0]))
    return best


def time_to(cell: Cell, goal: float) -> float | None:
    """Milliseconds until the inertia is at most `goal`; None where the run never gets there. A pass
    tells the inertia of the centroids that enter it, so it must have been executed itself."""
    if cell.right:
        for index, value in enumerate(cell.inertia):
            if value is not None and value <= goal:
                return (index + 1) * cell.own_ms_per_iteration
    return None


def profile(cells: list[Cell], best: dict[str, float], within: float) -> dict[str, Any]:
    """For each variant the steps (factor, share of problems): the share on which it needs at most
    `factor` times the least time of these cells."""
    times: dict[str, dict[str, float]] = {}
    for cell in cells:
        if cell.problem in best:
            ms = time_to(cell, best[cell.problem] * (1 + within))
            if ms is not None:
                times.setdefault(cell.problem, {})[cell.variant] = ms
    lines = {}
    for variant in dict.fromkeys(cell.variant for cell in cells):
        ratios = sorted(each[variant] / min(each.values())
                        for each in times.values() if variant in each)
        if ratios:
            lines[variant] = [[factor, number / len(times)]
                              for number, factor in enumerate(ratios, 1)]
    return {"within": within, "problems": len(times), "lines": lines}


def draw(data: dict[str, Any]) -> Figure:
    """A row of two panels for each machine, one legend."""
    machines = data["machines"]
    names = list(dict.fromkeys(name for machine in machines
                               for each in machine["profiles"] for name in each["lines"]))
    marks = marks_of(names)
    figure = new_figure(3.2 * len(machines) + 0.18 * (-(-len(names) // 4)) + 0.1)
    grid = figure.subplots(len(machines), len(WITHIN), squeeze=False, sharey=True)
    for row, machine in zip(grid, machines):
        for axes, each in zip(row, machine["profiles"]):
            _draw_panel(axes, each, marks)
            axes.set_title(f"{machine['name']}: within {100 * each['within']:g} %")
        row[0].set_ylabel(f"share of {machine['profiles'][0]['problems']} problems, %")
    _legend(figure, names, marks)
    return figure


def _draw_panel(axes: Axes, each: dict[str, Any], marks: dict[str, dict[str, Any]]) -> None:
    end = 1.6 * max((points[-1][0] for points in each["lines"].values()), default=1.0)
    for name, points in each["lines"].items():
        factors = [1.0, *(point[0] for point in points), end]
        shares = [0.0, *(100 * point[1] for point in points), 100 * points[-1][1]]
        axes.plot(factors, shares, drawstyle="steps-post", markevery=slice(1, -1, 2),
                  clip_on=False, **marks[name])
    axes.set_xscale("log")
    axes.set_xlim(1, end)
    axes.set_ylim(0, 102)
    axes.set_xlabel("time over that of the fastest, at most")
    axes.grid(True, **GRID)


def _legend(figure: Figure, names: list[str], marks: dict[str, dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    legend_below(figure, [Line2D([], [], **marks[name], label=short_name(name))
                          for name in names], 4)
