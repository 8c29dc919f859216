#!/usr/bin/env python3
"""Writes the blocks of docs/scaling_model.md: what a model of a pass over R GPUs predicts, and what was measured.

    scripts/scaling_model.py results/exchange.json docs/scaling_model.md results/reference
    scripts/scaling_model.py results/exchange.json --json results/reference    # what the picture shows


A pass over n rows on R GPUs takes t(n, R) = (1 + w) (floor + s n / R) + j + x(R). The floor and s are fitted to
passes of one GPU in the ledgers, w and j to those of two; x is the exchange of the sums, from results/exchange.json.
One GPU has neither. The same without w, j and x is compared with ranks of MPI, where there is a ledger of them.
"""

import json
import math
import pathlib
import sys
from dataclasses import dataclass, replace

COUNTS = [2**i for i in range(11)]  # of GPUs: 1 to 1024
MILLION, MEBI = 1_000_000, 2**20


# ---- the model: times are milliseconds

@dataclass(frozen=True)
class Pass:
    """A pass of one GPU: floor + per_row n. Several have a share each, and take longer."""
    floor: float
    per_row: float
    slower: float = 0.0  # a share: the slowest of them, and a device that runs beside another one
    joint: float = 0.0  # beside the exchange's own time

    def ms(self, rows, gpus=1):
        own = self.floor + self.per_row * rows / gpus
        return own if gpus == 1 else (1.0 + self.slower) * own + self.joint


def fit(points):
    """The Pass through (rows, ms), with the least squares of relative errors. Needs two numbers of rows. A pass over no
    rows takes no less than nothing: what takes more than twice as long for twice the rows has no floor."""
    weights = [(rows, ms, 1.0 / ms**2) for rows, ms in points]
    total = sum(weight for _, _, weight in weights)
    x = sum(weight * rows for rows, _, weight in weights) / total
    y = sum(weight * ms for _, ms, weight in weights) / total
    spread = sum(weight * (rows - x)**2 for rows, _, weight in weights)
    if not spread > 0:
        raise ValueError("one number of rows tells no slope")
    per_row = sum(weight * (rows - x) * (ms - y) for rows, ms, weight in weights) / spread
    if y < per_row * x:
        return Pass(0.0, (sum(weight * rows * ms for rows, ms, weight in weights)
                          / sum(weight * rows**2 for rows, _, weight in weights)))
    return Pass(y - per_row * x, per_row)


class Exchange:
    """How long the sums of all GPUs take to be on all GPUs."""

    def __init__(self, facts):
        measured, assumed = facts["measured"], facts["assumed"]
        self.node, self.node_step, self.network_step, self.network_gbs = (
            assumed[key]["value"] for key in ("gpus_per_node", "node_step_us", "network_step_us", "network_gbs"))
        self.flag, self.write_gbs = measured["flag_barrier_us"], measured["peer_write_gbs"]
        line = fit([(point["bytes"], point["us"]) for point in measured["all_reduce"]])
        self.of_two, self.node_gbs = line.floor, 1e-3 / line.per_row  # µs, GB/s

    def all_reduce(self, gpus, size):
        """By NCCL: up and down a tree of steps; the bytes once around the GPUs of a node, and each GPU's share
        of them once around the nodes."""
        if gpus == 1:
            return 0.0
        here, nodes = min(gpus, self.node), math.ceil(gpus / self.node)
        steps = (self.of_two + 2 * (math.log2(here) - 1) * self.node_step
                 + 2 * math.ceil(math.log2(nodes)) * self.network_step)
        bytes_us = 2e-3 * size * ((here - 1) / here / self.node_gbs
                                  + (nodes - 1) / nodes / here / self.network_gbs)
        return (steps + bytes_us) * 1e-3

    def peer_writes(self, gpus, size):
        """By the kernels themselves, in one node: each writes its sums into the memory of every other."""
        return 0.0 if gpus == 1 else (self.flag + 1e-3 * (gpus - 1) * size / self.write_gbs) * 1e-3

    def in_the_launch(self, gpus, size):
        """Peer writes as far as NVLink reaches; beyond it, NCCL."""
        return (self.peer_writes if gpus <= self.node else self.all_reduce)(gpus, size)


def ms_of(line, exchange, rows, gpus, size):
    return line.ms(rows, gpus) + exchange(gpus, size)


