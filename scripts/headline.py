"""Writes README.md's first table: what is fastest on each article's problem, by time per iteration and by
whole answer, from `table --json`; below it the machines, and what the ledgers say of how it was measured.

    clusterbench table NAME --from LEDGER... --json >> reports; scripts/headline.py README.md reports

Times are in float32, of right answers only. An article's problem is its largest.
"""

import math
import sys

from reference import Reference, reports

BEGIN, END = "<!-- headline begin -->\n", "<!-- headline end -->"
HEAD = ("| | plain C++, one thread | fastest on the CPU | fastest on the GPU | whole answer: plain C++ | CPU | GPU |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n")
# The time, its rank, and what its cells are called below.
COSTS = (("ms_per_iteration", "rank", "passes"), ("whole_ms", "whole_rank", "wholes"))


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


def equals(best, cells, rank):
    """The others that share its rank, on its machine."""
    return [cell for cell in cells if cell is not best and "approximate" not in cell
            and all(cell.get(key) == best[key] for key in (rank, "machine", "problem"))]


def columns(cells, family):
    """Cells of plain C++ on one thread, of a CPU, and of a GPU."""
    yield [cell for cell in cells if cell["variant"].startswith(f"{family}_serial")]
    for on_gpu in (False, True):
        yield [cell for cell in cells if (cell["device"] == "gpu") == on_gpu]


class Headline:
    """The table, and the cells that it prints, which its footer is about."""

    def __init__(self, all_reports):
        self.reports = list(all_reports)
        self.reference = Reference(self.reports)
        self.passes, self.wholes, self.bounded, self.tied = [], [], [], []

    def shown(self, report, best, cells, measure, rank):
        """A cell as text: its time, its share of the model bound, its name, those that are not told from it, and
        the letter of its machine."""
        if best is None:
            return "–"
        equal = equals(best, cells, rank)
        self.tied += [(report, cell) for cell in [best, *equal] if equal]
        ties = f" = `{equal[0]['variant']}`" if len(equal) == 1 else f" = {len(equal)} others" if equal else ""
        limit = ""
        if rank == "rank" and "percent_of_limit" in best:
            self.bounded.append((report, best))
            limit = f", {best['percent_of_limit']:.0f} %"
        time = with_digits(best[measure], min(best["digits"][measure], 3))
        return f"{time}{limit} `{best['variant']}`{ties} ({self.reference.machine((report, best)).letter})"

    def row(self, report):
        """One article: the fastest of each column, first by time per iteration, then by whole answer."""
        cells = [cell for cell in report["cells"] if cell["precision"] == "f32" and cell["status"] == "ok"]
        problem = max(report["problems"], key=lambda problem: size(problem, cells))
        # Problems on the same data differ in the stop rule and the number of passes; a pass is a pass.
        same = {other["id"] for other in report["problems"]
                if all(other[key] == problem[key] for key in ("data", "k", "family"))}
        texts = []
        for measure, rank, kind in COSTS:
            of = same if kind == "passes" else {problem["id"]}
            for those in columns([cell for cell in cells if cell["problem"] in of], problem["family"]):
                best = fastest(those, measure, rank)
                getattr(self, kind).extend([(report, best)] if best else [])
                texts.append(self.shown(report, best, those, measure, rank))
        n, d = next(((cell["n"], cell["d"]) for cell in cells
                     if cell["problem"] == problem["id"] and "n" in cell), (0, 0))
        return f"| {report['title']} ({n:,}×{d}, k = {problem['k']}) | " + " | ".join(texts) + " |\n"

    def footer(self):
        """Machines, processes and samples, and what the ledgers lack."""
        reference = self.reference
        lines = [machine.line() for machine in reference.machines_of(self.passes + self.wholes)]
        said = [reference.sampling(self.passes, self.wholes), reference.ties(self.tied),
                reference.bounds(self.bounded, "docs/model_bound.md#what-it-leaves-out"),
                reference.older_uploads(self.wholes, "docs/ladder/whole_answer.md")]
        return "\n".join(f"- {line}" for line in [*lines, *filter(None, said)]) + "\n"

    def text(self):
        rows = "".join(map(self.row, self.reports))
        return HEAD + rows + "\n" + self.footer()


def main():
    page, source = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        head, rest = file.read().split(BEGIN)
    _, tail = rest.split(END)
    text = Headline(reports(source)).text()
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + text + END + tail)


if __name__ == "__main__":
    main()
