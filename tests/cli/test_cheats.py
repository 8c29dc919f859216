"""Programs that try to be fast or right without doing the work: each must be found out, on data where
the cheat changes the answer or the time."""

import os
import pathlib
import select
import time
import unittest

import numpy

from program import Program, ledger

BLOBS = ["--data", "blobs.npy", "--k", 6, "--init", "first", "--iterations", 12]
UNIFORM = ["--data", "uniform:4000,3,1", "--k", 8, "--init", "first", "--iterations", 12]

# cheat -> the problem, status, and what the message says
CHEATS = {
    "above_the_oracle": (UNIFORM, "wrong", "determinism|objective"),
    "background_thread": (UNIFORM, "cheated|wrong", "after run|not written|label range"),
    "edits_the_harness": (UNIFORM, "refused", "cannot be edited"),
    "empties_clusters": (UNIFORM, "wrong", "objective: after iteration 11, with empty clusters"),
    "every_second_point": (UNIFORM, "wrong", "means|passes"),
    "fewer_iterations": (UNIFORM, "wrong", "determinism|objective"),
    "forges_a_reply": (UNIFORM, "cheated", "channel|reply"),
    "honest_first_run": (UNIFORM, "wrong", "recorded"),
    "honest_first_samples": (UNIFORM, "wrong", "determinism|objective"),
    "honest_if_recorded": (UNIFORM, "wrong", "determinism|objective"),
    "keeps_the_layout": (UNIFORM, "wrong", "labels|means"),
    "known_data": (UNIFORM, "wrong", "determinism|objective"),
    "leaves_the_output": (UNIFORM, "wrong", "not written|label range|finite"),
    "replay": (UNIFORM, "wrong", "objective|passes|labels"),
    "replay_permuted": (UNIFORM, "wrong", "objective|passes|labels"),
    "rounded_products": (BLOBS, "wrong", "nearly equal|labels"),
    "solves_in_prepare": (UNIFORM, "wrong", "objective|determinism"),
    "stale_centroids": (UNIFORM, "wrong", "means|determinism"),
    "stops_the_parent": (UNIFORM, "refused", "cannot be reached"),
    "subset_then_full": (UNIFORM, "wrong", "determinism|objective"),
    "ten_wrong_labels": (UNIFORM, "wrong", "labels|determinism"),
    "writes_its_input": (UNIFORM, "wrong", "labels|means"),
}
# What can only be found where a second processor is idle, because only then it has an effect.
ON_IDLE_PROCESSORS = ["two_threads"]
# What the sandbox keeps from having an effect: right, and no faster.
WITHOUT_EFFECT = ["closes_the_ledger", "keeps_a_file", "loads_the_machine", "own_clock",
                  "slows_the_session", "writes_to_terminals"]


def running_tasks():
    """How many tasks run or want to, this one among them."""
    return int(pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[0])


def processors_for_two():
    """How many processors two busy processes get. The host of a virtual machine may give them to
    others and not say so."""
    until = time.monotonic() + 0.3
    busy = []
    for _ in range(2):
        busy.append(os.fork())
        if busy[-1] == 0:
            while time.monotonic() < until:
                pass
            os._exit(0)
    used = [os.wait4(process, 0)[2] for process in busy]
    return sum(each.ru_utime + each.ru_stime for each in used) / 0.3


