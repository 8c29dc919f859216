"""How near kmeans_cuda_auto comes to the model bound on a GPU, shape by shape.

A panel is a number of points, a column a number of features, a row a number of clusters. A square
holds per cent of the model bound, and below it how many times as long the fastest other library
takes for an iteration: T is PyTorch, F flash-kmeans, both with factors of 10 bits. Darker is nearer
to the bound. A red frame is more than three times the sum of the bound and 10 µs. A square without
a number was not measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, excluded
from shape_panels import Square, draw_panels, two_digits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "gpu_map"
OURS = "kmeans_cuda_auto"
PRECISIONS = {"f32": "float32", "f64": "float64"}
LETTERS = {"kmeans_torch_tf32": "T", "kmeans_flash": "F"}
LIGHTEST = 3.0  # per cent
MOST_TIMES, LATENCY_MS = 3.0, 0.010  # of the bound, and beside it


def pictures(inputs: Inputs) -> list[Picture]:
    """The one picture of this kind."""
    cells = inputs.campaigns.of_table(TABLE)
    rows = [{"precision": name, "panels": found} for precision, name in PRECISIONS.items()
            if (found := panels([cell for cell in cells if cell.precision == precision]))]
    if not rows:
        raise NothingToDraw(f"no shape of the table {TABLE} has a time of {OURS} and a bound")
    left_out = [cell for cell in cells if cell.status not in ("unavailable", "approximate")]
    return [Picture("shapes-gpu", "Per cent of the model bound on a GPU", {"rows": rows}, draw,
                    tuple(excluded(left_out)))]


def panels(cells: list[Cell]) -> list[dict[str, Any]]:
    """For each number of points its shapes with a right time and a bound."""
    others: dict[tuple[int, int, int], list[Cell]] = {}
    for cell in cells:
        if cell.variant in LETTERS and cell.ms_per_iteration > 0.0:
            others.setdefault((cell.n, cell.d, cell.k), []).append(cell)
    found: dict[int, list[dict[str, Any]]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.n, cell.d, cell.k)):
        if cell.variant != OURS or not cell.right or cell.limit is None:
            continue
        shape: dict[str, Any] = {
            "d": cell.d, "k": cell.k, "percent": 100.0 * cell.limit.ms / cell.ms_per_iteration,
            "far": cell.ms_per_iteration > MOST_TIMES * (cell.limit.ms + LATENCY_MS)}
        if beside := others.get((cell.n, cell.d, cell.k)):
            best = min(beside, key=lambda other: other.ms_per_iteration)
            shape |= {"beside": LETTERS[best.variant], "times": best.ms_per_iteration / cell.ms_per_iteration}
        found.setdefault(cell.n, []).append(shape)
    return [{"n": n, "shapes": shapes_here} for n, shapes_here in found.items()]


def draw(data: dict[str, Any]) -> Figure:
    """A panel for each precision and number of points."""
    from matplotlib.colors import LogNorm

    norm = LogNorm(LIGHTEST, 100.0, clip=True)

    def square_of(shape: dict[str, Any]) -> Square:
        beside = f"\n{shape['beside']} {two_digits(shape['times'])}" if "times" in shape else ""
        percent = two_digits(shape["percent"]) if shape["percent"] >= 0.1 else "<0.1"
        return Square(float(norm(shape["percent"])), percent + beside, shape["far"])

    return draw_panels(data["rows"], square_of, columns=3)
