"""Figures that no row can hold, and what the library that takes samples is told by the environment."""

import unittest

import test_judge
from program import GOOD, QUICK, Program, ledger


class Module(Program):
    def test_a_phase_without_end_is_an_error_row(self):
        """And the campaign goes on: its ledger can be read."""
        source = self.folder / "mine.cpp"
        source.write_text(test_judge.lloyd().replace('const Phase<T> phase(observer, "update");',
                                                     'observer.phase("update", 1e308);'))
        done = self.run_program("judge", source, *test_judge.SMALL, *test_judge.FEWEST, "--alone", "--out",
                                "out", exit_code=5)
        self.assertIn("its reply's phase `update` is no number of seconds", done.stdout)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual({row["status"] for row in rows}, {"error"})
        self.run_program("ledger", "check", "out")


class Variables(Program):
    """What Google Benchmark takes from the environment decides nothing."""

    def test_none_decides(self):
        usual = dict(self.environment)
        for number, (name, value) in enumerate((
                ("BENCHMARK_LIST_TESTS", "true"), ("BENCHMARK_FILTER", "zzz"), ("BENCHMARK_MIN_TIME", "100"),
                ("BENCHMARK_MIN_WARMUP_TIME", "100"), ("BENCHMARK_REPETITIONS", "7"),
                ("BENCHMARK_ENABLE_RANDOM_INTERLEAVING", "true"), ("BENCHMARK_REPORT_AGGREGATES_ONLY", "true"),
                ("BENCHMARK_DISPLAY_AGGREGATES_ONLY", "true"), ("BENCHMARK_FORMAT", "xxx"),
                ("BENCHMARK_FORMAT", "csv"), ("BENCHMARK_OUT", "written"), ("BENCHMARK_OUT", "/nonexistent/x"),
                ("BENCHMARK_OUT_FORMAT", "zz"), ("BENCHMARK_COLOR", "zz"), ("BENCHMARK_COLOR", ""),
                ("BENCHMARK_COUNTERS_TABULAR", "true"), ("BENCHMARK_PERF_COUNTERS", "CYCLES"),
                ("BENCHMARK_CONTEXT", "date=never,more=1"), ("BENCHMARK_TIME_UNIT", "zz"),
                ("BENCHMARK_TIME_UNIT", "s"), ("V", "9"))):
            with self.subTest(name, value=value):
                self.environment = {**usual, name: value}
                out = f"out{number}"
                done = self.run_program("run", *GOOD, *QUICK, "--out", out)
                self.assertEqual(done.stderr.count("\n"), self.usual, done.stderr)
                (row,) = ledger(self.folder / out)[1]
                self.assertEqual((row["status"], row["gbench_row"]["time_unit"], len(row["samples_ms"])),
                                 ("ok", "ms", self.samples))
                self.assertEqual([*row["gbench_context"]], self.context)
                self.assertNotEqual(row["gbench_context"]["date"], "never")
                self.assertFalse((self.folder / "written").exists())

    def setUp(self):
        super().setUp()
        done = self.run_program("run", *GOOD, *QUICK, "--out", "out")
        (row,) = ledger(self.folder / "out")[1]
        self.usual = done.stderr.count("\n")
        self.samples, self.context = len(row["samples_ms"]), [*row["gbench_context"]]

    def test_what_gives_no_sample_is_a_row(self):
        self.environment["BENCHMARK_CONTEXT"] = "a=\udcff"  # which no JSON may hold
        self.run_program("run", *GOOD, *QUICK, "--out", "odd", exit_code=5)
        (row,) = ledger(self.folder / "odd")[1]
        self.assertEqual(row["status"], "error")
        self.assertRegex(row["message"], "^Google Benchmark gave no sample of it; a variable BENCHMARK_")


if __name__ == "__main__":
    unittest.main()
