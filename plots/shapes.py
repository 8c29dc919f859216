"""How many times as fast the best variant of vectors is as the best other library, shape by shape.

A panel is a number of points, a column a number of features, a row a number of clusters. A square
holds the ratio of the times of an iteration, and below it the library: S is scikit-learn, F FAISS.
Darker is faster. A red frame is less than twice. A square without a number was not measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, excluded
from shape_panels import Square, draw_panels, two_digits
from style import family_of

if TYPE_CHECKING:
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
    """A row of panels for each precision."""
    from matplotlib.colors import LogNorm

    norm = LogNorm(1.0, DARKEST, clip=True)
    return draw_panels(data["rows"], lambda shape: Square(
        float(norm(shape["times"])), f"{two_digits(shape['times'])}\n{shape['beside']}", shape["times"] < GOAL))
