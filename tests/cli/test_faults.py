"""Variants that crash, hang, run out of memory, misbehave or compute wrongly: each costs its own
row and nothing else."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import numpy as np

from program import BINARY, FAULTY, PATIENCE, QUICK, Program, ledger, too_late

# Beyond the qualification's sizes: here the planted faults strike, unless they are early.
PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]
SAME_STARTS = ["--starts", 1]  # in all campaigns that say so

# variant -> status and message
FAULTS = {
    "segfaults": ("crashed", r"^signal 11"),
    "segfaults_early": ("crashed", r"^qualification: .*signal 11"),
    "aborts": ("crashed", r"^signal 6"),
    "killed": ("crashed", r"^signal 9 "),  # with memory to spare
    "hangs": ("timed_out", r"^killed after \d+ s"),
    "hangs_early": ("timed_out", r"^qualification: .*killed after \d+ s"),
    "fills_memory": ("out_of_memory", r"allocation failed"),
    "fills_memory_early": ("out_of_memory", r"^qualification: .*allocation failed"),
    "asks_for_too_much": ("out_of_memory", r"allocation failed"),
    "throws": ("error", r"^planted: the device is on fire$"),
    "throws_early": ("error", r"^qualification: .*: planted: the device is on fire$"),
    "throws_garbage": ("error", "^planted: \ufffd+$"),
    "throws_number": ("crashed", r"^signal 6"),
    "exits_early": ("crashed", r"^exited with code 0 before it answered$"),
    "exits_with_code": ("crashed", r"^exited with code 7 before it answered$"),
    "prints_garbage": ("ok", r"^$"),
    "prints_and_crashes": ("crashed", r"^signal 11"),
    "leaves_a_process": ("ok", r"^$"),
    "leaves_a_daemon": ("ok", r"^$"),
    "writes_a_report": ("cheated", r'^a reply "run" came to the request "whole": something but the '
                                   r"harness has written to its channel$"),
    "fills_the_disk": ("crashed", r"signal 25 \(File size limit exceeded\)"),
    "refuses": ("refused", r"^planted: not today$"),
    "slow": ("ok", r"^$"),
}

# The first line of a wrong row's message: which answer, the name of a check, and the place.
PLACE = (r"^(qualification: .*|recording from start \d+|answer from start \d+|single step from .*): "
         r"{}: .*\b(point|cluster|iterations?)\b.*\d")
SOME_CHECK = (r"(labels|means|centres|passes|iterations|finite|label range|recording|stop rule|"
              r"entering|memberships|row sums|trace|objective|never rises)")

# variant -> the check that its message begins with; None: any
WRONG = {
    "kmeans": {
        "drops_tail": "passes", "drops_one_row": "passes", "stale_centroids": "labels",
        "racy_sums": "passes", "counts_of_one_block": "passes", "returns_initial_state": None,
        "not_a_number": "finite", "labels_off_by_one": "label range",
        "wrong_labels_in_range": "labels", "squared_loss": "stop rule", "stops_early": None,
        "one_pass_too_many": "iterations", "hides_one_pass_too_many": "entering",
        "ties_to_highest": None, "wrong_later": None, "inertia_too_high": None,
        "wrong_once": "means", "wobbles_wrong_once": "means", "empty_to_origin": "passes",
        "claims_no_passes": "iterations", "claims_all_passes": "iterations",
        "looks_for_the_oracle": None, "ignores_weights": "passes",
    },
    "fcm": {
        "drops_tail": None, "drops_one_row": None, "stale_centroids": None, "racy_sums": None,
        "counts_of_one_block": None, "returns_initial_state": None, "not_a_number": "finite",
        "labels_off_by_one": "label range", "wrong_labels_in_range": "labels",
        "squared_loss": "stop rule", "stops_early": None, "one_pass_too_many": "iterations",
        "hides_one_pass_too_many": None, "ties_to_highest": None, "wrong_later": None,
        "wrong_once": "centres", "inertia_too_high": None, "wrong_exponent": "memberships",
        "unweighted_power": None, "not_normalised": None,
    },
}


class OneCampaign:
    """All faulty variants of a family, and right ones among them, in one campaign."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runner = cls("run_program")
        cls.runner.setUp()
        cls.addClassCleanup(cls.runner.doCleanups)
        for timeout in cls.timeouts:
            cls.out = f"out{timeout}"
            cls.done, rows = cls.run_all("--timeout", timeout, "--out", cls.out)
            if not too_late(rows):
                break
        cls.left = cls.runner.left_running()
        cls.count = len(rows)
        cls.rows = {row["variant"]: row for row in rows}

    @classmethod
    def run_all(cls, *options):
        """The program, run to its end, and the rows of its ledger."""
        done = cls.runner.run_program(
            "run", *PROBLEM, "--family", cls.family, "--variant", cls.family + "_faulty_*",
            "--variant", cls.family + "_serial", "--samples", 3, "--budget", 0, "--no-probe",
            "--threads", 1, "--wide", *options, program=FAULTY, exit_code=2)
        return done, ledger(cls.runner.folder / options[options.index("--out") + 1])[1]

    def test_no_row_is_lost(self):
        listed = json.loads(self.run_program("list", "--json", program=FAULTY).stdout)
        names = {variant["name"] for variant in listed["variants"]
                 if variant["name"].startswith(self.family + "_faulty_")}
        self.assertEqual(set(self.rows), names | {self.family + "_serial"})
        self.assertEqual(self.count, len(self.rows))

    def test_right_variants_are_not_touched(self):
        for name in ("faulty_none", "serial"):
            self.assertEqual(self.rows[f"{self.family}_{name}"]["status"], "ok")

    def test_nothing_is_left_running(self):
        self.assertEqual(self.left, [])

    def test_wrong_rows_say_which_check_and_where(self):
        for name, check in WRONG[self.family].items():
            with self.subTest(name):
                row = self.rows[f"{self.family}_faulty_{name}"]
                self.assertEqual(row["status"], "wrong", row["message"])
                self.assertRegex(row["message"].splitlines()[0], PLACE.format(check or SOME_CHECK))

    def test_wrong_rows_have_no_rank(self):
        # One is wrong in the qualification, and one when it has been timed.
        for name, where in (("wrong_later", "qualification:"), ("wrong_once", "answer")):
            lines = [line.split() for line in self.done.stdout.splitlines()
                     if f"{self.family}_faulty_{name} " in line]
            self.assertEqual(len(lines), 1)
            # No rank and no figure: problem, precision, ranks, variant, and what is wrong.
            self.assertEqual(lines[0][2:8], ["–", "–", f"{self.family}_faulty_{name}", "wrong",
                                             "wrong:", where])

    def test_every_line_of_the_table_is_of_a_row(self):
        lines = self.done.stdout.split("variant")[1].splitlines()[1:]
        for line in lines[:self.count]:  # though wrong rows have several findings
            self.assertTrue(line.startswith("  uniform:2000,2,1 f32 "), line)


