"""`clusterbench table`: the articles' tables beside ours, from ledgers; what it refuses."""

import json
import shutil
import statistics
import unittest

import jsonschema

import ledgers
from program import QUICK, SOURCE, Program

SCHEMA = json.loads((SOURCE / "results" / "table.schema.json").read_text())
ARTICLES = sorted(path.stem for path in (SOURCE / "results" / "tables").glob("article*.json"))


def definition(name):
    return json.loads((SOURCE / f"results/tables/{name}.json").read_text())


class TableCommand(Program):
    def setUp(self):
        super().setUp()
        rows = [row for name in [*ARTICLES, "scaling"]
                for row in ledgers.rows_of_table(definition(name), rounds=2)]
        self.ledger = ledgers.write(self.folder / "all", [ledgers.header(), *rows])

    def report(self, name, *paths):
        sources = [part for path in paths or [self.ledger] for part in ("--from", path)]
        report = json.loads(self.run_program("table", name, *sources, "--json").stdout)
        jsonschema.validate(report, SCHEMA)
        return report

    def of_one_cell(self, *rows, header=None):
        """What is reported of article004 on 100 points from a ledger of these rows."""
        path = ledgers.write(self.folder / "some", [header or ledgers.header(), *rows])
        return [cell for cell in self.report("article004", path)["cells"]
                if cell["problem"] == "n=100" and cell["status"] != "not run"]

    def row(self, variant="kmeans_serial", samples=(3.0, 1.0, 2.0), **changes):
        words = ledgers.problem(definition("article004")["problems"][0])
        return ledgers.row(variant, samples, table="article004", words=words, passes=300,
                           **changes)

    def test_a_variant_joins_a_table_that_has_no_row_for_it(self):
        tables = self.folder / "results" / "tables"
        tables.mkdir(parents=True)
        self.environment["CLUSTERBENCH_TABLES"] = str(tables)
        problem = {"id": "p", "data": "uniform:60,2,1", "k": 3, "init": "first", "stop": "iterations",
                   "max_iterations": 2}
        (tables / "small.json").write_text(json.dumps(
            {"name": "small", "title": "small", "source": "tests", "problems": [problem],
             "rows": [{"variant": "kmeans_serial", "precisions": ["f32"], "problems": ["p"]}]}))
        rows = self.campaign("small", "--variant", "kmeans_openmp", "--variant", "kmeans_eigen_gemm",
                             "--precision", "f64")
        self.assertEqual({(row["name"], row["status"]) for row in rows},
                         {("small/p/kmeans_openmp/f64", "ok"), ("small/p/kmeans_eigen_gemm/f64", "ok")})
        rows = self.campaign("small", "--variant", "kmeans_serial*", out="listed")  # fits a row: none joins
        self.assertEqual([row["variant"] for row in rows], ["kmeans_serial"])
        report = json.loads(self.run_program("table", "small", "--from", "out", "--json").stdout)
        self.assertEqual({(cell["variant"], cell["precision"]): cell["status"] for cell in report["cells"]},
                         {("kmeans_serial", "f32"): "not run", ("kmeans_openmp", "f64"): "ok",
                          ("kmeans_eigen_gemm", "f64"): "ok"})

    def test_every_table_as_json(self):
        for name in [*ARTICLES, "scaling"]:
            report = self.report(name)
            wanted = {(row["variant"], precision, problem) for row in definition(name)["rows"]
                      for precision in row["precisions"] for problem in row["problems"]}
            self.assertEqual({(cell["variant"], cell["precision"], cell["problem"])
                              for cell in report["cells"]}, wanted)
            for form in ([], ["--compact"], ["--markdown"]):
                self.run_program("table", name, "--from", self.ledger, *form)

    def test_figures_are_the_ledgers(self):
        rounds = {}
        for row in map(json.loads, (self.ledger / "ledger.jsonl").read_text().splitlines()):
            if row.get("table") == "article004":
                rounds.setdefault((row["variant"], row["precision"], row["problem"]["id"]),
                                  []).append(row)
        cells = [cell for cell in self.report("article004")["cells"] if "median_ms" in cell]
        self.assertGreater(len(cells), 30)
        for cell in cells:
            rows = rounds[cell["variant"], cell["precision"], cell["problem"]]
            for key in ("median_ms", "ms_per_iteration", "whole_ms", "prepare_ms", "cold_ms"):
                self.assertAlmostEqual(cell[key], statistics.median(row[key] for row in rows))
            self.assertAlmostEqual(cell["own_start_ms"],
                                   statistics.median(row["own_start"]["ms"] for row in rows))
            self.assertEqual({row["iterations"] for row in rows}, {cell["iterations"]})

    def test_ranks_by_iteration_and_by_whole_answer(self):
        cells = [cell for cell in self.report("article004")["cells"]
                 if cell["problem"] == "n=100" and cell["precision"] == "f32"]
        for rank, ms in (("rank", "ms_per_iteration"), ("whole_rank", "whole_ms")):
            ranked = sorted(cells, key=lambda cell: cell[rank])
            self.assertEqual([cell[rank] for cell in ranked], list(range(1, len(cells) + 1)))
            self.assertEqual([cell[ms] for cell in ranked], sorted(cell[ms] for cell in cells))
        last = max(cells, key=lambda cell: cell["rank"])["over_first"]
        self.assertTrue(last["paired"])
        self.assertLess(last["interval"][0], last["ratio"])

    def test_a_newer_wrong_row_is_wrong_and_one_that_lacks_the_backend_says_nothing(self):
        right, wrong = self.row(), self.row(status="wrong")
        cell, = self.of_one_cell(right, wrong)
        self.assertEqual((cell["status"], "rank" in cell), ("wrong", False))
        cell, = self.of_one_cell(wrong, right)
        self.assertEqual((cell["status"], cell["rank"]), ("ok", 1))
        cell, = self.of_one_cell(right, self.row(samples=None, status="unavailable"))
        self.assertEqual(cell["status"], "ok")

    def test_what_is_not_ranked_is_shown(self):
        cells = self.of_one_cell(
            self.row(), self.row("kmeans_openmp", samples=None, status="cheated"),
            self.row("kmeans_simd", unsandboxed=True),
            self.row("kmeans_numpy", approximate_within=0.01, verification=[
                {"labels_differ": 0.25, "relative_difference": 0.001}]))
        cells = {cell["variant"]: cell for cell in cells}
        self.assertEqual(cells["kmeans_openmp"]["unranked"], "cheated: why")
        self.assertEqual(cells["kmeans_simd"]["unranked"], "ran without a sandbox")
        self.assertEqual((cells["kmeans_serial"]["rank"], cells["kmeans_numpy"]["rank"]), (1, 1))
        self.assertEqual(cells["kmeans_numpy"]["approximate"],
                         {"within": 0.01, "labels_differ": 0.25, "objective_gap": 0.001})
        text = self.run_program("table", "article004", "--from", "some").stdout
        self.assertIn("25 % of labels differ, objective +0.001", text)
        self.assertRegex(text, r"≈1 +≈1 +kmeans_numpy")

    def test_an_edited_ledger_is_told(self):
        self.of_one_cell(self.row())
        path = self.folder / "some" / "ledger.jsonl"
        path.write_text(path.read_text().replace('"samples_ms":[3.0', '"samples_ms":[2.0'))
        self.assertEqual(len(self.report("article004", path)["edited"]), 1)
        for form in ([], ["--compact"], ["--markdown"]):
            text = self.run_program("table", "article004", "--from", "some", *form).stdout
            self.assertIn("some/ledger.jsonl: edited: line 2 is not as it was written", text)
        done = self.run_program("ledger", "some", exit_code=4)
        self.assertIn("edited: line 2", done.stdout)
        self.run_program("ledger", self.ledger)

    def test_printed_values_are_the_articles(self):
        published = json.loads((SOURCE / "results/published.json").read_text())["articles"]
        for name in ARTICLES:
            report = self.report(name)
            if report["published"] is None:
                self.assertEqual(report["beside"], [])
                continue
            article = published[report["published"]["article"]]
            times = article.get("seconds", article.get("milliseconds"))
            factor = 1000 if "seconds" in article else 1
            columns = len(article.get("columns", [0]))
            printed = {}
            for row in report["beside"]:
                printed.setdefault(row["key"].split(".")[1], []).append(row["published_ms"])
            # Every printed time is there once, in the article's columns.
            self.assertEqual(printed.keys(), times.keys())
            for key, values in printed.items():
                self.assertEqual(len(values), columns)
                wanted = times[key] if isinstance(times[key], list) else [times[key]]
                for value, want in zip(values, wanted):
                    self.assertAlmostEqual(value, want * factor, places=6)

    def test_markdown_names_its_command_only_when_spliced(self):
        text = self.run_program("table", "article004", "--from", self.ledger, "--markdown").stdout
        self.assertNotIn("Made by", text)

    def test_options_that_exclude_each_other(self):
        for option in ["--markdown", "--compact"]:
            done = self.run_program("table", "article004", "--from", self.ledger, "--json", option,
                                    exit_code=64)
            self.assertIn("--json excludes", done.stderr)

    def test_many_problems_of_which_few_ran(self):
        cells = ledgers.rows_of_table(definition("cpu_map"))
        some = {"2k x 4, k=16", "20k x 32, k=2"}
        path = ledgers.write(self.folder / "some", [ledgers.header(), *(
            row for row in cells if row["problem"]["id"] in some)])
        text = self.run_program("table", "cpu_map", "--from", path, "--markdown", "--compact").stdout
        lines = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
        self.assertEqual(set(lines[2:]) - {"precision"}, some)
        count = len(definition("cpu_map")["problems"]) - len(some)
        self.assertIn(f"Nothing ran {count} more of the table's problems.", text)

    # ---- equal work

    def test_a_ledger_of_the_smaller_sizes_is_other_work(self):
        self.run_program("run", "article004", "--quick", "--variant", "kmeans_serial", *QUICK,
                         "--out", "out")
        cells = {cell["problem"]: cell for cell in self.report("article004", "out")["cells"]
                 if cell["variant"] == "kmeans_serial" and cell["precision"] == "f32"}
        self.assertEqual(cells["n=100"]["rank"], 1)  # this size has no smaller one
        self.assertIn("bound on iterations 10, the table says 300", cells["n=100k"]["unranked"])
        self.assertNotIn("rank", cells["n=100k"])

    def test_days_are_those_of_the_tables_own_rows(self):
        def on(day, row):
            return {**row, "time": day + "T12:00:00Z"}

        other = ledgers.rows_of_table(definition("article003"))[0]

        def printed(*lines):
            path = ledgers.write(self.folder / "some", [ledgers.header(), *lines])
            text = self.run_program("table", "article004", "--from", path).stdout
            return text.split("\n  A: ")[1], self.report("article004", path)["machines"][0]

        text, machine = printed(on("2031-01-02", self.row()), on("2031-01-09", other))
        self.assertIn(" (2031-01-02).", text)
        self.assertEqual(machine["date"], "2031-01-02")
        self.assertNotIn("first_date", machine)
        text, machine = printed(on("2031-01-02", self.row()),
                                on("2031-01-09", self.row("kmeans_openmp")))
        self.assertIn(" (2031-01-02 to 2031-01-09).", text)
        self.assertEqual((machine["first_date"], machine["date"]), ("2031-01-02", "2031-01-09"))

    # ---- bad input

    def test_machines_of_one_name_are_told_apart(self):
        for name, microcode in (("one", "0x1"), ("two", "0x2")):
            header = ledgers.header(model="Twin", cpu={"microcode": microcode})
            rows = ledgers.rows_of_table(definition("article004"), variants=["kmeans_serial"])
            ledgers.write(self.folder / name, [header, *rows])
        text = " ".join(self.run_program("table", "article004", "--from", "one", "--from", "two").stdout.split())
        difference = 'as A, but cpu/microcode: "0x1", "0x2"'
        self.assertRegex(text, f"B: Twin, 2 cores .*; {difference}")
        self.assertIn(difference, self.run_program("ledger", "one", "two").stdout)
        alone = self.run_program("table", "article004", "--from", "one").stdout
        self.assertNotIn("as A, but", alone)

    def test_ledgers_of_other_schemas_are_refused_with_both_versions(self):
        for schema, words in ((7, "has schema 7, .* knows up to 2"),
                              (1, "has schema 1, .* reads schema 2 alone.* measured again")):
            ledgers.write(self.folder / "some", [ledgers.header(schema=schema)])
            done = self.run_program("table", "article004", "--from", "some", exit_code=64)
            self.assertRegex(done.stderr, r"some/ledger\.jsonl: line 1 " + words)

    def refused(self, change, published_change=lambda published: None):
        """What is said of article004 with a changed definition or changed published figures."""
        results = self.folder / "results"
        shutil.copytree(SOURCE / "results" / "tables", results / "tables", dirs_exist_ok=True)
        definition = json.loads((results / "tables/article004.json").read_text())
        published = json.loads((SOURCE / "results/published.json").read_text())
        change(definition["published"])
        published_change(published["articles"]["article004"])
        (results / "tables/article004.json").write_text(json.dumps(definition))
        (results / "published.json").write_text(json.dumps(published))
        self.environment["CLUSTERBENCH_TABLES"] = str(results / "tables")
        done = self.run_program("table", "article004", "--from", self.ledger, exit_code=64)
        self.assertIn("article004.json: published", done.stderr)
        run = self.run_program("run", "article004", "--out", "out", exit_code=64)
        self.assertEqual(run.stderr, done.stderr)  # before anything is run
        self.assertFalse((self.folder / "out").exists())
        return done.stderr

    def test_malformed_references_are_named(self):
        def row(**changes):
            return lambda published: published["rows"][1].update(changes)

        self.assertIn('row 2: there is no "seconds.cppp" in', self.refused(row(key="seconds.cppp")))
        self.assertIn("published.json: article004", self.refused(row(key="seconds.cppp")))
        self.assertIn('row 2: "workload.n" must begin with', self.refused(row(key="workload.n")))
        self.assertIn('row 2: unknown key "variants"', self.refused(row(variants=["x"])))
        self.assertIn('row 2: unknown key "line"', self.refused(row(line=801)))
        self.assertIn('row 2: "factor" must be a positive number', self.refused(row(factor=0)))
        self.assertIn("no cell of the table", self.refused(row(variant="kmeans_cereal_points")))
        self.assertIn('"factor" and "factor_reason"', self.refused(row(factor=3)))
        self.assertIn('has no article "nobody"',
                      self.refused(lambda published: published.update(article="nobody")))
        self.assertIn('no row is labelled "Nobody"',
                      self.refused(lambda published: published.update(baseline="Nobody")))
        self.assertIn('no column "n=1000"', self.refused(
            lambda published: published["columns"][0].update(column="n=1000")))
        self.assertIn('"rows" must be a list',
                      self.refused(lambda published: published.update(rows=3)))
        self.assertIn('"passes" is missing',
                      self.refused(lambda published: published.update(speedup_of="iteration")))

    def test_malformed_figures_are_named(self):
        for value in ["fast", [0.1], [0.1, -1], None]:
            message = self.refused(lambda published: None,
                                   lambda article: article["seconds"].update(cpp=value))
            self.assertRegex(message, '"seconds.cpp" in .*published.json: article004.* is not a positive')


if __name__ == "__main__":
    unittest.main()