class Cheats(Program):
    def setUp(self):
        super().setUp()
        self.environment["CLUSTERBENCH_FOLDER"] = os.environ["CLUSTERBENCH_CHEATS"]
        # Clouds so far apart that no rounding moves a label in a run of its own.
        random = numpy.random.RandomState(7)
        clouds = random.uniform(-10, 10, (6, 8))[random.randint(6, size=4000)]
        points = clouds + random.normal(size=(4000, 8))
        numpy.save(self.folder / "blobs.npy", points.astype(numpy.float32))

    def row(self, cheat, problem, exit_code):
        # One that waits for later samples needs some that the smallest number does not make sure.
        more = ["--budget", 0] if cheat != "honest_first_samples" else ["--rounds", 1, "--min-time", 1]
        self.run_program("run", *problem, "--variant", "kmeans_cheat_" + cheat, "--samples", 9,
                         *more, "--no-probe", "--threads", 1, "--out", cheat,
                         exit_code=exit_code)
        return ledger(self.folder / cheat)[1][0]

    def test_every_cheat_is_expected(self):
        modules = pathlib.Path(os.environ["CLUSTERBENCH_CHEATS"]) / "modules" / "list"
        names = {line.split()[0].removeprefix("kmeans_cheat_")
                 for line in modules.read_text().splitlines()}
        self.assertEqual(names, {*CHEATS, *WITHOUT_EFFECT, *ON_IDLE_PROCESSORS})

    def test_each_is_found_out(self):
        for cheat, (problem, status, message) in CHEATS.items():
            with self.subTest(cheat):
                row = self.row(cheat, problem, (6,) if status == "refused" else (2,))
                self.assertRegex(row["status"], status, row["message"])
                self.assertRegex(row["message"], message)
                self.assertEqual(self.left_running(), [])

    def test_more_threads_than_allowed(self):
        problem = ["--data", "uniform:20000,4,1", "--k", 16, "--iterations", 4]
        for _ in range(8):
            before = processors_for_two()
            row = self.row("two_threads", problem, (0, 2))
            if row["status"] == "cheated":
                self.assertRegex(row["message"], "more than the one thread")
                return
            # One that had the machine for itself would have been found.
            if not row["disturbances"] and running_tasks() == 1:
                self.assertLess(min(before, processors_for_two()), 1.6, row)
        self.skipTest("no second processor was idle")

    def test_above_what_the_oracle_repeats(self):
        self.environment["CLUSTERBENCH_ORACLE_BUDGET"] = "1"
        for cheat in ("above_the_oracle", "fewer_iterations", "subset_then_full", "known_data",
                      "replay", "solves_in_prepare"):
            with self.subTest(cheat):
                row = self.row(cheat, UNIFORM, 2)
                self.assertEqual(row["status"], "wrong", row["message"])

    def test_others_keep_their_scheduling_group(self):
        group = pathlib.Path("/proc/self/autogroup")
        if not group.exists():
            self.skipTest("this kernel groups no sessions")
        before = group.read_text()
        self.row("slows_the_session", UNIFORM, 0)
        self.assertEqual(group.read_text(), before)

    def test_files_of_the_judge_stay_open_and_new(self):
        row = self.row("closes_the_ledger", UNIFORM, 0)
        if any(what.startswith("seccomp: ") for what in row["sandbox_lacks"]):
            self.skipTest("this kernel offers no seccomp")
        out = self.folder / "closes_the_ledger"
        for path in (self.folder, self.folder / "blobs.npy", out, out / "ledger.jsonl"):
            about = path.stat()
            self.assertEqual(about.st_mode & 0o600, 0o600, path)
            self.assertGreater(about.st_mtime, 1e9, path)

    def test_terminals_show_nothing_of_it(self):
        try:
            master, terminal = os.openpty()
        except OSError:
            self.skipTest("no terminals here")
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, terminal)
        row = self.row("writes_to_terminals", UNIFORM, 0)
        if not any(what.startswith("Landlock: ") for what in row["sandbox_lacks"]):
            self.assertEqual(select.select([master], [], [], 0)[0], [])

    def test_what_has_no_effect(self):
        for cheat in WITHOUT_EFFECT:
            with self.subTest(cheat):
                for again in range(2):
                    row = self.row(cheat, UNIFORM, 0)
                    self.assertEqual(row["status"], "ok", row["message"])
                    # A pass looks at 4000 x 8 distances in 3 dimensions: not in ten microseconds.
                    self.assertGreater(min(row["samples_ms"]), 0.1)
                self.assertEqual(self.left_running(), [])


if __name__ == "__main__":
    unittest.main()
