#!/usr/bin/env python3
"""Writes into PAGE, between its marks `farthest of gpu_map`, the float32 shapes at which kmeans_cuda_auto takes
longest beside the model bound plus 10 us, what it chose there, and how far it leads PyTorch. Bounds of ledgers
made before the probe measured comparisons are completed by PROBE.json, what `clusterbench probe --json` says on
such a GPU.

usage: clusterbench table gpu_map --from LEDGER --json | gpu_map.py PAGE PROBE.json"""

import json
import pathlib
import statistics
import sys
import textwrap

from calibration import splice

OURS, PEER, PRECISION = "kmeans_cuda_auto", "kmeans_torch_tf32", "f32"
LATENCY_MS = 0.010  # beside which a bound of less says nothing
GOAL = 3.0  # times
SHOWN = 10


def bound(cell, gpu):
    """(ms, name) of what sets it; gpu: the probe's rates."""
    pairs = cell["n"] * (int(cell["problem"].split("k=")[1]) - 1)
    return max((cell["limit_ms_per_iteration"], cell["limit"]),
               (pairs / max(gpu["compare_f32_gpairs"], gpu["compare_f16_gpairs"]) * 1e-6, "comparison rate"),
               (min(gpu["graph_node_us"], gpu["grid_barrier_us"]) * 1e-3, "exchange of a pass"))


def fastest(cells, variant, time):
    """{problem: cell} of the cells with a right time, which several machines may have."""
    found = {}
    for cell in cells:
        if cell["variant"] == variant and cell["precision"] == PRECISION and cell["status"] == "ok":
            other = found.setdefault(cell["problem"], cell)
            if cell[time] < other[time]:
                found[cell["problem"]] = cell
    return found


def farthest(cells, gpu):
    """[(times, bound, cell)], the most first, of the cells with a right time and a bound."""
    bounded = [cell for cell in cells if cell.get("limit_ms_per_iteration")]
    found = [(cell["ms_per_iteration"] / (limit[0] + LATENCY_MS), limit, cell)
             for cell in fastest(bounded, OURS, "ms_per_iteration").values() if (limit := bound(cell, gpu))]
    return sorted(found, key=lambda each: -each[0])


def leads(cells, time):
    """[(times as fast as the peer, problem)] of the shapes that both have, the least first."""
    ours, peer = (fastest(cells, variant, time) for variant in (OURS, PEER))
    return sorted((cell[time] / ours[problem][time], problem) for problem, cell in peer.items() if problem in ours)


def beside_peer(cells):
    by_iteration, whole = leads(cells, "ms_per_iteration"), leads(cells, "whole_ms")
    if not by_iteration:
        return f"{PEER} has none of these shapes."
    behind = sum(times < 1 for times, _ in by_iteration + whole)
    found = (f"{PEER} has {len(by_iteration)} of these shapes. {OURS} is "
             f"{'never behind' if behind == 0 else f'behind in {behind} of {2 * len(whole)} comparisons'}: an iteration is "
             f"{by_iteration[0][0]:.1f} ({by_iteration[0][1]}) to {by_iteration[-1][0]:.0f} times as fast, "
             f"{statistics.median(times for times, _ in by_iteration):.0f} in the median; the whole answer "
             f"{whole[0][0]:.1f} ({whole[0][1]}) to {whole[-1][0]:.0f} times, "
             f"{statistics.median(times for times, _ in whole):.0f} in the median.")
    return textwrap.fill(found, 100)


def text(cells, gpu):
    found = farthest(cells, gpu)
    far = sum(times > GOAL for times, _, _ in found)
    lines = [f"Of {len(found)} shapes in float32, {far} take more than {GOAL:.0f} times the model bound plus 10 µs. "
             "The farthest are:", "",
             "| shape | times | ms/iteration | bound, ms | set by | chosen |", "| --- | --: | --: | --: | --- | --- |"]
    for times, (limit_ms, limit), cell in found[:SHOWN]:
        lines.append(f"| {cell['problem']} | {times:.1f} | {cell['ms_per_iteration']:.3g} "
                     f"| {limit_ms:.2g} | {limit} | {cell['chosen_path'].split(':')[0]} |")
    return "\n".join([*lines, "", beside_peer(cells)]) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    gpu = json.loads(pathlib.Path(sys.argv[2]).read_text())["gpu"]
    splice(pathlib.Path(sys.argv[1]), "farthest of gpu_map", text(json.load(sys.stdin)["cells"], gpu))


if __name__ == "__main__":
    main()
