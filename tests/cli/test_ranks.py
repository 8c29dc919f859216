"""Variants of several processes: one answer, whatever the number of ranks; and a rank that dies, hangs or
disagrees costs its own row, which names it, and leaves no process behind."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

from program import BINARY, FAULTY, PATIENCE, QUICK, Program, ledger

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]
SAME_STARTS = ["--starts", 1]
BOTH = {"kmeans": ["--data", "uniform:2000,5,1", "--k", 7, "--iterations", 4],
        "fcm": ["--data", "uniform:2000,5,1", "--k", 4, "--family", "fcm", "--iterations", 4]}

# Runs "$@" in a tree of this one's folders, whose root is no mount point. Its mounts end with their namespace.
IN_CHROOT = """
mkdir tree
for name in /*; do
    if [ -L "$name" ]; then cp -P "$name" tree; fi
    if [ -d "$name" ] && [ ! -L "$name" ]; then mkdir "tree$name"; mount --rbind "$name" "tree$name"; fi
done
exec chroot tree sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
"""

# kmeans_mpi_faulty_... -> status and message
FAULTS = {
    "segfaults_1_update": ("crashed", r"^rank 1: signal 11 \(Segmentation fault\)$"),
    "exits_1_assign": ("crashed", r"^rank 1: exited with code 7 before it answered$"),
    "leaves_0_exchange": ("crashed", r"^rank 0: exited before it answered$"),
    "aborts_1_prepare": ("crashed", r"^rank 1: called MPI_Abort$"),
    "throws_1_assign": ("error", r"^rank 1: planted: the rank is on fire$"),
    "throws_0_prepare": ("error", r"^rank 0: planted: the rank is on fire$"),
    "hangs_1_assign": ("timed_out",
                       r"^killed after \d+ s: rank 1 is in `assign and sum`, after 0 passes$"),
    "hangs_0_load": ("timed_out", r"^qualification: killed after \d+ s: rank 0 is in `load`, after 0 passes$"),
    "stops_1_exchange": ("timed_out",
                         r"^killed after \d+ s: rank 1 is stopped in `exchange`, after 0 passes$"),
    "stops_0_return": ("timed_out", r"^killed after \d+ s: rank 0 is stopped in `update`, after 3 passes$"),
    "forks_1_assign": ("ok", r"^$"),  # it must not, and goes on
    "differs_1_return": ("error", r"^rank 1: its centroids are not those of rank 0$"),
    "counts_1_return": ("error", r"^rank 1: it executed 4 passes, and rank 0 3$"),
}
for _rank in (0, 1):
    for _place in ("load", "prepare", "assign", "exchange", "update", "return"):
        early = "qualification: " if _place == "load" else ""
        FAULTS[f"killed_{_rank}_{_place}"] = ("crashed", rf"^{early}rank {_rank}: signal 9 \(Killed\)$")


class Ranks(Program):
    def setUp(self):
        super().setUp()
        if shutil.which("mpirun") is None:
            self.skipTest("there is no mpirun")
        listed = json.loads(self.run_program("list", "--json").stdout)
        missing = [backend["reason"] for backend in listed["backends"]
                   if backend["name"] == "mpi" and not backend["built"]]
        if missing:
            self.skipTest(missing[0])

    def rows(self, *arguments, **options):
        rows = self.campaign(*arguments, **options)
        if any("mpirun needs a network" in row["message"] for row in rows):
            self.skipTest(rows[0]["message"])
        return rows


class OneAnswer(Ranks):
    def saved(self, family, ranks, *more, out):
        rows = self.rows(*BOTH[family], "--variant", family + "_mpi", "--ranks", ranks, *SAME_STARTS,
                         "--save", out + ".saved", *more, out=out)
        self.assertEqual([row["status"] for row in rows], ["ok"], rows[0]["message"])
        self.assertEqual(rows[0]["ranks"], ranks)
        self.assertEqual(rows[0]["device"], "mpi")
        files = sorted(self.folder.glob(f"{out}.saved/{family}_mpi.*.npy"))
        self.assertGreaterEqual(len(files), 2)
        return rows[0], {file.name: np.load(file) for file in files}

    def test_is_right_with_any_number_of_ranks(self):
        for family in BOTH:
            answers = []
            for ranks in (1, 2, 4):  # more than there are processors, perhaps
                for precision in ("f32", "f64"):
                    with self.subTest(family=family, ranks=ranks, precision=precision):
                        _, answer = self.saved(family, ranks, "--precision", precision,
                                               out=f"{family}{ranks}{precision}")
                        answers.append(answer[f"{family}_mpi.centroids.npy"])
            for answer in answers[1:]:  # the oracle has judged them; here, that they are one problem's
                np.testing.assert_allclose(answer, answers[0], rtol=1e-4)
        self.assertEqual(self.left_running(), [])

    def test_has_the_same_bits_in_every_campaign(self):
        for family in BOTH:
            _, first = self.saved(family, 4, out=family + "first")
            _, second = self.saved(family, 4, out=family + "second")
            for name in first:
                self.assertEqual(first[name].tobytes(), second[name].tobytes(), name)

    def test_fewer_rows_than_ranks(self):
        np.save(self.folder / "three.npy", np.array([[1, 2], [5, 1], [2, 9]], np.float32))
        for family in BOTH:
            with self.subTest(family):
                rows = self.rows("--data", "three.npy", "--k", 2, "--family", family, "--iterations", 3,
                                 "--variant", family + "_mpi", "--ranks", 5, out=family)
                self.assertEqual([row["status"] for row in rows], ["ok"], rows[0]["message"])

    def test_every_stop_rule_and_start(self):
        cases = [("kmeans", "--stop", stop) for stop in ("loss:0.1", "labels", "shift:1e-4")]
        cases += [("fcm", "--stop", stop, "--init", init) for stop in ("loss:0.1", "shift:1e-4")
                  for init in ("first", "memberships:1")]
        for number, (family, *more) in enumerate(cases):
            with self.subTest(family=family, more=more):
                rows = self.rows("--data", "mixture:3000,3,4,1,7", "--k", 4, "--family", family, "--variant",
                                 family + "_mpi", "--max-iterations", 60, *more, "--ranks", 3,
                                 out=f"out{number}")
                self.assertEqual([row["status"] for row in rows], ["ok"], rows[0]["message"])

    def test_rows_that_no_process_has_all(self):
        """With a limit of the memory each rank makes its own rows, or reads them: the same bits."""
        self.run_program("data", "uniform:5000,7,3", "--out", "points.npy")
        for number, data in enumerate(["uniform:5000,7,3", "mixture:9001,5,4,0.5,2", "points.npy"]):
            found = []
            for out, *limit in ([f"memory{number}"], [f"own{number}", "--memory", "256M"]):
                rows = self.rows("--data", data, "--k", 4, "--iterations", 5, "--variant", "kmeans_mpi",
                                 "--precision", "f64", "--ranks", 3, *SAME_STARTS, *limit,
                                 "--save", out + ".saved", out=out)
                self.assertEqual([row["status"] for row in rows], ["ok"], rows[0]["message"])
                found.append({file.name: file.read_bytes()
                              for file in (self.folder / (out + ".saved")).glob("*.npy")})
            with self.subTest(data):
                self.assertEqual(len(found[0]), 2)
                self.assertEqual(found[0], found[1])
                self.assertRegex(rows[0]["memory"]["held_by"], "^a rank has its own rows alone")

    def test_without_shared_memory(self):
        """In a chroot the sandbox gets no namespace of mounts, and closes /dev/shm."""
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            self.skipTest("there can be no chroot here, or this is one")
        self.run_program("--mount", "sh", "-e", "-c", IN_CHROOT, "sh", BINARY, "run", *PROBLEM, "--variant",
                         "kmeans_mpi", "--ranks", 2, *QUICK, "--out", "out", program="unshare")
        for row in ledger(self.folder / "out")[1]:
            self.assertEqual(row["status"], "ok", row["message"])
            self.assertIn("a namespace of mounts: /dev/shm cannot be written to", row["sandbox_lacks"])

    def test_more_rows_than_a_process_may_have(self):
        cells = ["--data", "uniform:400000,64,5", "--k", 3, "--iterations", 1, "--variant", "kmeans_mpi",
                 "--precision", "f64", "--memory", "180M"]  # 195 MiB of points
        row, = self.rows(*cells, "--ranks", 1, out="one", exit_code=6)
        self.assertEqual((row["status"], row["message"]),
                         ("refused", "each of 1 ranks has 195 MiB of the points, --memory allows 180 MiB "
                                     "for everything in a process: more ranks have less each"))
        row, = self.rows(*cells, "--ranks", 4, out="four")
        self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertLess(row["memory"]["peak_bytes"], 180 << 20)
        self.assertGreater(row["peak_rss_bytes"], 195 << 20)  # all of them together
        # A rank that needs more than it may have for its rows and their columns.
        row, = self.rows(*cells, "--ranks", 2, out="two", exit_code=5)
        self.assertEqual(row["status"], "out_of_memory")

    def test_says_what_it_was(self):
        rows = self.rows(*PROBLEM, "--variant", "kmeans_mpi", "--variant", "kmeans_serial", *SAME_STARTS)
        by_variant = {row["variant"]: row for row in rows}
        row = by_variant["kmeans_mpi"]
        self.assertEqual(row["ranks"], 2)  # the usual number
        self.assertRegex(row["versions"]["MPI"], r"^Open MPI v\d")
        self.assertNotIn("ranks", by_variant["kmeans_serial"])
        headers, _ = ledger(self.folder / "out")
        self.assertEqual(headers[0]["ranks"], 2)
        for key in ("context_ms", "prepare_ms", "whole_ms", "peak_rss_bytes"):
            self.assertGreater(row[key], 0, key)
        self.assertEqual(row["clock"]["finding"], "")
        for whole in row["whole"]:
            self.assertLessEqual(whole["prepare_ms"] + whole["run_ms"], 1.001 * whole["ms"])

    def test_tables_keep_numbers_of_ranks_apart(self):
        for ranks in (1, 2):
            self.rows("ranks", "--quick", "--variant", "*_mpi", "--ranks", ranks, out=f"out{ranks}")
        both = ["table", "ranks", "--quick", "--from", "out1", "out2"]
        cells = json.loads(self.run_program(*both, "--json").stdout)["cells"]
        for variant, problems in (("kmeans_mpi", 3), ("fcm_mpi", 2)):
            found = sorted((cell["ranks"], cell["threads"]) for cell in cells
                           if cell["variant"] == variant and cell["status"] == "ok")
            self.assertEqual(found, [(1, 1)] * problems + [(2, 2)] * problems)
        known = {(cell["problem"], each["scaling"]) for cell in cells for each in cell.get("efficiency", [])
                 if each["on_one"] == "itself" and "ratio" in each}
        self.assertEqual({problem for problem, scaling in known if scaling == "strong"},
                         {cell["problem"] for cell in cells})
        self.assertEqual({problem for problem, scaling in known if scaling == "weak"},
                         {"1Mx16, k=32", "fcm 500kx16, k=8"})  # those that have half the rows beside them
        heading = next(line for line in self.run_program(*both, "--wide").stdout.splitlines()
                       if "variant" in line)
        self.assertRegex(heading, r"threads +(\| +)?ranks")
        done = self.run_program("compare", "out1", "out2", exit_code=(0, 1, 3, 4, 5))
        self.assertIn("2 ranks", done.stdout + done.stderr)


class Input(Ranks):
    def test_numbers_of_ranks_that_cannot_be(self):
        for ranks in (0, -1, 100000):
            done = self.run_program("run", *PROBLEM, "--variant", "kmeans_mpi", "--ranks", ranks, *QUICK,
                                    exit_code=64)
            self.assertIn(f"--ranks {ranks}: 1 to ", done.stderr)
        self.run_program("run", *PROBLEM, "--ranks", "two", *QUICK, exit_code=64)

    def test_without_mpirun_it_is_not_available(self):
        tools = self.folder / "tools"
        tools.mkdir()
        self.environment["PATH"] = str(tools)
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_mpi", *QUICK, "--out", "out",
                                exit_code=tuple(range(0, 80)))
        self.assertNotEqual(done.returncode, 64, done.stderr)
        row = ledger(self.folder / "out")[1][0]
        self.assertEqual(row["status"], "unavailable")
        self.assertEqual(row["message"], "mpirun was not found on the PATH (Debian package openmpi-bin)")

    def test_without_a_network_namespace_it_is_not_available(self):
        limited = ["unshare", "--user", "--map-root-user", "sh", "-c",
                   'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh"]
        if subprocess.run([*limited, "true"], capture_output=True).returncode != 0:
            self.skipTest("namespaces of users cannot be made or limited here")
        arguments = ["run", *PROBLEM, "--variant", "kmeans_mpi", "--variant", "kmeans_serial", *QUICK]
        done = subprocess.run([*limited, BINARY, *map(str, arguments), "--out", "out"], cwd=self.folder,
                              env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["variant"]: row for row in ledger(self.folder / "out")[1]}
        self.assertEqual(rows["kmeans_serial"]["status"], "ok")
        self.assertEqual(rows["kmeans_mpi"]["status"], "unavailable", rows["kmeans_mpi"]["message"])
        self.assertIn("mpirun needs a network of its own", rows["kmeans_mpi"]["message"])
        self.assertEqual(self.left_running(), [])

    def test_an_mpirun_that_fails_is_a_row(self):
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "mpirun").write_text("#!/bin/sh\necho no luck today >&2\nexit 3\n")
        (tools / "mpirun").chmod(0o755)
        self.environment["PATH"] = f"{tools}:{os.environ['PATH']}"
        row = self.campaign(*PROBLEM, "--variant", "kmeans_mpi", exit_code=5)[0]
        self.assertEqual(row["status"], "crashed")
        self.assertRegex(row["message"], "exited with code 3 before it answered")
        self.assertIn("no luck today", row["output_tail"])
        self.assertEqual(self.left_running(), [])


class Faults(Ranks):
    def outcomes(self, faults, timeout):
        """Fault -> row of its variant. Another variant of the same campaign is unharmed."""
        variants = [word for fault in faults for word in ("--variant", f"kmeans_mpi_faulty_{fault}")]
        rows = self.campaign(*PROBLEM, *variants, "--variant", "kmeans_serial", "--timeout", timeout,
                             program=FAULTY, out=f"faults-{timeout}-{len(faults)}", exit_code=5)
        found = {row["variant"].removeprefix("kmeans_mpi_faulty_"): row for row in rows}
        self.assertEqual(found.pop("kmeans_serial")["status"], "ok")
        return found

    def test_a_rank_that_fails_is_named_and_costs_its_row(self):
        self.rows(*PROBLEM, "--variant", "kmeans_mpi")  # can it be run at all?
        built = (pathlib.Path(FAULTY).parent / "modules").glob("kmeans_mpi_faulty_*.so")
        self.assertEqual({path.stem.removeprefix("kmeans_mpi_faulty_") for path in built}, set(FAULTS))
        hanging = [fault for fault, (status, _) in FAULTS.items() if status == "timed_out"]
        rows = self.outcomes([fault for fault in FAULTS if fault not in hanging], 60)
        rows |= self.outcomes(hanging, 12)
        early = [fault for fault in hanging if not re.search(FAULTS[fault][1], rows[fault]["message"])]
        if early:  # a busy machine was not there yet
            rows |= self.outcomes(early, 60)
        for fault, (status, message) in FAULTS.items():
            with self.subTest(fault):
                self.assertEqual(rows[fault]["status"], status, rows[fault]["message"])
                self.assertRegex(rows[fault]["message"], message)
        self.assertEqual(self.left_running(), [])

    def ranks_of(self, program):
        """Rank -> process, of those that the program has started."""
        found = {}
        for pid in self.left_running():
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)", environment)
            if rank and b"--rank" in command:
                found[int(rank.group(1))] = pid
        self.assertIsNone(program.poll())
        return found

    def long_campaign(self):
        program = self.start("run", "--data", "uniform:300000,8,1", "--k", 50, "--iterations", 2000,
                             "--variant", "kmeans_mpi", *QUICK, "--timeout", 300, "--out", "out")
        self.addCleanup(program.kill)
        self.both_ranks_of(program)
        return program

    def both_ranks_of(self, program):
        until = time.monotonic() + 300
        while time.monotonic() < until:
            ranks = self.ranks_of(program)
            if len(ranks) == 2:
                return ranks
            time.sleep(0.05)
        self.fail("no ranks were started")

    def test_whoever_ends_the_program_ends_the_ranks(self):
        self.rows(*PROBLEM, "--variant", "kmeans_mpi", out="before")
        for end, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 130)):
            with self.subTest(end):
                program = self.long_campaign()
                program.send_signal(end)
                program.communicate(timeout=PATIENCE)
                self.assertEqual(program.returncode, code)
                self.wait_until_none_is_left()
                shutil.rmtree(self.folder / "out", ignore_errors=True)

    def test_whoever_ends_mpirun_ends_the_ranks(self):
        self.rows(*PROBLEM, "--variant", "kmeans_mpi", out="before")
        program = self.long_campaign()
        while True:
            rank = self.both_ranks_of(program)[0]
            try:
                stat = pathlib.Path(f"/proc/{rank}/stat").read_text()
                os.kill(int(stat.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)  # the ranks' parent
                break
            except (FileNotFoundError, ProcessLookupError):
                continue  # those of an earlier step
        program.communicate(timeout=PATIENCE)
        self.assertEqual(program.returncode, 5)
        row = ledger(self.folder / "out")[1][0]
        self.assertEqual((row["status"], self.left_running()), ("crashed", []), row["message"])
        self.assertIn("signal 9", row["message"])


if __name__ == "__main__":
    unittest.main()
