"""One picture for each article's table: a dot for every time, the published ones beside ours.

Rows are the variants in the order of the table. Panels are its problems. The axis is logarithmic.
Times are milliseconds:

- of the run from the article's own start, where its program made as many passes as ours;
- of one pass of that run, where the numbers of passes differ;
- of one pass from any start, where the article printed no times.

The title says what is left of the article's claim when these times are compared. The
[verdicts](verdicts.md) go on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures import Inputs, NothingToDraw, Picture
from results import BadInput, Cell, Json, excluded
from style import FAMILIES, GRID, colour_of, family_of, legend_below, new_figure, short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Bar = dict[str, Any]
PUBLISHED = FAMILIES["published"]


def pictures(inputs: Inputs) -> list[Picture]:
    """One picture for each table of an article that has a verified cell."""
    made = []
    for name, definition in inputs.definitions.items():
        cells = inputs.campaigns.of_table(name)
        if not name.startswith("article") or not any(cell.right for cell in cells):
            continue
        data = table(definition, cells, inputs.published.get(name, {}))
        verdict = verdict_of(inputs.claims.get(name), data, definition)
        title = f"{definition['title'][0].upper()}{definition['title'][1:]}"
        notes = tuple(excluded(cell for cell in cells if cell.status != "unavailable"))
        made.append(Picture(name, title, {"title": title, **verdict, **data}, draw, notes))
    if not made:
        raise NothingToDraw("no verified cell of an article's table")
    return made


def printed_times(definition: Json, article: Json) -> list[Bar]:
    """What the article printed: one bar for each row and column of its table.

    `definition["published"]` names the values in `article`; times become milliseconds, of one
    iteration where the definition compares iterations."""
    block = definition.get("published")
    if block is None:
        return []
    per_iteration = block["speedup_of"] == "iteration"
    bars = []
    for column in block["columns"]:
        index = (article["columns"].index(column["column"]) if "column" in column else 0)
        for row in block["rows"]:
            try:
                value = _at(article, row["key"], index)
                ms = value * (1e3 if row["key"].startswith("seconds.") else 1.0)
                if per_iteration:
                    ms /= _passes(article, row, index)
            except (KeyError, TypeError, IndexError, ZeroDivisionError) as error:
                raise BadInput(f"{definition['name']}: the published row \"{row.get('label')}\" "
                               f"names no figure ({row.get('key')})") from error
            bars.append({"problem": row.get("problem", column["problem"]),
                         "variant": row["variant"], "precision": row["precision"],
                         "label": row["label"], "ms": ms,
                         "doubt": "wrong" if "wrong" in row
                         else "other work" if "other_work" in row else ""})
    return bars


def _at(article: Json, key: str, index: int) -> float:
    value: Any = article
    for part in key.split("."):
        value = value[part]
    return float(value[index] if isinstance(value, list) else value)


def _passes(article: Json, row: Json, index: int) -> float:
    if "passes" in row:
        return _at(article, row["passes"], index)
    trace: Any = article
    for part in row["passes_of_trace"].split("."):
        trace = trace[part]
    return float(len(trace))


def is_quick(problem: Json, cells: list[Cell]) -> bool:
    """Whether cells of a problem are of its smaller size: fewer rows, or fewer passes."""
    smaller = problem.get("quick", {})
    passes = smaller.get("max_iterations", problem.get("max_iterations"))
    return any(cell.problem == problem["id"] and
               (cell.n == smaller.get("take") or
                passes != problem.get("max_iterations") and len(cell.inertia) == passes)
               for cell in cells)


def table(definition: Json, cells: list[Cell], article: Json) -> Json:
    """The picture's data: for every problem the rows of the table, each with its bars. Beside a smaller
    size stand no figures of the article: they are of other work."""
    block = definition.get("published")
    per_iteration = block is None or block["speedup_of"] == "iteration"
    # Beside the article's times stand ours of the run from its own start.
    measure = ("ms_per_iteration" if block is None
               else "own_ms_per_iteration" if per_iteration else "own_ms")
    quick = [each["id"] for each in definition["problems"] if is_quick(each, cells)]
    printed = [bar for bar in printed_times(definition, article) if bar["problem"] not in quick]
    found = {(cell.problem, cell.variant, cell.precision): cell for cell in cells}
    variants = list(dict.fromkeys(row["variant"] for row in definition["rows"]))
    panels = []
    for problem in definition["problems"]:
        rows = []
        for variant in variants:
            bars: list[Bar] = [
                {"source": "published", "ms": each["ms"], "label": each["label"],
                 "doubt": each["doubt"], "precision": each["precision"]}
                for each in printed
                if (each["problem"], each["variant"]) == (problem["id"], variant)
            ]
            for row in definition["rows"]:
                if row["variant"] == variant and problem["id"] in row["problems"]:
                    ours = [_here(found.get((problem["id"], variant, precision)), precision,
                                  measure) for precision in row["precisions"]]
                    bars += ours[:1] if not any(bar["ms"] for bar in ours) else ours
            rows.append({"variant": variant, "bars": bars})
        panels.append({"problem": problem["id"], "rows": rows})
    # A problem without a time of ours would be an empty panel, a variant without any an empty row;
    # the table says what was not run.
    panels = [panel for panel in panels
              if any(bar["ms"] for row in panel["rows"] for bar in row["bars"]
                     if bar["source"] == "here")]
    timed = {row["variant"] for panel in panels for row in panel["rows"]
             if any(bar["ms"] for bar in row["bars"])}
    for panel in panels:
        panel["rows"] = [row for row in panel["rows"] if row["variant"] in timed]
    if per_iteration:
        panels = _merged(panels, {each["id"]: each for each in definition["problems"]})
    return {"unit": "iteration" if per_iteration else "run", "panels": panels,
            **({"quick": True} if quick else {})}


def times_text(value: float) -> str:
    """A speed-up with the digits that it deserves: 5.7, 16, 420."""
    return f"{float(f'{value:.2g}'):.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def verdict_of(claim: Json | None, data: Json, definition: Json) -> Json:
    """{"verdict": what becomes of the claim in the picture's own figures}; empty where they do not say."""
    panel = next((each for each in data["panels"] if claim and claim["problem"] in each["problem"].split(" and ")),
                 None)
    if claim is None or panel is None or data.get("quick"):
        return {}
    rows = {row["variant"]: row["bars"] for row in panel["rows"]}

    def here(variant: str, precision: str) -> float | None:
        return next((bar["ms"] for bar in rows.get(variant, ()) if bar["source"] == "here" and bar["ms"]
                     and bar["precision"] == precision), None)

    if "row" not in claim:
        kernel = here(claim["variant"], claim["precision"])
        baseline = min((ms for variant in rows if f"_{claim['baseline_kind']}" in variant
                        and (ms := here(variant, claim["precision"]))), default=None)
        if kernel is None or baseline is None:
            return {}
        return {"verdict": f"No times were printed. Here {short_name(claim['variant'])} is "
                           f"{times_text(baseline / kernel)} times faster than the best plain C++ on one thread."}
    printed = {row["key"]: row for row in definition["published"]["rows"]}
    row, over = printed[claim["row"]], printed[claim["over"]]

    def published(of: Json) -> Bar | None:
        return next((bar for bar in rows.get(of["variant"], ()) if bar["source"] == "published"
                     and bar["label"] == of["label"]), None)

    fast, slow = here(row["variant"], row["precision"]), here(over["variant"], over["precision"])
    printed_fast, printed_slow = published(row), published(over)
    if not (fast and slow and printed_fast and printed_slow):
        return {}
    said = f"Printed: {times_text(printed_slow['ms'] / printed_fast['ms'])} times faster than C++ per {data['unit']}"
    gains = f"{times_text(slow / fast)} times over that C++ here."
    return {"verdict": f"{said}, by a program that is wrong. A right one gains {gains}"
            if printed_fast["doubt"] == "wrong" else f"{said}. The kernel gains {gains}"}


def _merged(panels: list[Json], problems: dict[str, Json]) -> list[Json]:
    """Problems that differ in nothing but the number of iterations share a panel, where no variant
    has bars in both: a time per iteration is the same for either."""
    def work(problem: Json) -> Json:
        return {key: value for key, value in problem.items()
                if key not in ("id", "max_iterations", "quick")}

    kept: list[tuple[Json, Json]] = []
    for panel in panels:
        problem = problems[panel["problem"]]
        for earlier, of in kept:
            pairs = list(zip(earlier["rows"], panel["rows"]))
            if work(of) == work(problem) and not any(a["bars"] and b["bars"] for a, b in pairs):
                earlier["problem"] += f" and {problem['id']}"
                for a, b in pairs:
                    a["bars"] = a["bars"] or b["bars"]
                break
        else:
            kept.append((panel, problem))
    return [panel for panel, _ in kept]


def _here(cell: Cell | None, precision: str, measure: str) -> Bar:
    if cell is None or not cell.right:
        return {"source": "here", "precision": precision, "ms": None,
                "status": cell.status if cell is not None else "not run"}
    return {"source": "here", "precision": precision, "status": "ok",
            "ms": getattr(cell, measure)}


def draw(data: Json) -> Figure:
    """The problems side by side, the variants' names once at the left."""
    panels = data["panels"]
    heights = [max(len(panel["rows"][row]["bars"]) for panel in panels)
               for row in range(len(panels[0]["rows"]))]
    figure = new_figure(0.145 * sum(heights) + 0.1 * len(heights) + 1.35)
    figure.suptitle(data.get("verdict", data["title"]), x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    tops = _tops(heights)
    for axes, panel in zip(grid, panels):
        _draw_panel(axes, panel, tops)
        axes.set_title(panel["problem"], fontweight="normal")
        axes.set_xlabel(f"ms per {data['unit']}")
    middles = [top + (height - 1) / 2 for top, height in zip(tops, heights)]
    grid[0].set_yticks(middles, [short_name(row["variant"]) for row in panels[0]["rows"]])
    grid[0].set_ylim(tops[-1] + heights[-1] - 0.2, -0.8)
    _legend(figure, panels)
    if data.get("quick"):
        figure.text(0.5, 0.5, "QUICK RUN: smaller sizes", ha="center", va="center", rotation=18, fontsize=22,
                    color="0.5", alpha=0.35, zorder=10)
    return figure


def _tops(heights: list[int]) -> list[float]:
    """Where each row's first bar lies, in bars; rows are two thirds of a bar apart."""
    tops, top = [], 0.0
    for height in heights:
        tops.append(top)
        top += height + 0.67
    return tops


def _draw_panel(axes: Axes, panel: Json, tops: list[float]) -> None:
    every = [bar["ms"] for row in panel["rows"] for bar in row["bars"] if bar["ms"]]
    low = min(every, default=1.0) / 3
    high = max(every, default=1.0) * 1.2
    axes.set_xscale("log")
    axes.set_xlim(low, high * (high / low) ** 0.22)  # room for the figures
    for row, top in zip(panel["rows"], tops):
        for index, bar in enumerate(row["bars"]):
            _draw_bar(axes, row["variant"], bar, top + index, low)
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", **GRID)


def _draw_bar(axes: Axes, variant: str, bar: Bar, y: float, low: float) -> None:
    if bar["ms"] is None:
        axes.annotate(bar["status"].replace("_", " "), (low, y), (3, 0), va="center",
                      textcoords="offset points", fontsize=7, color="#777777", style="italic")
        return
    colour = PUBLISHED if bar["source"] == "published" else colour_of(variant)
    axes.plot([low, bar["ms"]], [y, y], color="#CCCCCC", linewidth=0.6, linestyle=(0, (1, 2)), zorder=1)
    axes.plot(bar["ms"], y, linestyle="none", zorder=2, **_mark(bar, colour))
    axes.annotate(f"{bar['ms']:.3g}" if bar["ms"] < 1000 else f"{bar['ms']:,.0f}", (bar["ms"], y),
                  (6, 0), textcoords="offset points", va="center", fontsize=7, color="#333333")


def _mark(bar: Bar, colour: str) -> dict[str, Any]:
    """Published: a square, ours: a circle; hollow for float64, a cross for what is wrong or other work."""
    if bar.get("doubt"):
        return {"marker": "X", "markersize": 7, "markerfacecolor": "white", "markeredgecolor": colour,
                "markeredgewidth": 1.1}
    hollow = bar["source"] == "here" and bar["precision"] == "f64"
    return {"marker": "s" if bar["source"] == "published" else "o", "markersize": 6,
            "markerfacecolor": "white" if hollow else colour, "markeredgecolor": colour, "markeredgewidth": 1.1}


def _legend(figure: Figure, panels: list[Json]) -> None:
    from matplotlib.lines import Line2D

    bars = [(row["variant"], bar) for panel in panels for row in panel["rows"]
            for bar in row["bars"] if bar["ms"] is not None]
    printed = {"source": "published", "precision": ""}
    here = {family_of(variant) for variant, bar in bars if bar["source"] == "here"}
    entries: list[tuple[str, Bar, str]] = []
    if any(bar["source"] == "published" and not bar["doubt"] for _, bar in bars):
        entries.append(("published", printed, PUBLISHED))
    if doubts := sorted({bar["doubt"] for _, bar in bars if bar.get("doubt")}):
        entries.append((f"published, {' or '.join(doubts)}", printed | {"doubt": "x"}, PUBLISHED))
    entries += [(family, {"source": "here", "precision": "f32"}, colour)
                for family, colour in FAMILIES.items() if family in here]
    if any(bar["source"] == "here" and bar["precision"] == "f64" for _, bar in bars):
        entries.append(("hollow: f64", {"source": "here", "precision": "f64"}, "#444444"))
    handles = [Line2D([], [], linestyle="none", label=label, **_mark(bar, colour)) for label, bar, colour in entries]
    legend_below(figure, handles, min(7, len(handles)))
