"""Convergence of article 000: our traces over the published ones, and how far apart they are.

The article's C++ and CUDA programs print the loss, the sum of Euclidean distances, with six digits.
Its scikit-learn program prints the inertia, the sum of squared distances, in full. Both have no
unit. Passes count from 0; a value belongs to the centroids that enter the pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from style import FAMILIES, GRID, colour_of, family_of, legend_below, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "article000"
MEASURES = (
    ("loss", "loss: sum of distances", "loss_trace"),
    ("inertia", "inertia: sum of squared distances", "inertia_trace"),
)


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind."""
    ours = [
        cell
        for cell in inputs.campaigns.of_table(TABLE)
        if cell.right and len(cell.loss) > 2 and None not in cell.loss + cell.inertia
    ]
    if not ours:
        raise NothingToDraw(f"no verified cell of {TABLE} with a trace")
    article = inputs.published.get(TABLE, {})
    # Fewer rows were read with --quick: another problem than the published one.
    same_data = {cell.n for cell in ours} == {article.get("workload", {}).get("n")}
    data: dict[str, Any] = {"same_data": same_data}
    for measure, _, source in MEASURES:
        data[measure] = {
            "published": article.get(source, {}) if same_data else {},
            "here": [
                {
                    "variant": cell.variant,
                    "precision": cell.precision,
                    "values": list(getattr(cell, measure)),
                }
                for cell in ours
            ],
        }
    return [Picture("convergence", "Convergence of article 000", data, draw)]


def excess(values: list[float], floor: float) -> list[float]:
    """Every value over the smallest one, relative: (value - floor) / floor."""
    return [(value - floor) / floor for value in values]


def difference(values: list[float], published: list[float]) -> list[float]:
    """Relative difference of two traces, pass by pass, as far as both go."""
    return [abs(ours - theirs) / theirs for ours, theirs in zip(values, published)]


def _reference(measure: str, data: dict[str, Any]) -> str:
    """The published trace that ours are compared with: the longest."""
    published: dict[str, list[float]] = data[measure]["published"]
    return max(published, key=lambda name: len(published[name]), default="")


def _draw_traces(axes: Axes, measure: str, data: dict[str, Any]) -> None:
    here = data[measure]["here"]
    published = data[measure]["published"]
    floor = min(min(each["values"]) for each in here)
    for trace in here:
        values = excess(trace["values"], floor)
        axes.plot(
            range(len(values)),
            [value if value > 0 else float("nan") for value in values],
            color=colour_of(trace["variant"]),
            linewidth=1.3,
            linestyle="-" if trace["precision"] == "f32" else "--",
        )
    for index, (name, trace) in enumerate(published.items()):
        values = excess(trace, floor)
        axes.plot(
            range(len(values)),
            [value if value > 0 else float("nan") for value in values],
            linestyle="none",
            marker="ox+"[index % 3],
            markersize=5 + 2 * index,
            markerfacecolor="none",
            markeredgecolor="#444444",
            label=f"published: {name}",
        )
    axes.set_yscale("log")
    axes.set_ylabel("above the smallest, relative")
    axes.annotate(f"lines: {len(here)} variants here", (0.02, 0.04), xycoords="axes fraction")
    if published:
        axes.legend(loc="upper right")


def _draw_differences(axes: Axes, measure: str, data: dict[str, Any]) -> None:
    name = _reference(measure, data)
    published = data[measure]["published"][name]
    smallest = 1e-16
    for trace in data[measure]["here"]:
        values = difference(trace["values"], published)
        axes.plot(
            range(len(values)),
            [max(value, smallest) for value in values],
            color=colour_of(trace["variant"]),
            linewidth=1.1,
            linestyle="-" if trace["precision"] == "f32" else "--",
            marker=".",
            markersize=3,
        )
    if measure == "loss":
        digits = 50.0 / min(published)  # 1.08259e+07: half of the last printed digit is 50
        axes.axhline(digits, color="#444444", linewidth=0.9, linestyle=":")
        axes.annotate("half of the last digit printed", (1, digits), (-2, 3), ha="right",
                      xycoords=axes.get_yaxis_transform(), textcoords="offset points",
                      fontsize=7.5, color="#444444",
                      bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5})
    axes.set_yscale("log")
    axes.set_ylabel(f"difference from {name}, relative")


def draw(data: dict[str, Any]) -> Figure:
    """Two columns, loss and inertia; below them the differences from the published traces."""
    with_published = bool(data["same_data"] and data["loss"]["published"])
    rows = 2 if with_published else 1
    figure = new_figure(2.9 * rows + 0.5)
    grid = figure.subplots(rows, 2, squeeze=False, sharex=True)
    for column, (measure, title, _) in enumerate(MEASURES):
        _draw_traces(grid[0][column], measure, data)
        grid[0][column].set_title(title)
        if with_published:
            _draw_differences(grid[1][column], measure, data)
        for row in range(rows):
            grid[row][column].grid(True, **GRID)
        grid[-1][column].set_xlabel("pass")
    _legend(figure, data)
    return figure


def _legend(figure: Figure, data: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    here = data["loss"]["here"]
    handles = []
    for family, colour in FAMILIES.items():
        if any(family_of(each["variant"]) == family for each in here):
            handles.append(Line2D([], [], color=colour, linewidth=2, label=family))
    for precision, line in (("f32", "-"), ("f64", "--")):
        if any(each["precision"] == precision for each in here):
            handles.append(Line2D([], [], color="#444444", linestyle=line, label=precision))
    legend_below(figure, handles, len(handles))