class KMeans(OneCampaign, Program):
    family = "kmeans"
    timeouts = (4, 20, 100)  # [s]: what hangs costs as much, and a slow machine needs more

    def test_statuses_and_messages(self):
        for name, (status, message) in FAULTS.items():
            with self.subTest(name):
                row = self.rows["kmeans_faulty_" + name]
                self.assertEqual(row["status"], status, row["message"])
                self.assertRegex(row["message"], message)

    def test_every_variant_is_expected(self):
        # The last is right where points have no weights (tests/cli/test_weights.py).
        expected = {*FAULTS, *WRONG["kmeans"], "none", "wobbles", "wobbles_unrecorded",
                    "wobbles_wrong_late", "forgets_weights"}
        self.assertEqual({name.removeprefix("kmeans_faulty_") for name in self.rows} -
                         {"kmeans_serial"}, expected)

    def test_last_words_are_kept(self):
        self.assertEqual(self.rows["kmeans_faulty_prints_and_crashes"]["output_tail"],
                         "planted: last words \ufffd\n")
        self.assertNotIn("planted: last words", self.done.stdout)

    def test_all_findings_of_a_row_that_is_right_first_and_wrong_later(self):
        verdicts = self.rows["kmeans_faulty_wrong_once"]["verification"]
        self.assertEqual([verdict["right"] for verdict in verdicts], [True, False, True])
        self.assertEqual([verdict["of"] for verdict in verdicts[1:]],
                         ["answer from start 2", "recording from the problem's own start"])
        self.assertIn("means", [finding["check"] for finding in verdicts[1]["findings"]])

    def test_a_wrong_recording_from_the_own_start_is_told_once(self):
        verdicts = self.rows["kmeans_faulty_claims_no_passes"]["verification"]
        self.assertEqual([verdict["of"] for verdict in verdicts][-1],
                         "recording from the problem's own start")
        self.assertEqual(len({verdict["of"] for verdict in verdicts}), len(verdicts))
        self.assertFalse(any(verdict["right"] for verdict in verdicts))

    def test_gbench_holds_right_cells_only(self):
        benchmarks = json.loads((self.runner.folder / self.out / "gbench.json").read_text())
        names = {benchmark["name"].split("/")[-2] for benchmark in benchmarks["benchmarks"]}
        self.assertEqual(names, {name for name, row in self.rows.items() if row["status"] == "ok"})

    def test_resume_reuses_what_another_run_would_not_change(self):
        for timeout in self.timeouts:
            done, rows = self.run_all("--timeout", timeout, "--out", self.out, "--resume")
            newest = {row["variant"]: row for row in rows}
            if not too_late(newest.values()):
                break
        settled = [row for row in self.rows.values()
                   if row["status"] in ("ok", "wrong", "cheated", "refused")]
        self.assertIn(f"re-used {len(settled)} rows", done.stderr)
        # Of the campaign, in its last lines, and of what hung.
        duration = re.compile(r", after .*|killed after \d+ s")
        self.assertEqual(duration.sub("", done.stdout), duration.sub("", self.done.stdout))


