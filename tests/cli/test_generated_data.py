"""Where a campaign has several large sets of generated data, or may know its cells already, they are made when a
cell needs them, and only then."""

import json
import pathlib
import unittest

from program import QUICK, Program, ledger

LARGE, OTHER = "uniform:4194304,4,1", "uniform:4194304,4,2"  # 2^24 values


class GeneratedData(Program):
    def setUp(self):
        super().setUp()
        self.environment["CLUSTERBENCH_CACHE"] = str(self.folder / "cache")

    def made(self):
        return sorted(path.name for path in pathlib.Path(self.environment["CLUSTERBENCH_CACHE"]).glob("*.npy"))

    def table(self, *problems):
        """A table of these problems: their data, and k."""
        rows = [{"variant": "kmeans_serial", "precisions": ["f32"], "problems": [str(i) for i in range(len(problems))]}]
        tables = self.folder / "tables"
        tables.mkdir(exist_ok=True)
        (tables / "two.json").write_text(json.dumps(
            {"schema": 1, "name": "two", "title": "Two", "source": "ours", "notes": [], "rows": rows,
             "problems": [{"id": str(i), "data": data, "k": k, "init": "first", "stop": "iterations",
                           "max_iterations": 1, "take": 1000} for i, (data, k) in enumerate(problems)]}))
        self.environment["CLUSTERBENCH_TABLES"] = str(tables)

    def test_of_several_none_is_made_before_all_are_checked(self):
        self.table((LARGE, 2), (OTHER, 1001))
        done = self.run_program("run", "two", *QUICK, "--out", "out", exit_code=64)
        self.assertIn("--k 1001: ", done.stderr)
        self.assertEqual(self.made(), [])
        self.assertFalse((self.folder / "out").exists())
        self.table((LARGE, 2), (OTHER, 3))
        self.run_program("run", "two", *QUICK, "--out", "out")
        self.assertEqual(len(self.made()), 2)
        self.assertEqual([row["status"] for row in ledger(self.folder / "out")[1]], ["ok", "ok"])

    def test_what_cannot_be_is_known_without_them(self):
        for problem, message in ((["--k", 4194305], "--k 4194305: uniform:4194304,4,1 has only 4194304 points"),
                                 (["--k", 2, "--take", 4194305], "--take 4194305: uniform:4194304,4,1 has only"),
                                 (["--k", 0], "at least one cluster is needed"),
                                 (["--family", "fcm", "--k", 2, "--fuzzifier", 1], "it must be greater than 1"),
                                 (["--k", 2, "--last-column-is-label"], "label column")): # it is looked at
            done = self.run_program("run", "--data", LARGE, *problem, "--resume", "--out", "out", exit_code=64)
            self.assertIn(message, done.stderr)
            self.assertEqual(len(self.made()), "label" in message)
            self.assertFalse((self.folder / "out").exists())

    def test_what_a_start_needs_is_known_at_once(self):
        done = self.run_program("run", "--data", LARGE, "--k", 2, "--init", "memberships:1", "--variant",
                                "kmeans_serial", "--resume", "--out", "out", exit_code=64)
        self.assertIn("k-means starts from centroids", done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_a_cell_that_is_known_needs_none(self):
        run = ["run", "--data", LARGE, "--k", 2, "--take", 1000, "--iterations", 1, "--starts", 1, *QUICK,
               "--variant", "kmeans_serial", "--out", "out", "--resume"]
        self.run_program(*run)
        self.assertEqual(len(self.made()), 1)
        self.environment["CLUSTERBENCH_CACHE"] = str(self.folder / "other")
        self.assertIn("re-used 1 rows", self.run_program(*run).stderr)
        self.assertEqual(self.made(), [])
        self.run_program(*run, "--variant", "kmeans_openmp")  # and this one does
        self.assertEqual(len(self.made()), 1)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual([row["variant"] for row in rows], ["kmeans_serial", "kmeans_openmp"])
        self.assertEqual(rows[0]["problem"]["hash"], rows[1]["problem"]["hash"])


if __name__ == "__main__":
    unittest.main()
