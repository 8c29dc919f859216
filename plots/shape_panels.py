"""Panels of shapes: a panel is a number of points, a column a number of features, a row a number of clusters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Square:
    """How one shape is drawn."""

    strength: float  # 0 light to 1 dark
    text: str
    framed: bool  # in red


def draw_panels(rows: list[dict[str, Any]], square_of: Callable[[dict[str, Any]], Square],
                columns: int = 0) -> Figure:
    """A row of panels for each of `rows`: {"precision", "panels": [{"n", "shapes": [{"d", "k", ...}]}]}. All
    panels have the same axes. With a number of `columns`, one panel follows another instead, each with axes
    of its own."""
    panels = [[(row["precision"], panel) for panel in row["panels"]] for row in rows]
    if columns:
        flat = [each for row in panels for each in row]
        panels = [flat[i : i + columns] for i in range(0, len(flat), columns)]
    everything = [shape for row in panels for _, panel in row for shape in panel["shapes"]]
    tallest = max(len(_sizes(panel["shapes"] if columns else everything, "k")) for row in panels for _, panel in row)
    figure = new_figure(len(panels) * (0.45 + 0.38 * tallest))
    grid = figure.subplots(len(panels), columns or max(map(len, panels)), squeeze=False)
    for axes_row, row in zip(grid, panels):
        for axes, (precision, panel) in zip(axes_row, row):
            _draw_panel(axes, panel["shapes"], panel["shapes"] if columns else everything, square_of)
            axes.set_title(f"{precision}, n = {panel['n']:,}")
            axes.set_xlabel("features d")
        axes_row[0].set_ylabel("clusters k")
        for axes in axes_row[len(row):]:
            axes.set_axis_off()
    return figure


def _sizes(shapes: list[dict[str, Any]], size: str) -> list[int]:
    return sorted({shape[size] for shape in shapes})


def _draw_panel(axes: Axes, shapes: list[dict[str, Any]], on_axes: list[dict[str, Any]],
                square_of: Callable[[dict[str, Any]], Square]) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    features, clusters = _sizes(on_axes, "d"), _sizes(on_axes, "k")
    for shape in shapes:
        x, y = features.index(shape["d"]), clusters.index(shape["k"])
        square = square_of(shape)
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, linewidth=2,
                                 facecolor=colormaps["viridis_r"](square.strength),
                                 edgecolor="#D00000" if square.framed else "none"))
        axes.text(x, y, square.text, ha="center", va="center", fontsize=6.5,
                  color="white" if square.strength > 0.45 else "black")
    axes.set_xlim(-0.5, len(features) - 0.5)
    axes.set_ylim(-0.5, len(clusters) - 0.5)
    axes.set_xticks(range(len(features)), [str(d) for d in features])
    axes.set_yticks(range(len(clusters)), [str(k) for k in clusters])
    axes.tick_params(length=0)


def two_digits(value: float) -> str:
    """1.9, 13, 140."""
    return f"{value:.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):.0f}"