class FuzzyCMeans(OneCampaign, Program):
    family = "fcm"
    timeouts = (100,)  # nothing hangs


class OneWrongRun(Program):
    """Wrong in the third of four samples; the first, the last and the recorded runs are right."""

    WHOLE_ANSWERS = 5

    @staticmethod
    def samples_taken(row):
        return len(row["samples_ms"]) + len(row["warm_up_samples_ms"])

    def late_samples_judged(self, row, planned):
        """More are taken than planned where the first ones were warm-up; two are judged in full."""
        return min(2, self.samples_taken(row) - planned)

    def row(self, variant, samples=4):
        self.run_program("run", *PROBLEM, "--variant", "kmeans_faulty_" + variant, "--samples",
                         samples, "--budget", 0, "--no-probe", "--out", variant, program=FAULTY,
                         exit_code=0 if variant == "wobbles" else 2)
        return ledger(self.folder / variant)[1][0]

    def assert_only_wrong(self, row, start):
        self.assertEqual(row["status"], "wrong", row["message"])
        first_line = row["message"].splitlines()[0]
        self.assertRegex(first_line, f"^answer from start {start}: ")
        self.assertRegex(first_line, PLACE.format("means"))
        verdicts = row["verification"]
        self.assertEqual({verdict["of"] for verdict in verdicts if not verdict["right"]},
                         {f"answer from start {start}"})
        self.assertTrue(verdicts[0]["right"] and verdicts[-1]["right"])

    def test_of_a_variant_that_says_it_is_deterministic(self):
        self.assert_only_wrong(self.row("wrong_once"), 2)

    def test_of_one_that_gives_other_bits_each_time(self):
        self.assert_only_wrong(self.row("wobbles_wrong_once"), 2)

    def test_other_bits_alone_are_not_wrong(self):
        row = self.row("wobbles")
        self.assertEqual(row["status"], "ok", row["message"])
        judged = row["answers_judged"]
        # In full are those of some starts, and what was recorded from these; no answer is left out.
        samples = self.samples_taken(row)
        late = self.late_samples_judged(row, planned=4)
        self.assertIn(judged["in_full"], (2 * (3 + late), 2 * (4 + late)))
        self.assertEqual(judged["in_full"] // 2 + judged["cheaply"], self.WHOLE_ANSWERS + samples)

    def test_other_bits_are_wrong_of_a_variant_that_says_it_is_deterministic(self):
        row = self.row("wobbles_unrecorded")
        self.assertEqual(row["status"], "wrong")
        self.assertRegex(row["message"], r"^determinism: the recorded and the timed answer from "
                                         r"start [0-3] differ: centroids\[0\]: .*; but the variant says")

    def test_one_of_forty_different_answers_is_wrong(self):
        row = self.row("wobbles_wrong_late", samples=40)
        self.assertGreaterEqual(self.samples_taken(row), 40)
        self.assert_only_wrong(row, 16)
        # The whole answers and 17 samples, then no more; and the recordings from judged starts.
        answers = self.WHOLE_ANSWERS + 17
        recordings = 3 + self.late_samples_judged(row, planned=40)
        self.assertIn(sum(row["answers_judged"].values()),
                      (answers + recordings, answers + recordings + 1))

    def test_where_the_oracle_does_not_repeat_the_run(self):
        self.environment["CLUSTERBENCH_ORACLE_BUDGET"] = "1"
        for variant, status in (("wobbles", "ok"), ("wobbles_wrong_once", "wrong")):
            with self.subTest(variant):
                row = self.row(variant)
                self.assertEqual(row["oracle"], "single steps only")
                self.assertEqual(row["status"], status, row["message"])
                if status == "wrong":
                    self.assert_only_wrong(row, 2)


class LargeRuns(Program):
    """Where the oracle cannot afford a run."""

    def setUp(self):
        super().setUp()
        self.environment["CLUSTERBENCH_ORACLE_BUDGET"] = "1"

    def test_right_variants_are_right(self):
        for family in ("kmeans", "fcm"):
            with self.subTest(family):
                rows = self.campaign(
                    *PROBLEM, "--family", family, *(
                        word for backend in ("serial*", "eigen*", "openmp*", "simd*")
                        for word in ("--variant", f"{family}_{backend}")),
                    program=FAULTY, out=family, exit_code=(0, 5))
                right = [row for row in rows if row["status"] != "refused"]
                self.assertGreater(len(right), 2)
                for row in right:
                    self.assertEqual(row["status"], "ok", row["message"])
                    self.assertEqual(row["oracle"], "single steps only")
                    states = ["the own start", "after pass 2 of its own run"]
                    if family == "kmeans" and "approximate_within" not in row:
                        states.append("pairs of nearly equal centroids")
                    self.assertEqual([step["state"] for step in row["single_steps"]], states)

    def test_wrong_ones_are_wrong(self):
        for bug in ("stops_early", "stale_centroids", "hides_one_pass_too_many", "drops_tail"):
            with self.subTest(bug):
                rows = self.campaign(*PROBLEM, "--variant", "kmeans_faulty_" + bug, program=FAULTY,
                                     out=bug, exit_code=2)
                self.assertEqual(rows[0]["status"], "wrong")

    def test_executed_passes_count_and_not_their_bound(self):
        problem = [*PROBLEM[:-2], "--stop", "labels", "--variant", "kmeans_serial"]
        for budget, bound, oracle in ((4e11, 10**8, "whole run"), (1e6, 10**8, "whole run"),
                                      (1e6, 50, "whole run"), (1e5, 50, "single steps only")):
            with self.subTest(budget=budget, bound=bound):
                self.environment["CLUSTERBENCH_ORACLE_BUDGET"] = str(budget)
                row = self.campaign(*problem, "--max-iterations", bound, program=FAULTY,
                                    out=f"{budget}-{bound}")[0]
                self.assertEqual(row["status"], "ok", row["message"])
                self.assertEqual(row["oracle"], oracle, row["iterations"])


class ExitCodes(Program):
    def test_alone_and_together(self):
        for variants, exit_code in ((["none"], 0), (["refuses"], 6), (["refuses", "none"], 0),
                                    (["refuses", "throws"], 5), (["segfaults"], 5),
                                    (["fills_memory"], 5), (["throws", "none"], 5),
                                    (["drops_tail"], 2), (["segfaults", "drops_tail"], 2)):
            with self.subTest(variants):
                arguments = [word for name in variants
                             for word in ("--variant", "kmeans_faulty_" + name)]
                rows = self.campaign(*PROBLEM, *arguments, program=FAULTY, exit_code=exit_code,
                                     out="-".join(variants))
                self.assertEqual(len(rows), len(variants))

    def test_timeout(self):
        start = time.monotonic()
        rows = self.campaign(*PROBLEM, "--variant", "kmeans_faulty_hangs", "--timeout", 1,
                             program=FAULTY, exit_code=5)
        self.assertEqual(rows[0]["status"], "timed_out")
        self.assertLess(time.monotonic() - start, 600)  # the usual limit is 900
        self.assertEqual(self.left_running(), [])

    def test_answers_beyond_memory(self):
        """16 TB of memberships: refused by the parent, which goes on."""
        rows = self.campaign("--data", "uniform:1000000,1,1", "--k", 1000000, "--family", "fcm",
                             "--iterations", 1, "--variant", "fcm_serial", "--variant",
                             "kmeans_serial", exit_code=5)
        statuses = {row["variant"]: row["status"] for row in rows}
        self.assertEqual(statuses, {"fcm_serial": "out_of_memory", "kmeans_serial": "refused"})
        message = next(row["message"] for row in rows if row["variant"] == "fcm_serial")
        self.assertRegex(message, r"\d+ bytes of shared memory are needed, \d+ are available")


class Data(Program):
    """Files that change, and memory that is short, while a campaign runs."""

    CELLS = ["--k", 3, "--iterations", 3, "--variant", "kmeans_serial", "--variant",
             "kmeans_faulty_slow", "--rounds", 2]

    def points(self, rows, name="points.npy"):
        np.save(self.folder / name, np.random.default_rng(1).random((rows, 2)))
        return name

    def campaign_until(self, name, lines, change, exit_code, *options):
        """Changes the file when the ledger has so many lines; returns the rows."""
        path = self.folder / name
        whole = path.read_bytes()
        code, errors = self.campaign_during(
            lambda _: change(path), "--data", "points.npy", *self.CELLS, *options, lines=lines,
            undo=lambda: path.write_bytes(whole), program=FAULTY)
        self.assertEqual(code, exit_code, errors)
        return ledger(self.folder / "out")[1]

    def test_a_file_that_is_truncated_is_not_looked_at_again(self):
        rows = self.campaign_until(self.points(2000), 2, lambda path: os.truncate(path, 1000), 0)
        self.assertEqual([row["status"] for row in rows], ["ok"] * 4)
        self.assertEqual(len({row["problem"]["data_sha256"] for row in rows}), 1)

    def test_an_initial_state_that_changes_is_a_row(self):
        self.points(2000)
        def other(path):
            np.save(path, np.full((3, 2), 0.5))
        for change, reason in ((other, "the file has changed since it was read first"),
                               (lambda path: os.truncate(path, 100), "truncated"),
                               (os.remove, "cannot open")):
            np.save(self.folder / "start.npy", np.random.default_rng(1).random((3, 2)))
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            rows = self.campaign_until("start.npy", 2, change, 5, "--init",
                                       "file:start.npy")
            self.assertEqual(len(rows), 4)
            self.assertEqual(rows[-1]["status"], "error")
            self.assertIn("start.npy", rows[-1]["message"])
            self.assertIn(reason, rows[-1]["message"])

    def test_a_file_that_is_truncated_while_it_is_read(self):
        """At whatever moment of the first reads: a message, and no signal."""
        whole = (self.folder / self.points(2000000)).read_bytes()
        path = self.folder / "points.npy"
        for moment in range(12):
            path.write_bytes(whole)
            process = self.start("run", "--data", "points.npy", "--k", 3, "--iterations", 1,
                                 "--variant", "kmeans_faulty_segfaults_early", *QUICK, "--out",
                                 "out", program=FAULTY)
            time.sleep(0.01 * moment)
            os.truncate(path, 1000)
            _, errors = process.communicate(timeout=PATIENCE)
            self.assertIn(process.returncode, (5, 64), errors)  # a row of the planted fault, or
            if process.returncode == 64:
                self.assertRegex(errors.decode(), r"points\.npy: .*(changed|truncated|bytes)")

    def test_no_memory_for_the_points(self):
        self.points(4000000)  # 64 MB
        for limit in (60000, 120000):
            with self.subTest(limit):
                done = subprocess.run(
                    ["bash", "-c", f'ulimit -v {limit}; exec "$@"', "bash", BINARY, "run", "--data",
                     "points.npy", "--k", "3", "--iterations", "1", "--variant", "kmeans_serial",
                     "--variant", "kmeans_openmp", *QUICK, "--out", f"out{limit}"],
                    cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                    capture_output=True, text=True, timeout=PATIENCE)
                self.assertIn(done.returncode, (0, 5), done.stderr)
                rows = ledger(self.folder / f"out{limit}")[1]
                statuses = [row["status"] for row in rows]
                self.assertEqual(len(statuses), 2)
                self.assertLessEqual(set(statuses), {"ok", "out_of_memory"})
                if limit == 60000:
                    self.assertEqual(set(statuses), {"out_of_memory"})
                    for row in rows:
                        self.assertIn("points.npy: no memory for its 64000128 bytes", row["message"])

    def limited(self, limit, *words, stdin=subprocess.DEVNULL):
        return subprocess.run(["bash", "-c", f'ulimit {limit} && exec "$@"', "bash", BINARY, *words],
                              cwd=self.folder, env=self.environment, stdin=stdin,
                              capture_output=True, text=True, timeout=PATIENCE)

    def test_limits_of_the_process(self):
        self.points(60)
        run = ["run", "--data", "points.npy", "--k", "3", "--iterations", "4", "--variant", "kmeans_serial",
               *QUICK, "--out", "out"]
        for limit, code, says in (("-n 16", 5, "at most 16 files may be open (ulimit -n); 64 are needed"),
                                  ("-n 900", 5, "at most 900 files may be open (ulimit -n); 1024 are needed"),
                                  ("-s 128", 5, "the stack may have 128 KiB (ulimit -s)"),
                                  ("-f 0", 74, "limit of a file's size (ulimit -f)")):
            with self.subTest(limit):
                done = self.limited(limit, *run)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)
        self.assertEqual(self.limited("-S -n 16", *run).returncode, 0)  # which may be raised
        self.assertEqual(self.limited("-n 1024", *run, "--resume").returncode, 0)

    def test_the_limit_of_processes_is_named(self):
        self.points(60)
        prefix = []
        if os.geteuid() == 0:  # root has no such limit
            prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            for folder in (self.folder, pathlib.Path(self.cache)):
                folder.chmod(0o777)
            if subprocess.run([*prefix, BINARY, "--version"], capture_output=True,
                              check=False).returncode != 0:
                self.skipTest("nobody else may run the program here")

        def limited(limit, *words):
            return subprocess.run([*prefix, "bash", "-c", f'ulimit -u {limit} && exec "$@"', "bash", BINARY, *words],
                                  cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=PATIENCE)

        done = limited(3, "probe", "--quick", "--threads", "8")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("no thread or process could be started", done.stderr)
        run = ["run", "--data", "points.npy", "--k", "3", "--iterations", "4", "--variant", "kmeans_serial"]
        done = limited(1, *run, "--samples", "1", "--budget", "0", "--out", "probed")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("no limits are measured: ", done.stderr)
        self.assertEqual(len(ledger(self.folder / "probed")[1]), 1)
        for limit in (1, 2, 3):
            with self.subTest(limit):
                done = limited(limit, *run, *QUICK, "--out", f"out{limit}")
                self.assertIn(done.returncode, (0, 5), done.stderr)
                [row] = ledger(self.folder / f"out{limit}")[1]
                if limit == 1 or row["status"] != "ok":  # what looks around meanwhile can do without
                    self.assertEqual(row["status"], "error", row["message"])
                    self.assertIn("no thread or process could be started", row["message"])
                    self.assertIn(f"ulimit -u {limit}", row["message"])

    def test_the_limit_of_processor_time_is_named(self):
        done = self.limited("-t 3", "run", "--data", "uniform:20000,8,1", "--k", "64", "--iterations",
                            "100000", "--variant", "kmeans_serial", *QUICK, "--out", "out")
        self.assertEqual(done.returncode, 5, done.stderr)
        [row] = ledger(self.folder / "out")[1]
        self.assertEqual(row["status"], "crashed")
        self.assertRegex(row["message"], r"signal (9|24) \(.*\): it had used [1-3]\.\d of the 3 s of processor time "
                                         r"that are allowed \(ulimit -t\)")

    def test_a_cache_that_nothing_names(self):
        self.points(60)
        for name in ("CLUSTERBENCH_CACHE", "XDG_CACHE_HOME", "HOME"):
            self.environment.pop(name, None)
        run = ["run", "--k", 3, "--iterations", 4, "--variant", "kmeans_serial", *QUICK]
        done = self.run_program(*run, "--data", "points.npy", "--out", "out")
        self.assertEqual(done.stderr.count("none of CLUSTERBENCH_CACHE, XDG_CACHE_HOME and HOME is set"), 1)
        self.assertEqual([row["status"] for row in ledger(self.folder / "out")[1]], ["ok"])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["out", "points.npy"])
        done = self.run_program(*run, "--data", "uniform:60,2,1", "--out", "other", exit_code=64)
        self.assertIn("no cache folder: set CLUSTERBENCH_CACHE, XDG_CACHE_HOME or HOME", done.stderr)

    def test_no_memory_for_a_thread(self):
        self.points(60)
        codes = {}
        for limit in [4 << 10, *range(24 << 10, 52 << 10, 2 << 10)]:  # a thread's stack wants 8 MiB
            with self.subTest(limit):
                done = subprocess.run(
                    ["bash", "-c", f'ulimit -d {limit}; exec "$@"', "bash", BINARY, "run", "--data", "points.npy",
                     "--k", "3", "--iterations", "4", "--variant", "kmeans_serial", *QUICK, "--out", f"out{limit}"],
                    cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                    text=True, timeout=PATIENCE)
                codes[limit] = done.returncode
        self.assertLessEqual(set(codes.values()), {0, 5, 64})
        self.assertEqual(codes[4 << 10], 0)  # where none can be started, everything does without


