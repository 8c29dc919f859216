"""How many rounds a cell gets where nobody says it."""

import os
import pathlib
import subprocess
import sys
import unittest

from program import FAULTY, Program, ledger

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 2, "--no-probe", "--threads", 1,
           "--target", 100, "--min-time", 0]  # nine samples, whatever they are


class Rounds(Program):
    def numbers(self, *options, out="out", exit_code=0, **more):
        """The rounds of the ledger's rows."""
        self.run_program("run", *PROBLEM, *options, "--out", out, exit_code=exit_code, **more)
        header, rows = ledger(self.folder / out)
        return [row["round"] for row in rows]

    def test_as_many_as_the_budget_allows(self):
        self.assertEqual(self.numbers("--variant", "kmeans_serial", "--budget", 120), list(range(1, 9)))
        headers, rows = ledger(self.folder / "out")
        self.assertEqual(headers[0]["sampling"]["budget_seconds"], 15)  # of a round
        self.assertEqual(headers[0]["sampling"]["patience_seconds"], 1)  # of a process, at most
        self.assertTrue(all(row["took_ms"] > row["waited_for_quiet_ms"] >= 0 for row in rows))
        for row in rows:
            self.assertEqual(len(row["fixed_work_us"]), len(row["samples_ms"]))
            self.assertGreater(min(row["fixed_work_us"]), 1)
            if pathlib.Path("/proc/self/schedstat").exists():  # the kernel keeps an account of threads
                self.assertEqual(len(row["processors"]), 1)  # a variant with one thread
        self.assertEqual(self.numbers("--variant", "kmeans_serial", "--budget", 0, out="none"), [1])

    def test_a_number_is_a_number(self):
        self.assertEqual(self.numbers("--variant", "kmeans_serial", "--budget", 0, "--rounds", 3),
                         [1, 2, 3])
        headers, rows = ledger(self.folder / "out")
        self.assertEqual(headers[0]["sampling"]["patience_seconds"], 0)
        self.assertFalse(any("waited_for_quiet_ms" in row for row in rows))

    def test_patience_with_a_busy_machine_has_an_end(self):
        for _ in range(os.cpu_count()):
            busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"],
                                    stdout=subprocess.PIPE)
            self.addCleanup(busy.communicate)
            self.addCleanup(busy.kill)
            busy.stdout.readline()  # now it is
        self.numbers("--variant", "kmeans_serial", "--budget", 1)
        headers, rows = ledger(self.folder / "out")
        self.assertEqual(headers[0]["sampling"]["patience_seconds"], 0.25)
        for row in rows:
            if row["other_tasks"]:  # the system tells
                self.assertGreater(row["waited_for_quiet_ms"], 240)

    def test_one_where_answers_are_saved(self):
        self.assertEqual(self.numbers("--variant", "kmeans_serial", "--budget", 120, "--save", "saved"), [1])
        self.assertTrue((self.folder / "saved" / "kmeans_serial.labels.npy").exists())

    def test_what_failed_is_not_repeated(self):
        self.assertEqual(self.numbers("--variant", "kmeans_faulty_segfaults", "--budget", 120,
                                      program=FAULTY, exit_code=5), [1])

    def test_resumed_rounds_are_not_run_again(self):
        options = ["--variant", "kmeans_serial", "--budget", 120, "--starts", 1]
        self.numbers(*options)
        done = self.run_program("run", *PROBLEM, *options, "--resume", "--out", "out")
        self.assertIn("re-used 8 rows", done.stderr)
        self.assertEqual(len(ledger(self.folder / "out")[1]), 8)


if __name__ == "__main__":
    unittest.main()
