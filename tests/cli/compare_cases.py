"""Campaigns that are written by hand, so that nothing depends on a clock, and `clusterbench compare`."""

import json

import ledgers
from program import Program


def row(name, samples, status="ok", round_number=1, problem="p", threads=2, message="", **changes):
    """A row of the cell `name`; one without samples has no time."""
    return ledgers.row(samples=list(samples) or None, status=status, round_number=round_number,
                       words=ledgers.problem(hash=problem), threads=threads, name=name,
                       message=message, **changes)


# What processes of one build differ by.
PACES = [1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 0.996, 1.003]


def rounds(name, samples, paces=PACES, **changes):
    """The cell in as many processes as there are paces."""
    return [row(name, [pace * x for x in samples], round_number=i + 1, **changes)
            for i, pace in enumerate(paces)]


class Compare(Program):
    STEADY = [10 + 0.001 * i for i in range(20)]

    def write(self, name, rows, seed=None, **header):
        """Without a seed nothing is known of the starts, as where seeds are not the same."""
        return ledgers.write(self.folder / name, [ledgers.header(seed=seed, **header), *rows])

    def compare(self, base, new, *options, exit_code=0):
        self.write("base", base)
        self.write("new", new)
        done = self.run_program("compare", "base", "new", "--json", *options, exit_code=exit_code)
        result = json.loads(done.stdout)
        self.assertEqual(result["exit_code"], done.returncode)
        return result

    def verdict(self, base, new, *options, exit_code=0):
        """Of samples that eight processes have taken on each side."""
        cells = self.compare(rounds("c", base), rounds("c", new), *options, exit_code=exit_code)
        return cells["cells"][0]["verdict"]
