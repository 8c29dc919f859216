"""`clusterbench compare` of what campaigns have written, and the forms in which it answers."""

import json
import unittest

import ledgers
from compare_cases import Compare, row, rounds
from program import ledger


class Files(Compare):
    def make_quiet(self, folder):
        """Says of a ledger's samples that nobody else ran, whatever the tests beside this one do."""
        headers, cells = ledger(self.folder / folder)
        for line in (lines := headers + cells):
            del line["chain"]
            for name, value in (("other_tasks", 0.0), ("fixed_work_us", 50.0)):
                if name in line:
                    line[name] = [value] * len(line["samples_ms"])
        ledgers.write(self.folder / folder, lines)

    def test_real_campaigns_in_every_form(self):
        for out in ("one", "two"):
            self.run_program("run", "--data", "uniform:500,2,1", "--k", 3, "--iterations", 2,
                             "--variant", "kmeans_serial", "--samples", 12, "--min-time", 0,
                             "--rounds", 3, "--no-probe", "--threads", 1, "--out", out)
            self.make_quiet(out)
        _, rows = ledger(self.folder / "one")
        forms = ["", "/ledger.jsonl", "/gbench.json"]
        for base in forms:
            for new in forms:
                with self.subTest(base=base, new=new):
                    done = self.run_program("compare", "one" + base, "one" + new, "--json",
                                            "--min-effect", 100000)
                    cell = json.loads(done.stdout)["cells"][0]
                    self.assertEqual(cell["name"], rows[0]["name"])
                    self.assertEqual(cell["ratio"], 1.0)
                    self.assertEqual(cell["verdict"], "same")
        done = self.run_program("compare", "one", "two", "--min-effect", 100000)
        table, problem, variant, precision = rows[0]["name"].split("/")
        self.assertRegex(done.stdout, rf"\n{table}/{problem}, {precision}\n  variant .*\n  {variant} ")
        wide = self.run_program("compare", "one", "two", "--wide", "--min-effect", 100000).stdout
        self.assertIn(rows[0]["name"], wide)
        self.assertIn("geometric mean", done.stdout)

    def test_numbers_of_threads_in_googles_form(self):
        for threads in (1, 2):
            self.run_program("run", "--data", "uniform:500,2,1", "--k", 3, "--iterations", 2,
                             "--variant", "kmeans_serial", "--samples", 5, "--min-time", 0,
                             "--no-probe", "--threads", threads, "--out", "one")
        path = self.folder / "one" / "gbench.json"
        written = json.loads(path.read_text())
        names = {row["name"] for row in written["benchmarks"]}
        name = "adhoc/uniform:500,2,1/kmeans_serial/f32"
        self.assertEqual(names, {f"{name}/threads:1", f"{name}/threads:2"})
        for pair in (("one", "one/gbench.json"), ("one/gbench.json", "one")):
            cells = json.loads(self.run_program("compare", *pair, "--json", "--min-effect", 1000,
                                                exit_code=(0, 1, 3)).stdout)["cells"]
            self.assertEqual([(cell["name"], cell["ratio"]) for cell in cells],
                             [(f"{name}, 1 thread", 1.0), (f"{name}, 2 threads", 1.0)])
        history = json.loads(self.run_program("history", "one", "one/gbench.json", "--json").stdout)
        self.assertEqual([(cell["shown"], cell["threads"], len(cell["moments"]))
                          for cell in history["cells"]],
                         [(f"{name}, 1 thread", 1, 2), (f"{name}, 2 threads", 2, 2)])
        self.assertIn(f"{name}, 2 threads\n", self.run_program("history", "one").stdout)
        # Files of another program, or of an older one, tell neither threads nor problem.
        for row in written["benchmarks"]:
            del row["cell"]
            row["name"] = name
        written["benchmarks"] = [row for row in written["benchmarks"]][:5]
        path.write_text(json.dumps(written))
        (cell, other) = json.loads(self.run_program("history", "one", "one/gbench.json",
                                                    "--json").stdout)["cells"]
        self.assertEqual([len(cell["moments"]), len(other["moments"])], [2, 1])

    def test_markdown(self):
        times = self.STEADY
        self.write("base", rounds("c", times) + rounds("gone", times))
        self.write("new", rounds("c", [1.5 * x for x in times]))
        text = self.run_program("compare", "base", "new", "--markdown", exit_code=5).stdout
        table = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(len(table), 4)
        self.assertEqual({line.count("|") for line in table}, {7})
        self.assertIn("1.50", table[2])
        self.assertIn("slower", table[2])
        self.assertIn("missing", table[3])

    def test_bad_input(self):
        self.write("base", [row("c", self.STEADY)])
        (self.folder / "no.json").write_text("{}")
        (self.folder / "torn.json").write_text("{")
        (self.folder / "rows.jsonl").write_text(ledgers.chained([row("c", [1.0])]))
        (self.folder / "unit.json").write_text(json.dumps(
            {"context": {}, "benchmarks": [{"name": "x", "real_time": 1, "time_unit": "h"}]}))
        (self.folder / "name.json").write_text(json.dumps(
            {"context": {}, "benchmarks": [{"name": "x", "real_time": 1}, {"name": 3}]}))
        for bad in ("absent", "no.json", "torn.json", "rows.jsonl", "unit.json", "name.json"):
            with self.subTest(bad):
                done = self.run_program("compare", "base", bad, exit_code=64)
                self.assertIn(bad, done.stderr)
                self.assertNotIn("json.exception", done.stderr)
        self.assertIn("name.json: benchmarks[1]: type must be string", done.stderr)
        (self.folder / "large.json").write_text(
            '{"context": {}, "benchmarks": [\n{"name": "x",\n"real_time": 1e999}]}')
        self.assertIn("large.json: line 3: 1e999 is too large a number",
                      self.run_program("compare", "base", "large.json", exit_code=64).stderr)
        self.run_program("compare", "base", exit_code=64)
        self.run_program("compare", "base", "base", "--min-effect", "-1", exit_code=64)
        self.run_program("compare", "base", "base", "--json", "--markdown", exit_code=64)


if __name__ == "__main__":
    unittest.main()
