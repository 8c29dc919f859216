"""What `--save` leaves: an answer for every cell and round, under names that cannot meet, and of rows that
--resume takes from the ledger, too."""

import json
import os
import unittest

import numpy as np

from program import FAULTY, QUICK, Program, ledger

DATA = "uniform:2000,2,1"  # faults strike beyond the qualification
PROBLEM = ["--data", DATA, "--k", 3, "--iterations", 3]
SERIAL = [*PROBLEM, "--variant", "kmeans_serial"]


class Saved(Program):
    def saved(self):
        folder = self.folder / "saved"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.npy")
                      if path.name.endswith("labels.npy"))

    def save(self, *arguments, **options):
        return self.campaign(*arguments, "--save", "saved", **options)

    def trace(self, stem):
        return json.loads((self.folder / "saved" / f"{stem}.trace.json").read_text())

    def test_one_answer_of_a_variant_has_its_name(self):
        row, = self.save(*SERIAL)
        self.assertEqual(self.saved(), ["kmeans_serial.labels.npy"])
        self.assertEqual(self.trace("kmeans_serial")["key"], row["key"])
        self.assertEqual(len([*(self.folder / "saved").iterdir()]), 3)

    def test_several_precisions(self):
        self.save(*SERIAL, "--precision", "f32", "--precision", "f64")
        self.assertEqual(self.saved(), ["kmeans_serial.f32.labels.npy", "kmeans_serial.f64.labels.npy"])
        for precision, kind in (("f32", np.float32), ("f64", np.float64)):
            centroids = np.load(self.folder / "saved" / f"kmeans_serial.{precision}.centroids.npy")
            self.assertEqual((centroids.shape, centroids.dtype), ((3, 2), kind))

    def test_several_rounds(self):
        rows = self.save(*SERIAL, "--rounds", 2)
        self.assertEqual(self.saved(),
                         ["kmeans_serial.round1.labels.npy", "kmeans_serial.round2.labels.npy"])
        self.assertEqual([self.trace(f"kmeans_serial.round{row['round']}")["key"] for row in rows],
                         [row["key"] for row in rows])

    def test_several_problems_and_tables_whatever_they_are_called(self):
        tables = self.folder / "tables"
        tables.mkdir()
        self.environment["CLUSTERBENCH_TABLES"] = str(tables)
        problems = {"a/b": 2, "a%2Fb": 3, "..": 4, "n=100": 5}
        for name in ("one", "two"):
            (tables / f"{name}.json").write_text(json.dumps({
                "name": name, "title": "", "source": "",
                "problems": [{"id": problem, "data": DATA, "k": k, "init": "first",
                              "stop": "iterations", "max_iterations": 3}
                             for problem, k in problems.items()],
                "rows": [{"variant": "kmeans_serial", "precisions": ["f32"],
                          "problems": [*problems]}]}))
        rows = self.save("one", "two")
        self.assertEqual(len(rows), 8)
        places = {"a/b": "a%2Fb", "a%2Fb": "a%252Fb", "..": "%2E.", "n=100": "n=100"}
        self.assertEqual(self.saved(), sorted(f"{table}/{place}/kmeans_serial.labels.npy"
                                              for table in ("one", "two")
                                              for place in places.values()))
        for table in ("one", "two"):
            for problem, k in problems.items():
                stem = self.folder / "saved" / table / places[problem]
                self.assertEqual(len(np.load(stem / "kmeans_serial.centroids.npy")), k)

    def test_what_a_cell_reads_is_not_replaced(self):
        saved = self.folder / "saved"
        saved.mkdir()
        points = np.random.default_rng(1).random((50, 2))
        np.save(self.folder / "in.npy", points)
        np.save(self.folder / "start.npy", points[:3])
        np.save(self.folder / "weights.npy", np.ones(50))
        data = ["--data", "in.npy", "--k", 3, "--iterations", 3, "--variant", "kmeans_serial"]
        other = ["--data", "saved/kmeans_serial.labels.npy", *data[2:]]
        (saved / "kmeans_serial.labels.npy").hardlink_to(self.folder / "in.npy")
        (saved / "kmeans_serial.centroids.npy").hardlink_to(self.folder / "start.npy")
        (saved / "kmeans_serial.trace.json").symlink_to(self.folder / "weights.npy")
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        for words, target, of in (
                (data, "labels.npy", "--data in.npy"),
                (other, "labels.npy", "--data saved/kmeans_serial.labels.npy"),
                (data, "labels.npy", "--data in.npy"),
                ([*PROBLEM[:2], *data[2:], "--init", "file:start.npy"], "centroids.npy",
                 "--init file:start.npy"),
                ([*PROBLEM[:2], *data[2:], "--weights", "weights.npy"], "trace.json",
                 "--weights weights.npy")):
            done = self.run_program("run", *words, *QUICK, "--out", "out", "--save", "saved", exit_code=64)
            self.assertIn(f"--save saved: an answer would replace saved/kmeans_serial.{target}, which is "
                          f"the file of {of}\n", done.stderr)
            self.assertFalse((self.folder / "out").exists())
        self.assertEqual({path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()},
                         before)
        for path in saved.iterdir():
            path.unlink()
        self.save(*data)
        self.save(*data, out="again")  # an earlier answer is replaced

    # ---- with --resume

    def resume(self, *arguments):
        done = self.run_program("run", *arguments, *QUICK, "--out", "out", "--resume", "--save",
                                "saved")
        return done.stderr, ledger(self.folder / "out")[1]

    def test_a_known_row_without_its_answer_runs_again_and_once(self):
        self.campaign(*SERIAL)
        said, rows = self.resume(*SERIAL)
        self.assertIn("re-used 0 rows", said)
        self.assertIn("ran 1 cells again whose answers were not in saved", said)
        self.assertEqual(self.saved(), ["kmeans_serial.labels.npy"])
        self.assertEqual(len(rows), 2)
        said, rows = self.resume(*SERIAL)
        self.assertIn("re-used 1 rows", said)
        self.assertNotIn("again", said)
        self.assertEqual(len(rows), 2)

    def test_an_answer_of_another_problem_is_none(self):
        self.save(*SERIAL)
        self.save(*SERIAL[:3], 4, *SERIAL[4:], out="other")
        self.assertEqual(len(np.load(self.folder / "saved" / "kmeans_serial.centroids.npy")), 4)
        said, _ = self.resume(*SERIAL)
        self.assertIn("re-used 0 rows", said)
        self.assertEqual(len(np.load(self.folder / "saved" / "kmeans_serial.centroids.npy")), 3)

    def test_an_answer_that_was_cut_is_made_again(self):
        whole, = self.save(*SERIAL)
        labels, centroids, trace = (self.folder / "saved" / f"kmeans_serial.{name}" for name in
                                    ("labels.npy", "centroids.npy", "trace.json"))
        without_sizes = json.dumps({"key": whole["key"], "iterations": 3})  # of an earlier build
        for harm in (lambda: os.truncate(labels, 10), centroids.unlink,
                     lambda: trace.write_text(without_sizes)):
            harm()
            said, _ = self.resume(*SERIAL)
            self.assertIn("re-used 0 rows", said)
            self.assertIn("ran 1 cells again whose answers were not in saved", said)
            self.assertEqual(np.load(labels).shape, (2000,))
            self.assertEqual(np.load(centroids).shape, (3, 2))
            self.assertEqual(self.trace("kmeans_serial")["bytes"],
                             {"labels.npy": labels.stat().st_size,
                              "centroids.npy": centroids.stat().st_size})
        said, _ = self.resume(*SERIAL)
        self.assertIn("re-used 1 rows", said)

    def test_rows_without_an_answer_are_re_used(self):
        cells = [*PROBLEM, "--variant", "kmeans_serial", "--variant", "fcm_serial"]
        self.save(*cells)
        said, rows = self.resume(*cells)
        self.assertIn("re-used 2 rows", said)
        self.assertEqual(len(rows), 2)


