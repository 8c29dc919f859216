#!/usr/bin/env python3
"""What the hardware counts in the launches of whole runs: collects and shows it.

    scripts/count_gpu.py collect OUT.json [VARIANT ...]     needs a GPU and Nsight Compute (ncu)
    scripts/count_gpu.py table COUNTERS.json ... PAGE

`collect` runs each cell of CELLS, or those of some variants, under ncu, by the program that CLUSTERBENCH names (default
build/release/clusterbench), one launch of the cell's whole run, its first. ncu sets the clocks that it likes (they are
noted) and repeats the launch until all counters are read, so times are not those of the ledgers. `table` puts
a Markdown table between the page's "counters" marks. Exit codes: 64 usage or bad input, 5 a cell that is not
right or whose counters could not be read, 74 output cannot be written; nothing is written then.
"""

import csv
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BEGIN, END = "<!-- counters begin -->\n", "<!-- counters end -->"
ROOT = Path(__file__).resolve().parent.parent

# Work, its data and k, passes of a run, and the variants whose whole run is one launch.
CELLS = [
    ("100k×2, k=5", "article004-100k", 5, 300, ["kmeans_cuda_persistent", "kmeans_cuda_moves"]),
    ("1M×2, k=16", "article003", 16, 50,
     ["kmeans_cuda_persistent", "kmeans_cuda_moves", "kmeans_cuda_boxes"]),
    ("1M×9, k=4", "article002", 4, 20, ["kmeans_cuda_persistent", "kmeans_cuda_moves"]),
    ("1M×9, k=8", "article002", 8, 20, ["kmeans_cuda_persistent", "kmeans_cuda_moves"]),
    ("1M×9, k=16", "article002", 16, 20,
     ["kmeans_cuda_persistent", "kmeans_cuda_moves", "kmeans_cuda_half_rows"]),
    ("1M×100, k=4", "article000", 4, 20, ["kmeans_cuda_fused"]),
    ("FCM 100k×500, c=8", "article001", 8, 20, ["fcm_cuda_fused", "fcm_cuda_split"]),
] + [(f"1M×{d}, k={k}", f"mixture:1000000,{d},8,1,7", k, 20, [variant])
     for d, k, variant in [(3, 1, "kmeans_cuda_moves"), (3, 1, "kmeans_cuda_boxes"),
                           (3, 7, "kmeans_cuda_boxes"), (3, 23, "kmeans_cuda_boxes"),
                           (3, 64, "kmeans_cuda_boxes"), (8, 1, "kmeans_cuda_boxes"),
                           (8, 7, "kmeans_cuda_persistent"), (8, 7, "kmeans_cuda_moves"),
                           (8, 64, "kmeans_cuda_moves_wgmma"), (37, 23, "kmeans_cuda_moves_wgmma"),
                           (37, 64, "kmeans_cuda_moves_wgmma"), (64, 64, "kmeans_cuda_moves_wgmma"),
                           (8, 23, "kmeans_cuda_half_rows"), (8, 64, "kmeans_cuda_half_rows"),
                           (37, 23, "kmeans_cuda_half_rows"), (37, 64, "kmeans_cuda_half_rows"),
                           (64, 7, "kmeans_cuda_half_rows"), (64, 64, "kmeans_cuda_half_rows")]]

KERNELS = "regex:^cluster_(points|rows)"  # those that take a whole run
OF_PEAK = "pct_of_peak_sustained_active"
COUNTERS = {
    "nanoseconds": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "instructions": "smsp__inst_executed.sum",  # of a warp
    "memory_bytes": "dram__bytes_read.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "issue": f"smsp__issue_active.avg.{OF_PEAK}",
    "alu": f"sm__inst_executed_pipe_alu.avg.{OF_PEAK}",
    "fma": f"sm__inst_executed_pipe_fma.avg.{OF_PEAK}",
    "tensor": f"sm__pipe_tensor_cycles_active.avg.{OF_PEAK}",
    "shared": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
}
STALLS = ["barrier", "branch_resolving", "gmma", "lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar",
          "mio_throttle", "no_instruction", "short_scoreboard", "wait"]
NAMES = {**COUNTERS, **{f"stall_{reason}": f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
                        for reason in STALLS}}


def fail(code, message):
    print(f"count_gpu.py: {message}", file=sys.stderr)
    sys.exit(code)


def write(path, text):
    """The whole text or nothing."""
    try:
        Path(f"{path}.new").write_text(text, encoding="utf-8")
        os.replace(f"{path}.new", path)
    except OSError as error:
        fail(74, f"{path}: {error.strerror}")


def counters_of(text, names):
    """The counters of every launch by name, in ncu's base units, from what `--page raw --csv` prints; none of a
    launch that could not be counted."""
    lines = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    launches = [dict(zip(lines[0], line)) for line in lines[2:]]  # names, units, launches
    found = []
    for launch in launches:
        try:
            found.append({name: float(launch[metric].replace(",", "")) for name, metric in names.items()})
        except (KeyError, ValueError):
            return []
    return found if all(value == value for row in found for value in row.values()) else []  # "nan"