def efficiency(line, exchange, rows, gpus, size, weak):
    """Strong: t(n, 1) / (R t(n, R)), weak: t(n, 1) / t(R n, R)."""
    return (line.ms(rows) / ms_of(line, exchange, rows * gpus, gpus, size) if weak else
            line.ms(rows) / gpus / ms_of(line, exchange, rows, gpus, size))


def sums_bytes(d, k, a_value=8):
    """A word for every sum and every count."""
    return a_value * k * (d + 1)


# ---- what was measured

LEDGERS = ("nvidia-*/ledger*.jsonl", "nvidia-*/gpu_shapes/ledger.jsonl", "*/several_gpus/ledger*.jsonl",
           "*/ranks/ledger*.jsonl")  # in the folder of reference runs


def ledgers_in(paths):
    """Each ledger, and of a folder those that the model is about."""
    for path in map(pathlib.Path, paths):
        yield from [path] if not path.is_dir() else (found for glob in LEDGERS for found in sorted(path.glob(glob)))


# Variants with the same pass, beside an exchange of their own.
MANY = ("kmeans_nccl", "kmeans_nvlink", "kmeans_cuda_wgmma")
FEW = ("kmeans_cuda_persistent", "kmeans_nvlink_persistent")


def group_of(variant):
    return next((group for group in (MANY, FEW) if variant in group), (variant,))


def of_one_form(cells):
    """Without what is old: passes became faster. Of a shape's passes on one GPU or rank the newest days count, as few as
    saw two numbers of rows, and of several what is not older."""
    def shape(cell):
        return group_of(cell["variant"]), cell["d"], cell["k"]
    rows, oldest = {}, {}
    for cell in sorted((cell for cell in cells if cell["parts"] == 1), key=lambda cell: cell["day"], reverse=True):
        seen = rows.setdefault(shape(cell), set())
        if len(seen) < 2 or cell["day"] == oldest[shape(cell)]:
            seen.add(cell["n"])
            oldest[shape(cell)] = cell["day"]
    return [cell for cell in cells if cell["day"] >= oldest.get(shape(cell), "")]


def cells_of(paths):
    """The newest right row of each variant, problem and number of GPUs or ranks."""
    cells = {}
    for path in ledgers_in(paths):
        for line in map(json.loads, pathlib.Path(path).read_text(encoding="utf-8").splitlines()):
            if line.get("status") == "ok" and line.get("precision") == "f32":
                problem = line["problem"]
                parts = line.get("ranks") or line.get("gpus") or 1
                cell = {"variant": line["variant"], "parts": parts, "of": "ranks" if "ranks" in line else "GPUs",
                        "ms": line["ms_per_iteration"], "day": line["time"][:10], **{size: problem[size] for size in "ndk"}}
                cells[line["variant"], problem["hash"], line["threads"], parts] = cell
    return of_one_form(list(cells.values()))


def points_of(cells, variants, d, k):
    """(rows, ms) of passes of one, in the order of the rows."""
    return sorted((cell["n"], cell["ms"]) for cell in cells
                  if cell["variant"] in variants and cell["parts"] == 1 and (cell["d"], cell["k"]) == (d, k))


def corrected(line, misses, by_share):
    """The Pass with what several were measured to take longer. misses: (share of the rows, ms without exchange); one
    alone is taken for chance."""
    if len(misses) < 2:
        return line
    own = [line.ms(rows) for rows, _ in misses]
    if by_share:
        return replace(line, slower=sum(ms / at for at, (_, ms) in zip(own, misses)) / len(misses) - 1.0)
    return replace(line, joint=sum(ms - at for at, (_, ms) in zip(own, misses)) / len(misses))


# ---- the page

def exchange_of(cell, exchange):
    """How a cell of several adds up its sums, and of how many bytes."""
    way = ((lambda gpus, size: 0.0) if cell["of"] == "ranks" else
           exchange.all_reduce if cell["variant"].endswith("nccl") else exchange.in_the_launch)
    return way, sums_bytes(cell["d"], cell["k"], 16 if cell["variant"] in FEW else 8)


def misses_of(cells, group, d, k, exchange):
    """(rows of each, ms beside the exchange) of cells of two."""
    found = []
    for cell in cells:
        if cell["variant"] in group and cell["parts"] == 2 and (cell["d"], cell["k"]) == (d, k):
            way, size = exchange_of(cell, exchange)
            found.append((cell["n"] / 2, cell["ms"] - way(2, size)))
    return found


