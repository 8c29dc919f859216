"""How every picture looks: one colour per family of variants, one size, one way to be written.

Colours are those of Okabe and Ito, told apart by every common kind of colour vision, and two of
Tol's for the families beyond eight. Nothing but this file loads matplotlib, and only when a
picture is drawn.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The families of variants in the order of the legends.
FAMILIES = {
    "published": "#7F7F7F",
    "python": "#F0E442",
    "serial": "#000000",
    "eigen": "#E69F00",
    "openmp": "#56B4E9",
    "simd": "#D55E00",
    "cuda": "#009E73",
    "thrust": "#CC79A7",
    "cublas": "#0072B2",
    "tensor": "#882255",
    "other": "#BBBBBB",
}

# What names of variants contain, first match first: `kmeans_cuda_atomic` is of the family cuda.
_TOKENS = (
    ("tensor", r"tensor|wgmma|mma|split|tf32|bf16|f16|certified|amx"),
    ("cublas", r"cublas"),
    ("thrust", r"thrust"),
    ("cuda", r"cuda|nccl|nvlink"),
    ("python", r"numpy|sklearn|scipy|faiss|cuml|torch|flash"),
    ("simd", r"simd"),
    ("openmp", r"openmp|mpi"),
    ("eigen", r"eigen"),
    ("serial", r"serial|hamerly|elkan|yinyang|minibatch"),
)

# Variants of one family share its colour and differ by mark and line.
MARKS = "osD^v<>PXph*d"
LINES = ("-", "--", ":")
SHADES = (0.0, 0.45)  # shares of white

WIDTH = 9.0  # inches; a README shows it about 860 pixels wide
GRID = {"color": "#D9D9D9", "linewidth": 0.6}


def family_of(variant: str) -> str:
    """The family that a variant's name puts it in; `other` where nothing fits."""
    for family, pattern in _TOKENS:
        if re.search(pattern, variant):
            return family
    return "other"


def colour_of(variant: str) -> str:
    """The colour of a variant's family."""
    return FAMILIES[family_of(variant)]


def tint(colour: str, share: float = 0.78) -> str:
    """A colour mixed with that share of white."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * share):02X}" for part in parts)


def marks_of(variants: list[str]) -> dict[str, dict[str, Any]]:
    """How each variant's line is drawn: the family's colour in one of two shades, and a mark and
    a line that differ within the family."""
    seen: dict[str, int] = {}
    marks = {}
    for variant in variants:
        index = seen.setdefault(family_of(variant), 0)
        seen[family_of(variant)] += 1
        marks[variant] = {
            "color": tint(colour_of(variant), SHADES[index % len(SHADES)]),
            "marker": MARKS[index % len(MARKS)],
            "linestyle": LINES[index % len(LINES)],
            "linewidth": 1.3,
            "markersize": 5,
            "markeredgecolor": "white",
            "markeredgewidth": 0.4,
        }
    return marks


def short_name(variant: str) -> str:
    """A variant's name without its algorithm: cuda_atomic."""
    return variant.removeprefix("kmeans_").removeprefix("fcm_")


def have_matplotlib() -> str:
    """Empty, or why no picture can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        return f"matplotlib is missing ({error}); Debian's package is python3-matplotlib"
    return ""


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure [inches] in the house's style."""
    import matplotlib
    from matplotlib.figure import Figure as NewFigure

    matplotlib.rcdefaults()
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "clusterbench",
            "svg.fonttype": "path",
            "font.family": "DejaVu Sans",
            "font.size": 8.5,
            "axes.titlesize": 9.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "legend.frameon": False,
            "legend.fontsize": 8.0,
            "hatch.linewidth": 0.5,
        }
    )
    return NewFigure(figsize=(width, height), facecolor="white", constrained_layout=True)


def legend_below(figure: Figure, handles: list[Any], columns: int) -> None:
    """A legend in a strip of its own under all axes, as high as its rows need."""
    rows = -(-len(handles) // columns)
    height = (0.17 * rows + 0.08) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0.0, height, 1.0, 1.0 - height))
    figure.legend(handles=handles, loc="lower center", ncol=columns, borderaxespad=0.1,
                  handlelength=2.6, columnspacing=1.6)


def digest(data: Any) -> str:
    """A hash of a picture's data; equal hashes mean that nothing has to be drawn again."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.9g}")
        if isinstance(value, dict):
            return {str(key): plain(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(each) for each in value]
        return value

    return hashlib.sha256(json.dumps(plain(data), sort_keys=True).encode()).hexdigest()


def save(figure: Figure, path: Path, title: str, data_hash: str, formats: tuple[str, ...]) -> None:
    """Writes `path` with each suffix of `formats`, whole or not at all, the same bytes for the
    same data; the hash of the data stands in the metadata."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    for suffix in formats:
        metadata: dict[str, Any]
        if suffix == "svg":
            metadata = {"Title": title, "Date": None, "Description": f"data {data_hash}"}
        else:
            metadata = {"Title": title, "Software": None, "Description": f"data {data_hash}"}
        partial = path.with_suffix(f".{suffix}.part")
        try:
            figure.savefig(partial, format=suffix, dpi=150, metadata=metadata)
            partial.replace(path.with_suffix(f".{suffix}"))
        finally:
            partial.unlink(missing_ok=True)
