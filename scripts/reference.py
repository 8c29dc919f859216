"""What `table --json` says of the cells that README.md and docs/verdicts.md print: their machine, of how many
processes and samples they are, when they were measured, and what the machine's probe measured.

A cell is a pair (report, cell) of such a report.
"""

import json
from dataclasses import dataclass, field

# Since then points travel to a GPU as harness/worker/cuda/copy_belt.hpp has them travel.
POINTS_TRAVEL_SINCE = "2026-11-26T13:47:01Z"


def reports(path):
    """The JSON documents that stand one after another in a file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        report, at = decoder.raw_decode(text, at)
        at += 1
        yield report


def span(values):
    """The least and the greatest: "3 to 207", or "5"."""
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


def joined(words):
    """A, B and C."""
    words = list(words)
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


@dataclass
class Machine:
    """One environment, under the same letter in all tables."""

    letter: str
    name: str
    days: set = field(default_factory=set)
    shares: list = field(default_factory=list)  # of its processors' time, what its probes got [%]
    ledgers: dict = field(default_factory=dict)  # in order, without values

    def add(self, machine):
        self.days |= {machine[key] for key in ("first_date", "date") if key in machine}
        self.shares += [round(100 * share) for share in machine["cpu_shares"]]
        self.ledgers |= dict.fromkeys(machine["ledgers"])

    def line(self):
        """A: its name (days), and how much of it a program got."""
        text = f"{self.letter}: {self.name} ({span(self.days)})"
        if self.shares and min(self.shares) < 100:
            text += f"; its probe got {span(self.shares)} % of its processors' time (`cpu_share`)"
        return text + "."


class Reference:
    """The machines that reports name."""

    def __init__(self, all_reports):
        self.machines = {}
        for report in all_reports:
            for machine in report["machines"]:
                self.add_machine(report, machine)

    def add_machine(self, report, machine):
        """Letters follow the reports' order. A machine without a time gets none."""
        if any(cell.get("machine") == machine["id"] and cell["status"] == "ok" for cell in report["cells"]):
            letter = chr(ord("A") + len(self.machines))
            self.machines.setdefault(machine["environment"], Machine(letter, machine["name"])).add(machine)

    def machine(self, pair):
        return self.machines[self.entry(pair)["environment"]]

    def entry(self, pair):
        """What its report says of a cell's machine."""
        report, cell = pair
        return next(each for each in report["machines"] if each["id"] == cell["machine"])

    def compares(self, pair):
        """Whether the probe of a cell's machine has a rate of comparing: without it a bound is of bytes and products
        alone (harness/ledger/limits.cpp)."""
        limits = self.entry(pair)["limits"]
        figures = [limits.get("gpu") or {}] if pair[1]["device"] == "gpu" else limits.get("cpu") or []
        return any(key.startswith("compare_") for each in figures for key in each)

    def machines_of(self, pairs):
        """Each once, by letter."""
        found = {machine.letter: machine for machine in map(self.machine, pairs)}
        return [found[letter] for letter in sorted(found)]

    def samples(self, pairs, kind):
        """How many a cell has, of all its processes; kind: "runs" or "whole_answers"."""
        return [sum(cell[kind]) for _, cell in pairs]

    def processes(self, pairs):
        """How many each cell has: one for each of its rounds."""
        return [cell["rounds"] for _, cell in pairs]

    def sampling(self, passes, wholes, own=()):
        """How many processes and samples the printed times are of: per iteration, whole, from the own start."""
        parts = [f"{words} the median of {span(self.samples(pairs, kind))} runs" for words, pairs, kind in (
            ("per iteration", passes, "runs"), ("of a whole answer", wholes, "whole_answers")) if pairs]
        parts += ["from an article's own start one run of a process"] if own else []
        counts = self.processes([*passes, *wholes, *own])
        of = "one process (one round)" if max(counts) == 1 else f"{span(counts)} processes (rounds)"
        return f"Each time is of {of}: {', '.join(parts)}."

    def ties(self, tied):
        """What an = between variants rests on."""
        if not tied:
            return ""
        of = "samples of one process each" if max(self.processes(tied)) == 1 else "rounds"
        return f"An `=` stands between variants that {of} do not tell apart."

    def older_uploads(self, wholes, page):
        """A sentence where whole answers on a GPU are older than the way in which points travel now. page: the
        path of the page that says how they do."""
        old = {time[:10] for _, cell in wholes if cell["device"] == "gpu"
               for time in cell["times"] if time < POINTS_TRAVEL_SINCE}
        return (f"Whole answers on the GPU of {joined(sorted(old))} are older than the way in which points travel now "
                f"([whole answer]({page}))." if old else "")

    def bounds(self, pairs, page):
        """A sentence where percentages are of less than the model bound. page: the path of the one on it."""
        bare = [pair for pair in pairs if not self.compares(pair)]
        letters = joined(machine.letter for machine in self.machines_of(bare)) if bare else ""
        return (f"The percentages of {letters} are of a bound of bytes and multiply-adds alone: their probes have no "
                f"rate of comparing ([model bound]({page}))." if bare else "")