def count(data, k, passes, variant, names, options=()):
    """What ncu counts in the launches of a cell, and the provenance of its run. Ends the program if there is nothing,
    or the cell is not right."""
    program = os.environ.get("CLUSTERBENCH", str(ROOT / "build" / "release" / "clusterbench"))
    family = "fcm" if variant.startswith("fcm") else "kmeans"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["ncu", "--target-processes", "all", "--kernel-name", KERNELS, *options,
             "--metrics", ",".join(names.values()), "--page", "raw", "--csv", "--print-units", "base",
             program, "run", "--data", data, "--k", str(k), "--family", family,
             "--iterations", str(passes), "--precision", "f32", "--variant", variant, "--no-probe",
             "--samples", "1", "--budget", "0", "--min-time", "0", "--out", folder],
            env=dict(os.environ, CLUSTERBENCH_COUNTED="1"), capture_output=True, text=True, check=False)
        ledger = Path(folder, "ledger.jsonl")
        lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    said = f"\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    if [line["status"] for line in lines if line["type"] == "cell"] != ["ok"]:
        fail(5, f"{variant} on {data}, k={k}: not a right run{said}")
    found = counters_of(done.stdout, names)
    if not found:
        fail(5, f"{variant} on {data}, k={k}: no counters{said}")
    return found, next(line["provenance"] for line in lines if line["type"] == "header")


@functools.cache
def small_launches(variant):
    """Launches of the variant before the first of a cell's own: those of its qualification, on small problems, which
    may take as long, but do less."""
    _, data, k, passes, _ = next(cell for cell in CELLS if variant in cell[-1])
    launches, _ = count(data, k, passes, variant, {"instructions": COUNTERS["instructions"]})
    most = max(launch["instructions"] for launch in launches)
    return next(i for i, launch in enumerate(launches) if 2 * launch["instructions"] > most)


def collect(out, wanted):
    if shutil.which("ncu") is None:
        fail(64, "ncu, Nsight Compute, is not in PATH; it comes with the CUDA toolkit")
    if not os.access(Path(out).resolve().parent, os.W_OK):
        fail(74, f"{out}: cannot be written")
    unknown = sorted(set(wanted) - {variant for cell in CELLS for variant in cell[-1]})
    if unknown:
        fail(64, f"no cell of {', '.join(unknown)}")
    rows = []
    for work, data, k, passes, variants in CELLS:
        for variant in variants:
            if wanted and variant not in wanted:
                continue
            (launch,), provenance = count(data, k, passes, variant, NAMES,
                                          ["--launch-skip", str(small_launches(variant)), "--launch-count", "1"])
            rows.append({"work": work, "data": data, "k": k, "passes": passes, "variant": variant, **launch})
            print(f"{work}: {variant} {launch['nanoseconds'] / passes / 1e3:.4g} us a pass", file=sys.stderr)
    found = {"schema": 1, "counters": NAMES, "provenance": provenance, "rows": rows}
    write(out, json.dumps(found, indent=1) + "\n")


def points_of(row):
    """Points of a row's data, as its work begins: "100k×2", "1M×9" or with a family before."""
    count = row["work"].split("×")[0].split()[-1]
    return int(count[:-1]) * {"k": 1000, "M": 1000000}[count[-1]]


def short(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def line(row):
    passes = row["passes"]
    stalls = sorted(((row[f"stall_{reason}"], reason) for reason in STALLS), reverse=True)[:3]
    cells = [
        row["work"], row["variant"], f"{row['cycles'] / row['nanoseconds']:.2f}",
        short(row["instructions"] / passes / points_of(row)), short(row["memory_bytes"] / passes / 1e6),
        short(row["memory_bytes"] / row["nanoseconds"]), short(row["l2_bytes"] / row["nanoseconds"]),
        *(f"{row[pipe]:.0f}" for pipe in ("issue", "alu", "fma", "tensor", "shared")),
        ", ".join(f"{reason.replace('_', ' ')} {ratio:.1f}" for ratio, reason in stalls)]
    return "| " + " | ".join(cells) + " |\n"


def lines_of(source):
    try:
        rows = [line(row) for row in json.loads(Path(source).read_text(encoding="utf-8"))["rows"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fail(64, f"{source}: not counters: {error}")
    if not rows:
        fail(64, f"{source}: no counters in it")
    return rows


def table(sources, page):
    heads = ["work", "variant", "GHz", "instructions a point", "MB a pass from memory", "GB/s", "GB/s of L2",
             "issue", "ALU", "FMA", "tensor", "shared", "stalls an instruction"]
    rows = [row for source in sources for row in lines_of(source)]
    try:
        text = Path(page).read_text(encoding="utf-8")
    except OSError as error:
        fail(64, f"{page}: {error.strerror}")
    for mark in (BEGIN, END):
        if text.count(mark) != 1:
            fail(64, f"{page}: the mark {mark.strip()} has to stand in it once")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    made = "".join(["| " + " | ".join(heads) + " |\n", "|" + " --- |" * len(heads) + "\n", *rows])
    write(page, f"{head}{BEGIN}{made}{END}{tail}")


def main():
    match sys.argv[1:]:
        case ["collect", out, *wanted]:
            collect(out, wanted)
        case ["table", source, *others, page]:
            table([source, *others], page)
        case _:
            fail(64, __doc__)


if __name__ == "__main__":
    main()