def count_text(rows):
    for unit, name in ((MEBI, "Mi"), (MILLION, "M"), (1000, "k")):
        if rows % unit == 0:
            return f"{rows // unit}{name}"
    return str(rows)


def ms_text(ms):
    return f"{ms:.3g}" if ms < 1000 else f"{ms:.0f}"


def percent_text(share):
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.1g} %"


def table(head, rows, texts=1):
    """Markdown; all columns but the first `texts` hold numbers."""
    kinds = "".join(" --- |" if i < texts else " --: |" for i in range(len(head)))
    return f"| {' | '.join(head)} |\n|{kinds}\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def inputs_block(facts, exchange, lines):
    rows = [[", ".join(sorted(variants)), f"d = {d}, k = {k}", f"{line.floor * 1e3:.3g}", f"{line.per_row * 1e9:.3g}",
             ", ".join(count_text(rows) for rows, _ in points),
             f"{100 * max(abs(line.ms(rows) / ms - 1) for rows, ms in points):.0f}"]
            for (variants, d, k), (line, points) in lines.items()]
    text = table(["passes of one GPU", "shape", "floor, µs", "s, ns a thousand rows", "fitted to n",
                  "farthest point, %"], rows, texts=2)
    text += "\n" + table(["passes of two", "shape", "w, %", "j, µs"], [
        [", ".join(sorted(variants)), f"d = {d}, k = {k}", f"{100 * line.slower:.2g}", f"{line.joint * 1e3:.2g}"]
        for (variants, d, k), (line, _) in lines.items()], texts=2)
    measured = facts["measured"]
    text += (f"\nMeasured between two GPUs: NCCL's all-reduce takes {exchange.of_two:.1f} µs and moves "
             f"{exchange.node_gbs:.0f} GB/s; a flag barrier\ntakes {exchange.flag:g} µs, and peers write "
             f"{exchange.write_gbs:g} GB/s. {measured['source']}\n\n**Assumed**, not measured:\n\n")
    units = {"us": " µs", "gbs": " GB/s", "node": ""}
    return text + "".join(f"- `{name}`: {each['value']:g}{units[name.rsplit('_', 1)[1]]}. {each['why']}.\n"
                          for name, each in facts["assumed"].items())


def workloads(lines, exchange):
    """Title, pass, exchange, rows, bytes, weak."""
    many, few = lines[MANY, 128, 1024][0], lines[FEW, 9, 16][0]
    large, small = sums_bytes(128, 1024), sums_bytes(9, 16, a_value=16)
    return [("1M×128, k = 1024, strong", many, exchange.all_reduce, MEBI, large, False),
            ("64M×128, k = 1024, strong", many, exchange.all_reduce, 64 * MEBI, large, False),
            ("1M×9, k = 16, strong", few, exchange.in_the_launch, MILLION, small, False),
            ("1M×9 a GPU, k = 16, weak", few, exchange.in_the_launch, MILLION, small, True)]


def predictions_block(loads):
    def cell(line, x, rows, size, weak, gpus):
        ms = ms_of(line, x, rows * gpus if weak else rows, gpus, size)
        return f"{percent_text(efficiency(line, x, rows, gpus, size, weak))}, {ms_text(ms)} ms"
    return table(["GPUs", *(load[0] for load in loads)],
                 [[str(gpus), *(cell(*load[1:], gpus) for load in loads)] for gpus in COUNTS])


def limits_block(loads):
    rows = []
    for title, line, x, n, size, weak in loads:
        def below(least):
            return next((str(gpus) for gpus in COUNTS
                         if efficiency(line, x, n, gpus, size, weak) < least), "not up to 1024")
        last = COUNTS[-1]
        all_rows = n * last if weak else n
        longer = 1.0 + line.slower
        parts = [longer * line.per_row * all_rows / last, longer * line.floor, line.joint + x(last, size)]
        whole = sum(parts)
        times = line.ms(all_rows) / whole
        rows.append([title, below(0.9), below(0.5), f"{times:.2g}" if times < 10 else f"{times:.0f}",
                     *(f"{100 * part / whole:.0f}" for part in parts)])
    return table(["", "below 90 % from", "below 50 % from", "1024 are so many times as fast as one",
                  "of their pass: rows, %", "floor, %", "exchange and j, %"], rows)


