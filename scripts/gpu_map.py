#!/usr/bin/env python3
"""Writes into PAGE, between its marks `farthest of gpu_map`, the float32 shapes at which kmeans_cuda_auto takes
longest beside the model bound plus 10 us, and what it chose there.

usage: clusterbench table gpu_map --from LEDGER --json | gpu_map.py PAGE"""

import json
import pathlib
import sys

from calibration import splice

OURS, PRECISION = "kmeans_cuda_auto", "f32"
LATENCY_MS = 0.010  # beside which a bound of less says nothing
GOAL = 3.0  # times
SHOWN = 10


def farthest(cells):
    """[(times, cell)], the most first, of the cells with a right time and a bound."""
    found = [(cell["ms_per_iteration"] / (cell["limit_ms_per_iteration"] + LATENCY_MS), cell)
             for cell in cells
             if cell["variant"] == OURS and cell["precision"] == PRECISION and cell["status"] == "ok"
             and cell.get("limit_ms_per_iteration")]
    return sorted(found, key=lambda each: -each[0])


def text(cells):
    found = farthest(cells)
    far = sum(times > GOAL for times, _ in found)
    lines = [f"Of {len(found)} shapes in float32, {far} take more than {GOAL:.0f} times the model bound plus 10 µs. "
             "The farthest are:", "",
             "| shape | times | ms/iteration | bound, ms | set by | chosen |", "| --- | --: | --: | --: | --- | --- |"]
    for times, cell in found[:SHOWN]:
        lines.append(f"| {cell['problem']} | {times:.1f} | {cell['ms_per_iteration']:.3g} "
                     f"| {cell['limit_ms_per_iteration']:.2g} | {cell['limit']} | {cell['chosen_path'].split(':')[0]} |")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    splice(pathlib.Path(sys.argv[1]), "farthest of gpu_map", text(json.load(sys.stdin)["cells"]))


if __name__ == "__main__":
    main()
