"""The records of the trial and of fuzzing add up over many runs, and docs/reliability.md says what they
say."""

import csv
import os
import pathlib
import re
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests/trial"))
import record  # noqa: E402

TRIAL = SOURCE / "tests/trial/done.csv"
FUZZ = SOURCE / "tests/fuzz/done.csv"


class Records(unittest.TestCase):
    def test_a_run_goes_on_after_those_before(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "done.csv"
            for failures in ([0, 0, 1], [0]):
                run = record.Record(path, 7, "abc")
                for failed in failures:
                    run.add(failed)
            other = record.Record(path, 8, "abc+")
            self.assertEqual(other.row["first"], 0)
            other.add(0)
            self.assertEqual(path.read_text(), "seed,first,attempts,failed,commit\n"
                                               "7,0,3,1,abc\n7,3,1,0,abc\n8,0,1,0,abc+\n")
            self.assertEqual(record.totals(path), (5, 1))

    def test_no_attempt_counts_twice(self):
        done = set()
        for row in record.rows_of(TRIAL):
            numbers = {(row["seed"], number) for number in range(row["first"], row["first"] + row["attempts"])}
            self.assertEqual(numbers & done, set())
            done |= numbers

    def test_the_page_says_what_the_records_say(self):
        page = " ".join((SOURCE / "docs/reliability.md").read_text().split())
        attempts, failed = record.totals(TRIAL)
        self.assertIn(f"So far {attempts:,} attempts were made, and {failed} failed.", page)
        executions, crashed = {}, 0
        with open(FUZZ, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                executions[row["target"]] = executions.get(row["target"], 0) + int(row["executions"])
                crashed += int(row["crashed"])
        said = dict(re.findall(r"`(\w+)` ([\d.]+) million", page))
        self.assertEqual({target: f"{count / 1e6:.3g}" for target, count in executions.items()}, said)
        self.assertIn(f"crashes: {crashed}.", page)


if __name__ == "__main__":
    unittest.main()
