"""`clusterbench quality`: time to quality, run as a whole and from ledgers; what it refuses."""

import json
import statistics
import unittest

import jsonschema

import ledgers
from program import FAULTY, SOURCE, Program, ledger

SCHEMA = json.loads((SOURCE / "results" / "quality.schema.json").read_text())
LEDGER_SCHEMA = json.loads((SOURCE / "results" / "schema.json").read_text())
SMALL = ["--data", "article004-100", "--k", "5", "--seeds", "1..2", "--samples", "1", "--budget",
         "0", "--threads", "1"]
SERIAL = ["--variant", "kmeans_serial"]
SLOWER = ["--variant", "kmeans_serial_distances"]


class QualityCommand(Program):
    def report(self):
        report = json.loads((self.folder / "q.json").read_text())
        jsonschema.validate(report, SCHEMA)
        return report

    def test_run_and_from_the_ledger(self):
        done = self.run_program("quality", *SMALL, *SERIAL, *SLOWER, "--out", "out", "--json",
                                "q.json")
        self.assertIn("article004-100, k = 5: 100 points in 2 dimensions, rule labels", done.stdout)
        self.assertIn("Performance profile, within 0.1 % of the best known inertia", done.stdout)
        report = self.report()
        rows = ledger(self.folder / "out")[1]
        other = (self.folder / "out" / "gbench.json").read_text()
        refused = self.run_program("quality", "--from", "out", "--json", "out/gbench.json", exit_code=64)
        self.assertIn("--json out/gbench.json: another kind of file is there already", refused.stderr)
        self.assertEqual((self.folder / "out" / "gbench.json").read_text(), other)
        for row in rows:
            jsonschema.validate(row, LEDGER_SCHEMA)
        self.assertEqual(len(rows), 2 * 2 * 2)  # variants, initialisations, seeds
        self.assertEqual({row["problem"]["init"] for row in rows},
                         {"random:1", "random:2", "kmeans++:1", "kmeans++:2"})
        best = report["problems"][0]["best_inertia"]
        self.assertEqual(best, min(row["verification"][-1]["objective"] for row in rows))
        # The figures again, by another hand.
        for attempt in report["attempts"]:
            solver = report["solvers"][attempt["solver"]]
            row, = [row for row in rows if row["variant"] == solver["variant"]
                    and row["problem"]["init"] == attempt["init"]]
            after = row["trace"]["inertia"][1:] + [row["verification"][-1]["objective"]]
            own = row["own_start"]
            self.assertEqual(len(after), own["iterations"])
            around = statistics.median(whole["ms"] - whole["run_ms"] for whole in row["whole"])
            for reached in attempt["reached"]:
                goal = best * (1 + reached["within"])
                passes = next((p for p, value in enumerate(after, 1) if value <= goal), None)
                self.assertEqual(reached["passes"], passes)
                if passes:
                    self.assertAlmostEqual(
                        reached["ms"],
                        around + passes * own["ms"] / own["iterations"])
        again = self.run_program("quality", "--from", "out", "--json", "q.json")
        self.assertEqual(self.report()["summaries"], report["summaries"])
        self.assertEqual(self.report()["profiles"], report["profiles"])
        self.assertEqual(again.stdout.splitlines(), done.stdout.splitlines()[:-1])
        only = self.run_program("quality", "--from", "out", *SERIAL, "--markdown").stdout
        self.assertNotIn("kmeans_serial_distances", only.split("\n", 1)[1])
        self.assertIn("| 2 × random   | kmeans_serial f32 |", only)

    def test_resume_runs_nothing_again(self):
        arguments = ["quality", *SMALL, *SERIAL, "--init", "random", "--out", "out"]
        self.run_program(*arguments)
        self.run_program(*arguments, "--resume", "--json", "q.json")
        self.assertEqual(len(ledger(self.folder / "out")[1]), 2)
        self.assertEqual(len(self.report()["attempts"]), 2)

    def test_a_report_that_cannot_be_written_is_named_before_anything_is_run(self):
        done = self.run_program("quality", *SMALL, *SERIAL, "--out", "out", "--json", "none/q.json",
                                exit_code=74)
        self.assertIn("none/q.json", done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_a_wrong_variant_never_counts(self):
        done = self.run_program("quality", *SMALL, *SERIAL, "--variant", "kmeans_faulty_racy_sums",
                                "--init", "random", "--out", "out", "--json", "q.json",
                                program=FAULTY, exit_code=2)
        self.assertIn("wrong, counts as never", done.stdout)
        report = self.report()
        wrong = [i for i, solver in enumerate(report["solvers"])
                 if solver["variant"].startswith("kmeans_faulty")]
        self.assertTrue(wrong)
        for summary in report["summaries"]:
            if summary["solver"] in wrong:
                self.assertEqual(summary["reached"], 0)
        self.run_program("quality", "--from", "out", exit_code=2)

    def test_tables_give_problems(self):
        self.run_program("quality", "article004", "--quick", *SERIAL, "--seeds", "1", "--init",
                         "kmeans++", "--samples", "1", "--budget", "0", "--max-iterations", "3",
                         "--out", "out", "--json", "q.json", "--best", "article004-100:5=1")
        problems = self.report()["problems"]
        self.assertIn("article004-100", [problem["data"] for problem in problems])
        self.assertEqual({problem["max_iterations"] for problem in problems}, {3})
        given, = [problem for problem in problems if problem["data"] == "article004-100"]
        self.assertEqual((given["best_inertia"], given["best_from"]), (1, "given"))

    def test_ledgers_of_several_machines_have_no_common_scale(self):
        for model in ("a", "b"):
            ledgers.write(self.folder / model, [ledgers.header(model), ledgers.row(samples=[1.0])])
        done = self.run_program("quality", "--from", "a", "--from", "b", exit_code=4)
        self.assertIn("different machines", done.stderr)

    def test_bad_input_is_named(self):
        def refused(*arguments):
            return self.run_program("quality", *arguments, exit_code=64).stderr

        out = ["--out", "out"]
        self.assertIn("name tables", refused(*out))
        self.assertIn("--out: name the folder", refused(*SMALL, *SERIAL))
        self.assertIn("2 and 1 were given", refused(*SMALL, "--data", "article003", *out))
        self.assertIn("--take: 2 were given for 1", refused(*SMALL, "--take", "1", "--take", "2",
                                                            *out))
        self.assertIn("--init first: time to quality starts from random or kmeans++",
                      refused(*SMALL, "--init", "first", *out))
        self.assertIn("fcm_serial is fuzzy c-means", refused(*SMALL, "--variant", "fcm_serial",
                                                             *out))
        self.assertIn("holds no k-means problem", refused("article001", *out))
        self.assertIn("did you mean 'article004-100'", refused("--data", "article004-10", "--k", "5",
                                                             *out))
        self.assertIn("--seeds 3..1", refused("--data", "article004-100", "--k", "5", "--seeds",
                                              "3..1", *out))
        self.assertIn("--best x: DATA:K=INERTIA", refused(*SMALL, "--best", "x", *out))
        self.assertIn("--data: --from reads ledgers", refused("--from", "x", "--data", "y"))
        self.assertIn("missing", refused("--from", "missing"))
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
