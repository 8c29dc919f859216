"""What a campaign leaves: every line of its ledger follows results/schema.json, its header says
where the times come from, and gbench.json is what Google Benchmark's own tools read."""

import copy
import json
import os
import pathlib
import subprocess
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

import ledgers
from program import FAULTY, QUICK, SOURCE, Program, ledger

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]
COMPARE = pathlib.Path("/usr/share/benchmark/compare.py")


@unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
class Schema(Program):
    """One campaign with every status there is, and what the schema makes of its lines."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        schema = json.loads((SOURCE / "results" / "schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        cls.validator = jsonschema.Draft7Validator(schema)
        cls.schema = schema
        runner = cls("run_program")
        runner.setUp()
        cls.addClassCleanup(runner.doCleanups)
        # Only what hangs can have a short limit: it is a whole process's, and machines are slow.
        for variants, timeout, code in ((runner.write_table(), 100, 2),
                                        (["kmeans_faulty_hangs"], 2, 5)):
            words = [word for name in variants for word in ("--variant", name)]
            runner.run_program("run", "all_ends", *words, "--samples", 2, "--budget", 0,
                               "--threads", 1, "--no-probe", "--timeout", timeout, "--out", "out",
                               "--peer", SOURCE / "tests" / "programs" / "kmeans_fake.py",
                               program=FAULTY, exit_code=code)
        headers, cls.lines = ledger(runner.folder / "out")
        cls.header = headers[0]
        cls.rows = {row["status"]: row for row in cls.lines}

    def write_table(self):
        """A table with a cell for every status but `interrupted`, which is no end; all variants but
        the one that hangs."""
        tables = self.folder / "tables"
        tables.mkdir()
        self.environment["CLUSTERBENCH_TABLES"] = str(tables)
        variants = ["kmeans_serial", "kmeans_serial_points", "kmeans_faulty_wrong_later",
                    "kmeans_faulty_claims_no_passes", "kmeans_faulty_drops_tail",
                    "kmeans_faulty_throws_garbage", "kmeans_faulty_segfaults",
                    "kmeans_faulty_fills_memory", "kmeans_faulty_refuses",
                    "kmeans_fake_unavailable"]
        table = {"name": "all_ends", "title": "All ends", "source": "tests",
                 "problems": [{"id": "small", "data": "uniform:2000,2,1", "k": 3, "init": "first",
                               "stop": "iterations", "max_iterations": 3}],
                 "rows": [{"variant": variant, "problems": ["small"],
                           "precisions": ["f64" if "_fake_" in variant else "f32"]}
                          for variant in [*variants, "kmeans_faulty_hangs"]]}
        (tables / "all_ends.json").write_text(json.dumps(table))
        return variants

    def errors(self, line):
        definition = {"$ref": "#/definitions/" + line["type"]}
        specific = jsonschema.Draft7Validator({**definition, "definitions":
                                               self.schema["definitions"]})
        return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
                for error in specific.iter_errors(line)]

    def test_every_line_follows_it(self):
        self.assertEqual(set(self.rows), {"ok", "wrong", "refused", "unavailable", "error",
                                          "crashed", "timed_out", "out_of_memory"})
        for line in [self.header, *self.lines]:
            with self.subTest(line.get("name", "header")):
                self.assertEqual(self.errors(line), [])
                self.assertTrue(self.validator.is_valid(line))

    def test_missing_and_renamed_fields_fail(self):
        for line, definition in ((self.header, "header"), (self.rows["ok"], "cell"),
                                 (self.rows["crashed"], "cell")):
            for field in self.schema["definitions"][definition]["required"]:
                with self.subTest(f"{definition}: {field}"):
                    missing = copy.deepcopy(line)
                    value = missing.pop(field)
                    self.assertFalse(self.validator.is_valid(missing))
                    self.assertFalse(self.validator.is_valid({**missing, field + "_": value}))

    def test_measured_rows_need_their_figures(self):
        for field in ("samples_ms", "sample_starts", "sample_iterations", "own_start", "whole",
                      "whole_ms", "cold_ms", "median_ms", "interval_ms", "verification",
                      "single_steps", "trace", "clock", "iterations"):
            with self.subTest(field):
                missing = copy.deepcopy(self.rows["ok"])
                del missing[field]
                self.assertFalse(self.validator.is_valid(missing))

    def test_other_values_fail(self):
        for change in ({"status": "fine"}, {"message": "but"}, {"precision": "f16"}, {"round": 0},
                       {"samples_ms": []}, {"median_ms": None}, {"schema": 1}, {"key": "abc"},
                       {"chain": "abc"},
                       {"time": "yesterday"}, {"surprise": 1}, {"problem": {"k": 3}}):
            with self.subTest(change):
                self.assertFalse(self.validator.is_valid({**self.rows["ok"], **change}))
        for status in ("wrong", "crashed", "refused"):
            self.assertFalse(self.validator.is_valid({**self.rows[status], "message": ""}))

    def test_limits_of_a_probe(self):
        limits = json.loads(self.run_program("probe", "--quick", "--json", "--threads", 1).stdout)
        self.assertEqual(self.errors({**self.header, "limits": limits}), [])
        del limits["cpu"]
        self.assertNotEqual(self.errors({**self.header, "limits": limits}), [])


class Header(Program):
    def test_provenance(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial", "--seed", 7)
        headers, _ = ledger(self.folder / "out")
        header = headers[0]
        self.assertEqual(header["seed"], 7)
        self.assertGreaterEqual(header["starts_seed"], 0)
        self.assertEqual(header["sampling"]["samples"], 1)
        self.assertEqual(header["cache_between_samples"], "kept")
        self.assertIn("uniform:2000,2,1", header["command_line"])
        self.assertEqual(header["command_line"][0], "clusterbench")  # and not where it lies
        build = header["provenance"]["build"]
        self.assertTrue(build["march"])
        self.assertIn("-march=" + build["march"], build["flags"])
        self.assertRegex(build["compiler"], r"\d+\.\d+")
        self.assertRegex(build["git_commit"], r"^([0-9a-f]{40}|unknown)$")
        self.assertTrue(any(name.startswith("libbenchmark")
                            for name in header["provenance"]["libraries"]["loaded"]))
        self.assertTrue(header["provenance"]["gpu"]["devices"] or
                        header["provenance"]["gpu"]["missing_reason"])

    def test_nothing_names_the_host(self):
        rows = self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        self.assertEqual(rows[0]["gbench_context"].get("host_name", ""), "")

    def test_every_invocation_writes_one(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        self.campaign(*PROBLEM, "--variant", "kmeans_openmp")
        headers, rows = ledger(self.folder / "out")
        self.assertEqual(len(headers), 2)
        self.assertEqual([row["variant"] for row in rows], ["kmeans_serial", "kmeans_openmp"])


class Chain(Program):
    """What the program has written it finds as it was, and says where it is not."""

    def test_campaigns_go_on_with_it(self):
        for variant in ("kmeans_serial", "kmeans_openmp"):
            self.campaign(*PROBLEM, "--variant", variant)
        headers, rows = ledger(self.folder / "out")
        self.assertEqual([len(headers), len(rows)], [2, 2])
        chain = ""  # over the text as it stands: Python writes some numbers with fewer digits
        for line in (self.folder / "out" / "ledger.jsonl").read_text().splitlines():
            chain = ledgers.sha256(chain + line[:line.rindex(',"chain":')] + "}")
            self.assertEqual(json.loads(line)["chain"], chain)
        self.run_program("ledger", "out")

    def test_an_edit_is_found_and_a_campaign_goes_on_all_the_same(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        path = self.folder / "out" / "ledger.jsonl"
        path.write_text(path.read_text().replace('"round":1', '"round":2'))
        for command in (["ledger", "out"], ["compare", "out", "out"]):
            done = self.run_program(*command, exit_code=4)
            self.assertIn("out/ledger.jsonl: edited: line 2", done.stdout)
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out",
                                "out", "--resume", exit_code=4)
        self.assertIn("edited: line 2", done.stderr)
        self.assertIn("edited: line 2", self.run_program("ledger", "out", exit_code=4).stdout)

    def test_re_used_rows_of_an_edited_ledger_are_told(self):
        words = ["run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out", "out"]
        self.run_program(*words)
        path = self.folder / "out" / "ledger.jsonl"
        header, row = path.read_text().splitlines(keepends=True)
        faster = json.loads(row)
        faster["samples_ms"] = [0.001 * ms for ms in faster["samples_ms"]]
        path.write_text(header + json.dumps(faster) + "\n")
        done = self.run_program(*words, "--resume", exit_code=4)
        self.assertIn("re-used 1 rows", done.stderr)
        self.assertIn("out/ledger.jsonl: edited: line 2 is not as it was written", done.stdout)
        report = json.loads(self.run_program(*words, "--resume", "--json", exit_code=4).stdout)
        self.assertEqual(report["exit_code"], 4)
        self.assertRegex(report["tables"][0]["edited"][0], "edited: line 2")
        # What the run measures itself is no business of the edit.
        other = [4 if word == 3 else word for word in words]
        for done in (self.run_program(*other, "--resume"), self.run_program(*words)):
            self.assertIn("edited: line 2", done.stderr)
            self.assertNotIn("edited", done.stdout)

    def test_blank_lines_at_the_end_break_no_chain(self):
        words = ["run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out", "out"]
        for blank in ("\n", "\n \t\n\r\n"):
            self.run_program(*words)
            with (self.folder / "out" / "ledger.jsonl").open("a", newline="") as file:
                file.write(blank)
        self.run_program(*words)
        self.assertNotIn("edited", self.run_program("ledger", "out").stdout)


class GoogleBenchmark(Program):
    def measured(self, out):
        self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", "--variant",
                         "kmeans_openmp", "--samples", 10, "--budget", 0, "--threads", 1,
                         "--no-probe", "--rounds", 2, "--out", out)
        return json.loads((self.folder / out / "gbench.json").read_text())

    def test_structure(self):
        written = self.measured("out")
        for field in ("date", "executable", "num_cpus", "mhz_per_cpu", "cpu_scaling_enabled",
                      "caches", "load_avg", "library_build_type"):
            self.assertIn(field, written["context"])
        _, rows = ledger(self.folder / "out")
        self.assertEqual(len(written["benchmarks"]), sum(len(row["samples_ms"]) for row in rows))
        for benchmark in written["benchmarks"]:
            self.assertEqual(benchmark["run_type"], "iteration")
            self.assertEqual(benchmark["time_unit"], "ms")
            self.assertEqual(benchmark["iterations"], 1)
            self.assertEqual(benchmark["run_name"], benchmark["name"])
            self.assertGreaterEqual(benchmark["repetitions"], 10)
            self.assertIn(benchmark["repetition_index"], range(benchmark["repetitions"]))
            # 0 where the kernel counts a thread's time in ticks and none of them fell into the run
            self.assertGreaterEqual(benchmark["cpu_time"], 0)
        for row in rows:
            for field, times in (("real_time", "samples_ms"), ("cpu_time", "cpu_ms")):
                rounds = [other[times] for other in rows if other["name"] == row["name"]]
                self.assertEqual([benchmark[field] for benchmark in written["benchmarks"]
                                  if benchmark["name"] == row["name"]], sum(rounds, []))

    def test_it_holds_all_of_the_ledger(self):
        def names():
            written = json.loads((self.folder / "out" / "gbench.json").read_text())
            return [benchmark["name"].split("/")[-2] for benchmark in written["benchmarks"]]

        self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        self.campaign(*PROBLEM, "--variant", "kmeans_openmp", "--resume")
        self.assertEqual(names(), ["kmeans_serial", "kmeans_openmp"])
        self.campaign(*PROBLEM, "--variant", "kmeans_serial")  # newer rows of a cell that is there
        self.assertEqual(names(), ["kmeans_serial", "kmeans_openmp"])
        written = json.loads((self.folder / "out" / "gbench.json").read_text())["benchmarks"]
        self.assertEqual(written[0]["real_time"],
                         ledger(self.folder / "out")[1][-1]["samples_ms"][0])

    @unittest.skipUnless(COMPARE.exists(), "libbenchmark-tools is not installed")
    def test_compare_py_reads_it(self):
        self.measured("base")
        self.measured("new")
        done = subprocess.run([os.environ["CLUSTERBENCH_PYTHON"], COMPARE, "benchmarks",
                               "base/gbench.json", "new/gbench.json"], cwd=self.folder,
                              capture_output=True, text=True)
        if "ModuleNotFoundError" in done.stderr:
            self.skipTest(done.stderr.splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("adhoc/uniform:2000,2,1/kmeans_serial/f32", done.stdout)
        # Its U test needs the samples of both campaigns to be recognised as repetitions.
        self.assertIn("kmeans_serial/f32_pvalue", done.stdout)
        self.assertRegex(done.stdout, r"U Test, Repetitions: 2\d vs 2\d")


if __name__ == "__main__":
    unittest.main()
