"""The fastest right answer of each kind, on the largest problem of each article.

A row is a kind of program. Its dot is its fastest variant with right answers in float32, named
beside it. Times are milliseconds an iteration, on a logarithmic axis. Problems that differ in the
number of iterations alone are one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell
from style import FAMILIES, GRID, family_of, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PRECISION = "f32"
ROW = 0.23  # inches
KINDS = {  # in the order of the rows, with their colours
    "plain C++, one thread": FAMILIES["serial"],
    "Python library, CPU": FAMILIES["eigen"],
    "C++, all cores": FAMILIES["simd"],
    "Python library, GPU": FAMILIES["thrust"],
    "CUDA": FAMILIES["cuda"],
}


def kind_of(cell: Cell) -> str:
    """The row of a cell."""
    where = "GPU" if cell.device == "gpu" else "CPU"
    if family_of(cell.variant) == "python":
        return f"Python library, {where}"
    if where == "GPU":
        return "CUDA"
    return "plain C++, one thread" if "_serial" in cell.variant else "C++, all cores"


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind: a group of rows for each article's table."""
    groups = []
    machines: dict[str, str] = {}
    for name, definition in inputs.definitions.items():
        if not name.startswith("article"):
            continue
        cells = [cell for cell in inputs.campaigns.of_table(name)
                 if cell.right and cell.precision == PRECISION]
        if not cells:
            continue
        size = max((cell.n * cell.d * cell.k, cell.n, cell.d, cell.k) for cell in cells)[1:]
        best: dict[str, Cell] = {}
        for cell in sorted(cells, key=lambda cell: cell.ms_per_iteration):
            if (cell.n, cell.d, cell.k) == size:
                best.setdefault(kind_of(cell), cell)
        machines.update((cell.device, cell.machine) for cell in best.values())
        groups.append({"table": name, "title": definition["title"],
                       "rows": [{"kind": kind, "variant": best[kind].variant, "ms": best[kind].ms_per_iteration}
                                for kind in KINDS if kind in best]})
    if not any(len(group["rows"]) > 1 for group in groups):
        raise NothingToDraw("no article's problem with right answers of two kinds")
    return [Picture("fastest", "The fastest right answers, milliseconds an iteration",
                    {"groups": groups, "machines": [machines[device] for device in sorted(machines)]}, draw)]


def time_text(ms: float) -> str:
    """Two digits: 0.0025, 0.15, 75."""
    return f"{ms:.2g}" if ms < 100 else f"{float(f'{ms:.2g}'):,.0f}"


def draw(data: dict[str, Any]) -> Figure:
    """The articles below one another, on one axis."""
    groups = data["groups"]
    counts = [len(group["rows"]) for group in groups]
    figure = new_figure(ROW * sum(counts) + 0.28 * len(groups) + 0.75)
    grid = figure.subplots(len(groups), 1, squeeze=False, sharex=True, gridspec_kw={"height_ratios": counts})
    times = [row["ms"] for group in groups for row in group["rows"]]
    for (axes,), group in zip(grid, groups):
        _draw_group(axes, group)
    grid[0][0].set_xscale("log")
    grid[0][0].set_xlim(min(times) / 1.6, max(times) * 30)  # names stand at the right of the dots
    grid[-1][0].xaxis.set_major_formatter("{x:,g}")
    grid[-1][0].set_xlabel(f"ms per iteration, right answers only      ({'; '.join(data['machines'])})")
    return figure


def _draw_group(axes: Axes, group: dict[str, Any]) -> None:
    rows = group["rows"]
    for place, row in enumerate(rows):
        axes.plot(row["ms"], place, linestyle="none", marker="o", markersize=7, markeredgewidth=0.7,
                  color=KINDS[row["kind"]], markeredgecolor="white")
        axes.annotate(f"{time_text(row['ms'])}  {short_name(row['variant'])}", (row["ms"], place), xytext=(7, 0),
                      textcoords="offset points", va="center", fontsize=8, color="#333333")
    axes.set_yticks(range(len(rows)), [row["kind"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_title(f"{group['title'][0].upper()}{group['title'][1:]}", fontsize=9, pad=3)
    axes.grid(True, **GRID)
    axes.spines["left"].set_visible(False)
