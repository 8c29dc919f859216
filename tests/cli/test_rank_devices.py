"""Ranks with a GPU each, on devices that are host memory: through the program, mpirun and the judge."""

import datetime
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from program import BINARY, Program, clouds, ledger, write_fbin

BUILD = pathlib.Path(BINARY).parent
TOOLS = pathlib.Path(os.environ["CLUSTERBENCH_TOOLS"])
MODULE = TOOLS / "modules" / "kmeans_rank_devices.so"
PROBLEM = ["--data", "mixture:3000,3,4,1,7", "--k", 4, "--iterations", 5, "--variant",
           "kmeans_rank_devices"]


@unittest.skipUnless(MODULE.exists() and shutil.which("mpirun"), "there is no MPI")
class RankDevices(Program):
    def setUp(self):
        super().setUp()
        build = self.folder / "build"
        (build / "modules").mkdir(parents=True)
        (build / "plugins").mkdir()
        for path, target in (("clusterbench-runner", BUILD / "clusterbench-runner"),
                             ("modules/kmeans_rank_devices.so", MODULE),
                             ("plugins/ranks.so", BUILD / "plugins" / "ranks.so"),
                             ("plugins/device.so", TOOLS / "fake" / "plugins" / "device.so")):
            (build / path).symlink_to(target)
        described = subprocess.run([BUILD / "clusterbench-runner", "--describe", MODULE], check=True,
                                   capture_output=True)
        (build / "modules" / "kmeans_rank_devices.json").write_bytes(described.stdout)
        (build / "modules" / "list").write_text(f"kmeans_rank_devices tests {MODULE}\n")
        self.environment.update(CLUSTERBENCH_FOLDER=str(build), STAND_IN_GPUS="3", STAND_IN_CUDA="99000",
                                LD_LIBRARY_PATH=os.environ["CLUSTERBENCH_STAND_IN_DRIVER"])
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)

    def unless_without_network(self, rows):
        for row in rows:
            if "mpirun needs a network" in row["message"]:
                self.skipTest(row["message"])
        return rows

    def row(self, *arguments, exit_code=0, out="out"):
        [row] = self.unless_without_network(self.campaign(*PROBLEM, *arguments, exit_code=exit_code, out=out))
        return row

    def patient_rows(self, *arguments, problem=PROBLEM, out="out"):
        """Those of a campaign that waits for a quiet machine, and what it says."""
        done = self.run_program("run", *problem, *arguments, "--samples", 1, "--budget", 0.1, "--no-probe",
                                "--threads", 1, "--out", out)
        rows = self.unless_without_network(ledger(self.folder / out)[1])
        return rows, done.stdout + done.stderr

    def test_each_has_its_share(self):
        """As many ranks as GPUs, and the same answer with any number of them."""
        saved = []
        for gpus in (1, 2, 3):
            row = self.row("--gpus", gpus, "--starts", 5, "--save", f"saved{gpus}", out=f"out{gpus}")
            self.assertEqual((row["status"], row["message"]), ("ok", ""))
            self.assertEqual((row["device"], row["gpus"]), ("mpi_gpu", gpus))
            self.assertNotIn("ranks", row)
            self.assertGreater(row["upload_ms"], 0)
            self.assertGreater(row["download_ms"], 0)
            if not any("/proc" in what for what in row["sandbox_lacks"]):
                self.assertEqual(row["chosen_path"], "writes to its own /proc")
            saved += (self.folder / f"saved{gpus}").glob("**/*.labels.npy")
        self.assertEqual(len({path.read_bytes() for path in saved}), 1)
        self.assertEqual(self.left_running(), [])

    def test_points_that_stay_in_their_file(self):
        """They go to the devices from there, in pieces, and the answer is that of points in memory."""
        write_fbin(self.folder / "points.fbin", clouds(3001, 3), 3)
        problem = ["--data", "points.fbin", *PROBLEM[2:], "--gpus", 3, "--starts", 5]
        rows = self.unless_without_network(
            [self.campaign(*problem, *limit, "--save", name, out=f"out-{name}")[0]
             for name, limit in (("whole", []), ("pieces", ["--memory", "256M"]))])
        self.assertEqual([(row["status"], row["message"]) for row in rows], [("ok", "")] * 2)
        self.assertGreater(rows[1]["upload_ms"], 0)
        self.assertEqual(rows[1]["memory"]["limit_bytes"], 256 << 20)
        saved = [next((self.folder / name).glob("**/*.labels.npy")).read_bytes() for name in ("whole", "pieces")]
        self.assertEqual(*saved)

    def test_the_number_of_ranks_is_another_matter(self):
        self.assertEqual(self.row("--ranks", 3)["gpus"], 1)

    def test_tables_say_on_how_many(self):
        self.row("--gpus", 2)
        told = json.loads(self.run_program("ledger", "out", "--json").stdout)
        [entry] = told["cells"]
        self.assertEqual((entry["device"], entry["gpus"]), ("mpi_gpu", 2))
        self.assertNotIn("ranks", entry)

    def test_gpus_that_others_use(self):
        """The busiest of those that the cell has; a busy one is waited for, and said on the terminal."""
        said = "other programs use the GPU (37 % of the time)"
        for use, gpus, share in ((0, 3, 0.0), (37, 2, 0.0), (37, 3, 0.37), (3, 3, 0.03)):
            self.environment["STAND_IN_USE"] = str(use)
            [row], output = self.patient_rows("--gpus", gpus, out=f"out-{use}-{gpus}")
            self.assertEqual(row["gpus_used_by_others"], share)
            self.assertGreaterEqual(row["waited_for_quiet_ms"], 1500 if share > 0 else 0)
            self.assertEqual(said in output, share > 0.2)

    def test_a_gpu_that_is_never_quite_idle_is_waited_for_once(self):
        self.environment["STAND_IN_USE"] = "3"
        problem = {"data": "mixture:3000,3,4,1,7", "init": "first", "stop": "iterations", "max_iterations": 5}
        table = {"schema": 1, "name": "two", "title": "Two problems", "source": "ours",
                 "problems": [{**problem, "id": str(k), "k": k} for k in (4, 5)],
                 "rows": [{"variant": "kmeans_rank_devices", "precisions": ["f32"], "problems": ["4", "5"]}]}
        (self.folder / "tables").mkdir()
        (self.folder / "tables" / "two.json").write_text(json.dumps(table))
        self.environment["CLUSTERBENCH_TABLES"] = str(self.folder / "tables")
        for attempt in range(3):  # on a busy machine a mere look may take as long as the wait
            rows, _ = self.patient_rows("--gpus", 3, problem=["two"], out=f"out{attempt}")
            self.assertEqual([row["gpus_used_by_others"] for row in rows], [0.03, 0.03])
            waits = sum(row["waited_for_quiet_ms"] >= 1500 for row in rows)
            if waits == 1:
                return
        first, second = (datetime.datetime.fromisoformat(row["time"].rstrip("Z")) for row in rows)
        self.assertEqual(waits, 2)
        self.assertGreater((second - first).total_seconds(), 50)  # it is asked again after a minute

    def test_more_than_there_are(self):
        done = self.run_program("run", *PROBLEM, "--gpus", 4, exit_code=64)
        self.assertIn("--gpus 4: this machine has 3", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
