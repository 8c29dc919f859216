"""`clusterbench table`: the articles' tables beside ours, from ledgers; what it refuses."""

import json
import shutil
import statistics
import unittest

import jsonschema

from program import QUICK, SOURCE, Program

REFERENCE = sorted((SOURCE / "results" / "reference").glob("*/ledger.jsonl"))
SCHEMA = json.loads((SOURCE / "results" / "table.schema.json").read_text())
ARTICLES = sorted(path.stem for path in (SOURCE / "results" / "tables").glob("article*.json"))


class TableCommand(Program):
    def report(self, name, *ledgers):
        sources = [part for ledger in ledgers for part in ("--from", ledger)]
        report = json.loads(self.run_program("table", name, *sources, "--json").stdout)
        jsonschema.validate(report, SCHEMA)
        return report

    def test_reference_runs_as_json(self):
        for name in ARTICLES + ["scaling"]:
            report = self.report(name, *REFERENCE)
            definition = json.loads((SOURCE / f"results/tables/{name}.json").read_text())
            wanted = {(row["variant"], precision, problem) for row in definition["rows"]
                      for precision in row["precisions"] for problem in row["problems"]}
            self.assertEqual({(cell["variant"], cell["precision"], cell["problem"])
                              for cell in report["cells"]}, wanted)

    def test_figures_are_the_ledgers(self):
        report = self.report("article004", *REFERENCE)
        rounds = {}  # of a cell, the newest of each number
        for row in (json.loads(line) for ledger in REFERENCE
                    for line in ledger.read_text().splitlines()):
            if row.get("table") == "article004" and row["status"] == "ok":
                cell = row["variant"], row["precision"], row["problem"]["id"]
                rounds.setdefault(cell, {})[row["round"]] = row
        cells = [cell for cell in report["cells"] if "median_ms" in cell]
        self.assertGreater(len(cells), 30)
        for cell in cells:
            rows = rounds[cell["variant"], cell["precision"], cell["problem"]].values()
            self.assertAlmostEqual(cell["median_ms"],
                                   statistics.median(row["median_ms"] for row in rows), places=9)
            self.assertEqual({row["iterations"] for row in rows}, {cell["iterations"]})

    def test_printed_values_are_the_articles(self):
        published = json.loads((SOURCE / "results/published.json").read_text())["articles"]
        for name in ARTICLES:
            report = self.report(name, *REFERENCE)
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
        text = self.run_program("table", "article004", "--from", REFERENCE[0], "--markdown").stdout
        self.assertNotIn("Made by", text)

    def test_options_that_exclude_each_other(self):
        for option in ["--markdown", "--compact"]:
            done = self.run_program("table", "article004", "--from", REFERENCE[0], "--json", option,
                                    exit_code=64)
            self.assertIn("--json excludes", done.stderr)

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
        header, *rows = map(json.loads, REFERENCE[0].read_text().splitlines())
        first, second = [row for row in rows if row.get("table") == "article004"][:2]
        other = next(row for row in rows if row.get("table") == "article003")
        newer = {**header, "time": "2031-01-09T00:00:00Z"}

        def printed(*lines):
            path = self.folder / "ledger.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            text = self.run_program("table", "article004", "--from", path).stdout
            return text.split("\n  A: ")[1], self.report("article004", path)["machines"][0]

        def on(row, day):
            return {**row, "time": day + "T12:00:00Z"}

        text, machine = printed(header, on(first, "2031-01-02"), newer, on(other, "2031-01-09"))
        self.assertIn(" (2031-01-02).", text)
        self.assertEqual(machine["date"], "2031-01-02")
        self.assertNotIn("first_date", machine)
        text, machine = printed(header, on(first, "2031-01-02"), newer, on(second, "2031-01-09"))
        self.assertIn(" (2031-01-02 to 2031-01-09).", text)
        self.assertEqual((machine["first_date"], machine["date"]), ("2031-01-02", "2031-01-09"))

    # ---- bad input

    def test_a_newer_ledger_is_refused_with_both_versions(self):
        header = json.loads(REFERENCE[0].read_text().split("\n", 1)[0])
        header["schema"] = 7
        (self.folder / "ledger.jsonl").write_text(json.dumps(header) + "\n")
        done = self.run_program("table", "article004", "--from", "ledger.jsonl", exit_code=64)
        self.assertRegex(done.stderr, r"ledger\.jsonl: line 1 has schema 7, .* knows up to 1")

    def refused(self, change, published_change=lambda published: None):
        """What is said of article004 with a changed definition or changed published figures."""
        results = self.folder / "results"
        shutil.copytree(SOURCE / "results" / "tables", results / "tables", dirs_exist_ok=True)
        definition = json.loads((results / "tables/article004.json").read_text())
        published = json.loads((SOURCE / "results/published.json").read_text())
        change(definition["published"])
        published_change(published["articles"]["004_9267283690cd4025.txt"])
        (results / "tables/article004.json").write_text(json.dumps(definition))
        (results / "published.json").write_text(json.dumps(published))
        self.environment["CLUSTERBENCH_TABLES"] = str(results / "tables")
        done = self.run_program("table", "article004", "--from", REFERENCE[0], exit_code=64)
        self.assertIn("article004.json: published", done.stderr)
        run = self.run_program("run", "article004", "--out", "out", exit_code=64)
        self.assertEqual(run.stderr, done.stderr)  # before anything is run
        self.assertFalse((self.folder / "out").exists())
        return done.stderr

    def test_malformed_references_are_named(self):
        def row(**changes):
            return lambda published: published["rows"][1].update(changes)

        self.assertIn('row 2: there is no "seconds.cppp" in', self.refused(row(key="seconds.cppp")))
        self.assertIn("published.json: 004_", self.refused(row(key="seconds.cppp")))
        self.assertIn('row 2: "workload.n" must begin with', self.refused(row(key="workload.n")))
        self.assertIn('row 2: unknown key "variants"', self.refused(row(variants=["x"])))
        self.assertIn('row 2: "line" must be a positive number', self.refused(row(line=0)))
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
            self.assertRegex(message, '"seconds.cpp" in .*published.json: 004_.* is not a positive')


if __name__ == "__main__":
    unittest.main()
