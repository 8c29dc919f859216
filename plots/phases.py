"""Where an iteration's time goes: the shares of its phases, one bar a variant.

A separate run, outside the timed ones, measures the phases. The bars show shares. The number at the
end of a bar is the timed milliseconds of an iteration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import Cell, cell_order
from style import legend_below, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Kinds of phases, in the order of an iteration; names of phases that belong to them; colour, from
# Tol's light scheme, which no family of variants uses.
KINDS: dict[str, tuple[tuple[str, ...], str]] = {
    "assign (one-sweep variants add up here, too)": (
        ("assign", "distances", "minimum", "memberships"), "#77AADD"),
    "assign and sum in one pass": (
        ("assign and sum", "assign and reduce blocks", "memberships and sums", "pass"), "#44BB99"),
    "update (sums, means, centres)": (
        ("update", "sum", "means", "centres", "reduce to means"), "#EE8866"),
    "stop check": (("check",), "#FFAABB"),
    "transfer, work on the host": (("download", "upload", "host sum"), "#EEDD88"),
    "other": ((), "#DDDDDD"),
}


def kind_of(phase: str) -> str:
    """The kind that a phase's name belongs to."""
    return next((kind for kind, (names, _) in KINDS.items() if phase in names), "other")


def pictures(inputs: Inputs) -> list[Picture]:
    """One picture for each table that has a verified cell with phases."""
    made = []
    for name, definition in inputs.definitions.items():
        if not name.startswith("article"):
            continue
        data = panels(inputs.campaigns.of_table(name), definition)
        if data["panels"]:
            title = f"Phases of an iteration: {definition['title']}"
            made.append(Picture(f"phases-{name}", title, {"title": title, **data}, draw))
    if not made:
        raise NothingToDraw("no verified cell with phases")
    return made


def panels(cells: list[Cell], definition: dict[str, Any]) -> dict[str, Any]:
    """The float32 variants that have phases, and for each problem of the table one bar for each of
    them, shares of the phases in their order; None where there is no verified cell."""
    order = cell_order(definition)
    here = {(cell.problem, cell.variant): cell for cell in cells
            if cell.right and cell.precision == "f32" and sum(cell.phases_ms.values()) > 0}
    variants = sorted({variant for _, variant in here},
                      key=lambda variant: (order.get((variant, "f32"), 1000), variant))
    problems = [each["id"] for each in definition["problems"]
                if any(problem == each["id"] for problem, _ in here)]
    return {"variants": variants, "panels": [
        {"problem": problem, "bars": [_bar(here.get((problem, variant))) for variant in variants]}
        for problem in problems]}


def _bar(cell: Cell | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    total = sum(cell.phases_ms.values())
    kinds = list(KINDS)  # the ledger sorts phases by name, an iteration goes through them by kind
    ordered = sorted(cell.phases_ms.items(), key=lambda each: kinds.index(kind_of(each[0])))
    return {"ms_per_iteration": cell.ms_per_iteration,
            "shares": [[phase, ms / total] for phase, ms in ordered]}


def draw(data: dict[str, Any]) -> Figure:
    """The problems side by side, one bar a variant."""
    found, variants = data["panels"], data["variants"]
    figure = new_figure(0.235 * len(variants) + 1.5)
    figure.suptitle(data["title"], x=0.01, ha="left", fontsize=10, fontweight="bold")
    grid = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
    for axes, panel in zip(grid, found):
        _draw_panel(axes, panel)
    grid[0].set_yticks(range(len(variants)), [short_name(name) for name in variants])
    grid[0].set_ylim(len(variants) - 0.4, -0.6)
    _legend(figure, found)
    return figure


def _draw_panel(axes: Axes, panel: dict[str, Any]) -> None:
    for row, bar in enumerate(panel["bars"]):
        left = 0.0
        for phase, share in bar["shares"] if bar else ():
            axes.barh(row, 100 * share, left=left, height=0.74, color=KINDS[kind_of(phase)][1],
                      edgecolor="white", linewidth=0.8)
            left += 100 * share
        if bar:
            axes.annotate(f"{bar['ms_per_iteration']:.3g} ms", (100, row), (4, 0), va="center",
                          textcoords="offset points", fontsize=7.5, annotation_clip=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the recorded run, %")
    axes.set_title(panel["problem"])


def _legend(figure: Figure, found: list[dict[str, Any]]) -> None:
    from matplotlib.patches import Patch

    used = {kind_of(phase) for panel in found for bar in panel["bars"] if bar
            for phase, _ in bar["shares"]}
    handles = [Patch(color=colour, label=kind) for kind, (_, colour) in KINDS.items()
               if kind in used]
    legend_below(figure, handles, min(3, len(handles)))
