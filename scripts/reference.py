"""What the ledgers behind `table --json` say of the cells that README.md and docs/verdicts.md print: their
machine, how many processes and samples, when, and what the machine's probe measured.

A cell is a pair (report, cell) of such a report. Times come from the report, and never from here.
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


def read_ledger(path):
    """What counts here of a ledger's rows, each with the header that it stands under."""
    rows, header = [], None
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["type"] == "header":
                header = line
            elif line["type"] == "cell":
                rows.append({key: line.get(key) for key in ("name", "threads", "round", "status", "time")} |
                            {"samples": len(line.get("samples_ms", ())), "whole": len(line.get("whole", ())),
                             "build": line.get("build") or header.get("binary_sha256"), "header": header})
    return rows


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
    headers: dict = field(default_factory=dict)  # by their time
    ledgers: dict = field(default_factory=dict)  # in order, without values

    def add(self, machine, headers):
        self.days |= {machine[key] for key in ("first_date", "date") if key in machine}
        self.headers |= {header["time"]: header for header in headers}
        self.ledgers |= dict.fromkeys(machine["ledgers"])

    def shares(self):
        """Of its processors' time, what its probes got [%]."""
        return [round(100 * cpu["cpu_share"]) for header in self.headers.values()
                for cpu in header["limits"].get("cpu") or ()]

    def compares(self, device):
        """Whether its newest probe has a rate of comparing: without it a bound is of bytes and products alone
        (harness/ledger/limits.cpp)."""
        limits = self.headers[max(self.headers)]["limits"]
        figures = [limits.get("gpu") or {}] if device == "gpu" else limits.get("cpu") or []
        return any(key.startswith("compare_") for each in figures for key in each)

    def line(self):
        """A: its name (days), and how much of it a program got."""
        text = f"{self.letter}: {self.name} ({span(self.days)})"
        shares = self.shares()
        if shares and min(shares) < 100:
            text += f"; its probe got {span(shares)} % of its processors' time (`cpu_share`)"
        return text + "."


class Reference:
    """The ledgers that reports name."""

    def __init__(self, all_reports):
        self.rows_of_ledger, self.machines = {}, {}
        for report in all_reports:
            for machine in report["machines"]:
                self.add_machine(report, machine)

    def add_machine(self, report, machine):
        """Letters follow the reports' order. A machine without a time gets none."""
        cell = next((cell for cell in report["cells"]
                     if cell.get("machine") == machine["id"] and cell["status"] == "ok"), None)
        if cell is None:
            return
        environment = self.environment((report, cell))
        known = self.machines.setdefault(environment, Machine(chr(ord("A") + len(self.machines)), machine["name"]))
        headers = [row["header"] for path in machine["ledgers"] for row in self.ledger(path)]
        known.add(machine, [each for each in headers if each["environment_hash"] == environment])

    def ledger(self, path):
        if path not in self.rows_of_ledger:
            self.rows_of_ledger[path] = read_ledger(path)
        return self.rows_of_ledger[path]

    def rows(self, pair):
        """The rows that a cell was made of, one of each process: of the newest build, and of a round that was run
        again the newest, as harness/ledger/measurements.cpp has it."""
        report, cell = pair
        name = f"{report['name']}/{cell['problem']}/{cell['variant']}/{cell['precision']}"
        machine = next(each for each in report["machines"] if each["id"] == cell["machine"])
        rows = sorted((row for path in machine["ledgers"] for row in self.ledger(path)
                       if (row["name"], row["threads"], row["status"]) == (name, cell["threads"], "ok")),
                      key=lambda row: row["time"])
        rounds = {row["round"]: row for row in rows if row["build"] == rows[-1]["build"]}
        if len(rounds) != cell["rounds"]:
            raise SystemExit(f"{name}: the table has {cell['rounds']} rounds, its ledgers {len(rounds)}")
        return list(rounds.values())

    def environment(self, pair):
        return self.rows(pair)[0]["header"]["environment_hash"]

    def machine(self, pair):
        return self.machines[self.environment(pair)]

    def machines_of(self, pairs):
        """Each once, by letter."""
        found = {machine.letter: machine for machine in map(self.machine, pairs)}
        return [found[letter] for letter in sorted(found)]

    def samples(self, pairs, kind):
        """How many a cell has, of all its processes; kind: "samples" of runs or "whole" answers."""
        return [sum(row[kind] for row in self.rows(pair)) for pair in pairs]

    def processes(self, pairs):
        """How many each cell has: one for each of its rounds."""
        return [len(self.rows(pair)) for pair in pairs]

    def sampling(self, passes, wholes, own=()):
        """How many processes and samples the printed times are of: per iteration, whole, from the own start."""
        parts = [f"{words} the median of {span(self.samples(pairs, kind))} runs" for words, pairs, kind in (
            ("per iteration", passes, "samples"), ("of a whole answer", wholes, "whole")) if pairs]
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
        old = {row["time"][:10] for pair in wholes if pair[1]["device"] == "gpu"
               for row in self.rows(pair) if row["time"] < POINTS_TRAVEL_SINCE}
        return (f"Whole answers on the GPU of {joined(sorted(old))} are older than the way in which points travel now "
                f"([whole answer]({page}))." if old else "")

    def bounds(self, pairs, page):
        """A sentence where percentages are of less than the model bound. page: the path of the one on it."""
        bare = [pair for pair in pairs if not self.machine(pair).compares(pair[1]["device"])]
        letters = joined(machine.letter for machine in self.machines_of(bare)) if bare else ""
        return (f"The percentages of {letters} are of a bound of bytes and multiply-adds alone: their probes have no "
                f"rate of comparing ([model bound]({page}))." if bare else "")