def compared(cells, exchange, lines=None):
    """Cells of several with their predictions: ms, and efficiency in strong scaling of both. `corrected`: ms with
    what was fitted to cells of two, where `lines` have it."""
    found = []
    for cell in sorted(cells, key=lambda cell: (cell["of"], cell["variant"], cell["d"], cell["n"], cell["parts"])):
        group = group_of(cell["variant"])
        points = points_of(cells, group, cell["d"], cell["k"])
        if cell["parts"] == 1 or len({rows for rows, _ in points}) < 2:
            continue
        line, (x, size) = fit(points), exchange_of(cell, exchange)
        better, _ = (lines or {}).get((group, cell["d"], cell["k"]), (None, None))
        own = next((ms for rows, ms in points_of(cells, (cell["variant"],), cell["d"], cell["k"])
                    if rows == cell["n"]), None)
        found.append({**cell, "predicted": ms_of(line, x, cell["n"], cell["parts"], size),
                      "predicted_efficiency": efficiency(line, x, cell["n"], cell["parts"], size, weak=False),
                      "corrected": None if better is None else ms_of(better, x, cell["n"], cell["parts"], size),
                      "efficiency": None if own is None else own / cell["parts"] / cell["ms"]})
    return found


def problem_text(cell):
    return f"{count_text(cell['n'])}×{cell['d']}, k = {cell['k']}"


def compared_block(cells, exchange, lines):
    found = compared(cells, exchange, lines)
    rows = [[each["variant"], problem_text(each), f"{each['parts']} {each['of']}",
             ms_text(each["predicted"]), "–" if each["corrected"] is None else ms_text(each["corrected"]),
             ms_text(each["ms"]), percent_text(each["predicted_efficiency"]),
             "–" if each["efficiency"] is None else percent_text(each["efficiency"])] for each in found]
    text = table(["variant", "problem", "of", "predicted ms", "with w and j", "measured ms", "predicted efficiency",
                  "measured efficiency"], rows, texts=3)
    if found:
        worst = max(found, key=lambda each: abs(math.log(each["ms"] / each["predicted"])))
        text += (f"\nThe farthest prediction is {worst['variant']}'s: the measured time is "
                 f"{100 * abs(worst['ms'] / worst['predicted'] - 1):.0f} % "
                 f"{'longer' if worst['ms'] > worst['predicted'] else 'shorter'}.\n")
    if not any(cell["of"] == "ranks" for cell in cells):
        text += "No reference run holds ranks of MPI yet.\n"
    return text


class Model:
    """Exchange, fitted passes and workloads, from results/exchange.json and ledgers."""

    def __init__(self, facts, ledgers):
        self.facts, self.cells, self.exchange = facts, cells_of(ledgers), Exchange(facts)
        self.lines = {}
        for key in ((MANY, 128, 1024), (FEW, 9, 16), (MANY, 9, 16)):
            points = points_of(self.cells, *key)
            misses = misses_of(self.cells, *key, self.exchange)
            self.lines[key] = (corrected(fit(points), misses, by_share=key[0] == MANY), points)
        self.loads = workloads(self.lines, self.exchange)

    def blocks(self):
        """Mark of a block -> its text."""
        return {"<!-- model inputs begin -->": inputs_block(self.facts, self.exchange, self.lines),
                "<!-- model predictions begin -->": predictions_block(self.loads),
                "<!-- model limits begin -->": limits_block(self.loads),
                "<!-- model compared begin -->": compared_block(self.cells, self.exchange, self.lines)}

    def as_json(self):
        """What plots/model.py draws."""
        loads = [{"title": title, "points": [[gpus, efficiency(line, x, rows, gpus, size, weak)] for gpus in COUNTS]}
                 for title, line, x, rows, size, weak in self.loads]
        cells = [{"variant": each["variant"], "problem": problem_text(each), "parts": each["parts"], "of": each["of"],
                  "predicted_efficiency": each["predicted_efficiency"], "efficiency": each["efficiency"]}
                 for each in compared(self.cells, self.exchange)]
        return {"type": "scaling_model", "schema": 2, "gpus_per_node": self.exchange.node, "workloads": loads,
                "compared": cells}


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    model = Model(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[3:])
    if sys.argv[2] == "--json":
        print(json.dumps(model.as_json(), indent=1))
        return
    page = pathlib.Path(sys.argv[2])
    text = page.read_text(encoding="utf-8")
    for begin, block in model.blocks().items():
        head, found, rest = text.partition(begin + "\n")
        _, end, tail = rest.partition(begin.replace("begin", "end"))
        if not found or not end:
            sys.exit(f"{page}: no block {begin}")
        text = head + found + block + end + tail
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