class Oracle(Program):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"  # its own: what others computed must not be in it
        self.environment["CLUSTERBENCH_CACHE"] = str(self.cache)

    def looks_for_the_oracle(self, *options, out, exit_code):
        """The lines of a variant that is right if it finds the oracle, and wrong else."""
        return self.campaign(*PROBLEM, "--variant", "kmeans_faulty_looks_for_the_oracle",
                             *options, *SAME_STARTS, program=FAULTY, out=out, exit_code=exit_code)

    def test_is_neither_open_nor_written_before_the_child_has_ended(self):
        rows = self.looks_for_the_oracle(out="out", exit_code=2)
        self.assertEqual(rows[0]["status"], "wrong")
        # Of the own start and of a whole answer's; so there was something to look for, in the right
        # place.
        self.assertEqual(len(list((self.cache / "oracle").iterdir())), 2)

    def test_cannot_be_read_even_if_cached_before(self):
        right = self.campaign(*PROBLEM, "--variant", "kmeans_serial", *SAME_STARTS, out="before")
        if any("Landlock:" in part for part in right[0]["sandbox_lacks"]):
            self.skipTest("this kernel has no Landlock")
        cached = set((self.cache / "oracle").iterdir())
        rows = self.looks_for_the_oracle("--rounds", 2, out="out", exit_code=2)
        self.assertEqual([row["status"] for row in rows], ["wrong", "wrong"])
        self.assertEqual(set((self.cache / "oracle").iterdir()), cached)  # it was the same problem
        # What it looks for is there: without a sandbox it finds it.
        rows = self.looks_for_the_oracle("--unsandboxed", out="unsandboxed", exit_code=0)
        self.assertEqual(rows[0]["status"], "ok", rows[0]["message"])

    def test_damaged_cache_is_mended(self):
        before = self.campaign(*PROBLEM, "--variant", "kmeans_serial", *SAME_STARTS, out="before")
        for path in (self.cache / "oracle").iterdir():
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)
        after = self.campaign(*PROBLEM, "--variant", "kmeans_serial", *SAME_STARTS, out="after")
        self.assertEqual(after[0]["status"], "ok")
        self.assertEqual(after[0]["verification"], before[0]["verification"])

    def test_without_a_cache_nothing_else_is_lost(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial", out="before")  # makes the points
        shutil.rmtree(self.cache / "oracle")
        (self.cache / "oracle").write_text("in the way")
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", "--variant",
                                "kmeans_openmp", "--precision", "f64", *QUICK, "--out", "after")
        self.assertEqual([row["status"] for row in ledger(self.folder / "after")[1]], ["ok", "ok"])
        self.assertEqual(done.stderr.count("are not kept for later campaigns"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
