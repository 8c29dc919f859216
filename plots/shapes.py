"""How many times as fast the best variant of vectors is as the best other library, shape by shape.

A panel is a number of points, a column a number of features, a row a number of clusters. A square
holds the ratio of the times of an iteration, and below it the library: S is scikit-learn, F FAISS.
Darker is faster. A red frame is less than twice. A square without a number was not measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, excluded
from style import family_of, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE = "cpu_map"
PRECISIONS = {"f32": "float32", "f64": "float64"}
GOAL = 2.0  # times as fast as any other library
DARKEST = 100.0
LETTERS = {"kmeans_sklearn": "S", "kmeans_faiss": "F"}


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind."""
    cells = inputs.campaigns.of_table(TABLE)
    rows = [{"precision": name, "panels": found} for precision, name in PRECISIONS.items()
            if (found := panels([cell for cell in cells if cell.precision == precision]))]
    if not rows:
        raise NothingToDraw(f"no shape of the table {TABLE} has a time of ours and of another library")
    return [Picture("shapes-cpu", "Times as fast as the best other library on a CPU", {"rows": rows},
                    draw, tuple(excluded(cell for cell in cells if cell.status != "unavailable")))]


def panels(cells: list[Cell]) -> list[dict[str, Any]]:
    """For each number of points its shapes that both sides have right times of."""
    shapes: dict[tuple[int, int, int], list[Cell]] = {}
    for cell in cells:
        if cell.right:
            shapes.setdefault((cell.n, cell.d, cell.k), []).append(cell)
    found: dict[int, list[dict[str, Any]]] = {}
    for (n, d, k), here in sorted(shapes.items()):
        ours = [cell.ms_per_iteration for cell in here if family_of(cell.variant) == "simd"]
        others = [cell for cell in here if cell.variant in LETTERS]
        if ours and others:
            best = min(others, key=lambda cell: cell.ms_per_iteration)
            found.setdefault(n, []).append({"d": d, "k": k, "beside": LETTERS[best.variant],
                                            "times": best.ms_per_iteration / min(ours)})
    return [{"n": n, "shapes": shapes_here} for n, shapes_here in found.items()]


def draw(data: dict[str, Any]) -> Figure:
    """A row of panels for each precision; all panels have the same axes."""
    everything = [shape for row in data["rows"] for panel in row["panels"] for shape in panel["shapes"]]
    features, clusters = (sorted({shape[size] for shape in everything}) for size in "dk")
    columns = max(len(row["panels"]) for row in data["rows"])
    figure = new_figure(len(data["rows"]) * (0.45 + 0.38 * len(clusters)))
    grid = figure.subplots(len(data["rows"]), columns, squeeze=False)
    for axes_row, row in zip(grid, data["rows"]):
        for axes, panel in zip(axes_row, row["panels"]):
            _draw_panel(axes, panel, features, clusters)
            axes.set_title(f"{row['precision']}, n = {panel['n']:,}")
            axes.set_xlabel("features d")
        axes_row[0].set_ylabel("clusters k")
        for axes in axes_row[len(row["panels"]):]:
            axes.set_axis_off()
    return figure


def _draw_panel(axes: Axes, panel: dict[str, Any], features: list[int], clusters: list[int]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    shade, norm = colormaps["viridis_r"], LogNorm(1.0, DARKEST, clip=True)
    for shape in panel["shapes"]:
        x, y = features.index(shape["d"]), clusters.index(shape["k"])
        strength = float(norm(shape["times"]))
        missed = shape["times"] < GOAL
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, facecolor=shade(strength),
                                 edgecolor="#D00000" if missed else "none", linewidth=2))
        axes.text(x, y, f"{times_text(shape['times'])}\n{shape['beside']}", ha="center", va="center",
                  fontsize=6.5, color="white" if strength > 0.45 else "black")
    axes.set_xlim(-0.5, len(features) - 0.5)
    axes.set_ylim(-0.5, len(clusters) - 0.5)
    axes.set_xticks(range(len(features)), [str(d) for d in features])
    axes.set_yticks(range(len(clusters)), [str(k) for k in clusters])
    axes.tick_params(length=0)


def times_text(times: float) -> str:
    """Two digits: 1.9, 13, 140."""
    return f"{times:.1f}" if times < 9.95 else f"{float(f'{times:.2g}'):.0f}"
