#!/usr/bin/env python3
"""Writes into PAGE, between its marks `margins of cpu_map`, how many times as fast kmeans_simd_auto is as the
faster of scikit-learn and FAISS: over all shapes, and where the margin is least.

usage: clusterbench table cpu_map --from LEDGER --json | cpu_map.py PAGE"""

import json
import pathlib
import statistics
import sys

from calibration import splice

OURS = "kmeans_simd_auto"
COSTS = {"ms_per_iteration": "iteration", "whole_ms": "whole answer"}
THINNEST = 3  # shapes that are shown of each precision


def margins(cells, cost):
    """precision -> [(ratio, problem, the faster of the others)], the least first."""
    here = {}
    for cell in cells:
        if cell["status"] == "ok" and cell.get(cost):
            here.setdefault((cell["precision"], cell["problem"]), {})[cell["variant"]] = cell[cost]
    found = {}
    for (precision, problem), times in here.items():
        ours = times.pop(OURS, None)
        if ours and times:
            best = min(times, key=times.get)
            found.setdefault(precision, []).append((times[best] / ours, problem, best))
    return {precision: sorted(ratios) for precision, ratios in sorted(found.items())}


def text(cells):
    lines = ["| precision | of | shapes | least | median | most | thinnest |", "| --- | --- | --: | --: | --: | --: | --- |"]
    for cost, name in COSTS.items():
        for precision, ratios in margins(cells, cost).items():
            values = [ratio for ratio, _, _ in ratios]
            thinnest = "; ".join(f"{problem}: {ratio:.1f} ({best})" for ratio, problem, best in ratios[:THINNEST])
            lines.append(f"| {precision} | {name} | {len(values)} | {values[0]:.1f} | {statistics.median(values):.1f} "
                         f"| {values[-1]:.0f} | {thinnest} |")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    splice(pathlib.Path(sys.argv[1]), "margins of cpu_map", text(json.load(sys.stdin)["cells"]))


if __name__ == "__main__":
    main()
