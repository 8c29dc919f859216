"""Which attempts of the trial were made, in a small file that grows over many runs: a line for each run
of attempts one after another, with the seed, how many failed, and the commit that was tried (with a `+`: and changes)."""

import csv
import pathlib

FIELDS = ["seed", "first", "attempts", "failed", "commit"]


class Record:
    def __init__(self, path, seed, commit):
        """Begins a line, whose attempts follow those that the file has of this seed."""
        self.path = pathlib.Path(path)
        self.rows = rows_of(self.path)
        first = max((row["first"] + row["attempts"] for row in self.rows if row["seed"] == seed), default=0)
        self.row = {"seed": seed, "first": first, "attempts": 0, "failed": 0, "commit": commit}
        self.rows.append(self.row)

    def add(self, failed):
        """One attempt more. The file is written anew, so that a run that is killed has what it did."""
        self.row["attempts"] += 1
        self.row["failed"] += failed
        written = self.path.with_suffix(".part")
        with open(written, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        written.replace(self.path)


def rows_of(path):
    if not pathlib.Path(path).exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: value if name == "commit" else int(value) for name, value in row.items()}
                for row in csv.DictReader(file)]


def totals(path):
    """Attempts and failures of all runs."""
    rows = rows_of(path)
    return sum(row["attempts"] for row in rows), sum(row["failed"] for row in rows)

