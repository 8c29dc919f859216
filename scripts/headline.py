"""Writes README.md's first table: what is fastest on each article's problem, by time per iteration and by
whole answer, from `table --json`.

    clusterbench table NAME --from LEDGER... --json >> reports; scripts/headline.py README.md reports

Times are in float32, of right answers only. An article's problem is its largest.
"""

import json
import math
import sys

BEGIN, END = "<!-- headline begin -->\n", "<!-- headline end -->"


def reports(path):
    """The JSON documents that stand one after another in a file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        report, at = decoder.raw_decode(text, at)
        at += 1
        yield report


def size(problem, cells):
    """n d k of a problem, 0 where no cell was run."""
    return max((cell["n"] * cell["d"] * problem["k"] for cell in cells
                if cell["problem"] == problem["id"] and "n" in cell), default=0)


def fastest(cells, measure, rank):
    """The fastest of the cells that have a rank, or None."""
    cells = [cell for cell in cells if rank in cell and "approximate" not in cell]
    return min(cells, key=lambda cell: cell[measure], default=None)


def with_digits(value, digits):
    """Rounded to so many digits, without an exponent."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.{max(digits - 1 - math.floor(math.log10(rounded)), 0)}f}"


def shown(best, cells, measure, rank):
    """A cell as text: its time, its share of the model bound, its name, and those that rounds do not tell
    from it."""
    if best is None:
        return "–"
    equal = [f"`{cell['variant']}`" for cell in cells
             if cell is not best and "approximate" not in cell and cell.get(rank) == best[rank] and cell["machine"] == best["machine"]
             and cell["problem"] == best["problem"]]
    ties = f" = {equal[0]}" if len(equal) == 1 else f" = {len(equal)} others" if equal else ""
    share = best.get("percent_of_limit") if rank == "rank" else None
    limit = f", {share:.0f} %" if share is not None else ""
    digits = min(best["digits"][measure], 3)
    return f"{with_digits(best[measure], digits)}{limit} `{best['variant']}`{ties}"


def line(report, machines):
    """One article: the fastest plain C++ on one thread, the fastest variant of a CPU, the fastest of a GPU;
    first by time per iteration, then by whole answer. Adds the names of their machines, by device."""
    names = {machine["id"]: machine["name"] for machine in report["machines"]}
    cells = [cell for cell in report["cells"]
             if cell["precision"] == "f32" and cell["status"] == "ok"]
    problem = max(report["problems"], key=lambda problem: size(problem, cells))
    # Problems on the same data differ in the stop rule and the number of passes; a pass is a pass.
    same = {other["id"] for other in report["problems"]
            if all(other[key] == problem[key] for key in ("data", "k", "family"))}
    texts = []
    for measure, rank, problems in (("ms_per_iteration", "rank", same),
                                    ("whole_ms", "whole_rank", {problem["id"]})):
        here = [cell for cell in cells if cell["problem"] in problems]
        serial = [cell for cell in here if cell["variant"].startswith(f"{problem['family']}_serial")]
        others = [[cell for cell in here if (cell["device"] == "gpu") == on_gpu] for on_gpu in (False, True)]
        for cells_of_kind in (serial, *others):
            best = fastest(cells_of_kind, measure, rank)
            texts.append(shown(best, cells_of_kind, measure, rank))
            if best is not None:
                on = "GPU" if best["device"] == "gpu" else "CPU"
                name = names[best["machine"]]
                machines.setdefault(on, set()).add(name if on == "GPU" else name.split("; ")[-1])
    n, d = next(((cell["n"], cell["d"]) for cell in cells if cell["problem"] == problem["id"] and "n" in cell), (0, 0))
    return f"| {report['title']} ({n:,}×{d}, k = {problem['k']}) | " + " | ".join(texts) + " |\n"


def main():
    page, source = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        head, rest = file.read().split(BEGIN)
    _, tail = rest.split(END)
    table = ("| | plain C++, one thread | fastest on the CPU | fastest on the GPU "
             "| whole answer: plain C++ | CPU | GPU |\n"
             "| --- | --- | --- | --- | --- | --- | --- |\n")
    machines = {}
    table += "".join(line(report, machines) for report in reports(source))
    table += "\n" + " ".join(f"{device}: {'; or '.join(sorted(names))}."
                             for device, names in sorted(machines.items())) + "\n"
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + table + END + tail)


if __name__ == "__main__":
    main()