class AnotherChance(Program):
    """--resume runs what crashed or timed out again."""

    def go_on(self, timeout, *variants):
        words = [word for name in variants for word in ("--variant", name)]
        return self.run_program("run", *PROBLEM, *words, *QUICK, "--timeout", timeout, "--out",
                                "out", "--resume", program=FAULTY, exit_code=5).stderr

    def test_it_does(self):
        once = [("kmeans_faulty_hangs", "timed_out"), ("kmeans_faulty_segfaults", "crashed")]
        # Only what hangs can have a short limit: it is a whole process's, and machines are slow.
        for times, short, long in ((1, 1, 300), (2, 1.5, 450)):
            self.assertIn("re-used 0 rows", self.go_on(short, "kmeans_faulty_hangs"))
            said = self.go_on(long, "kmeans_serial", "kmeans_faulty_segfaults")
            self.assertIn(f"re-used {times - 1} rows", said)
            rows = sorted((row["variant"], row["status"]) for row in ledger(self.folder / "out")[1])
            self.assertEqual(rows, sorted(times * once) + [("kmeans_serial", "ok")])

    def test_another_campaign_in_the_folder_changes_nothing(self):
        for arguments, reused in ((SERIAL, 0), ([*SERIAL[:3], 4, *SERIAL[4:]], None), (SERIAL, 1)):
            options = [] if reused is None else ["--resume"]
            done = self.run_program("run", *arguments, *QUICK, *options, "--out", "out")
            if reused is not None:
                self.assertIn(f"re-used {reused} rows", done.stderr)

    def test_what_ran_without_a_sandbox_runs_again_with_one(self):
        for options, reused in ((["--unsandboxed"], 0), (["--unsandboxed"], 1), ([], 0), ([], 1)):
            done = self.run_program("run", *SERIAL, *QUICK, *options, "--out", "out", "--resume")
            self.assertIn(f"re-used {reused} rows", done.stderr)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual([row.get("unsandboxed", False) for row in rows], [True, False])

    def test_the_newest_row_counts(self):
        self.campaign(*SERIAL)
        path = self.folder / "out" / "ledger.jsonl"
        header, row = map(json.loads, path.read_text().splitlines())
        crashed = {**row, "status": "crashed", "message": "once"}
        for lines, reused in (([row, crashed], 0), ([crashed, row], 1)):
            path.write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
            done = self.run_program("run", *SERIAL, *QUICK, "--out", "out", "--resume",
                                    exit_code=4 if reused else 0)  # lines without a chain are edited
            self.assertIn(f"re-used {reused} rows", done.stderr)


if __name__ == "__main__":
    unittest.main()
