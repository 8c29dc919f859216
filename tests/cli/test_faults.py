"""Variants that crash, hang, run out of memory, misbehave or compute wrongly: each costs its own
row and nothing else."""

import json
import shutil
import subprocess
import time
import unittest

from program import BINARY, FAULTY, QUICK, Program, ledger

# Beyond the qualification's sizes: here the planted faults strike, unless they are early.
PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]

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
    "exits_early": ("crashed", r"exited with code 0 before it reported"),
    "exits_with_code": ("crashed", r"exited with code 7"),
    "prints_garbage": ("ok", r"^$"),
    "prints_and_crashes": ("crashed", r"^signal 11"),
    "leaves_a_process": ("ok", r"^$"),
    "leaves_a_daemon": ("ok", r"^$"),
    "writes_a_report": ("wrong", r"^\d reports came instead of 1: "),
    "fills_the_disk": ("crashed", r"signal 25 \(File size limit exceeded\)"),
    "refuses": ("refused", r"^planted: not today$"),
    "slow": ("ok", r"^$"),
}

# A wrong row's message: the name of a check, and the place.
PLACE = r"(?m)^(qualification: .*: )?{}: .*\b(point|cluster|iterations?)\b.*\d"
SOME_CHECK = (r"(labels|means|centres|passes|iterations|finite|label range|recording|stop rule|"
              r"memberships|row sums|trace|objective|never rises)")

# variant -> the check that its message begins with; None: any
WRONG = {
    "kmeans": {
        "drops_tail": "passes", "drops_one_row": "passes", "stale_centroids": "labels",
        "racy_sums": "passes", "counts_of_one_block": "passes", "returns_initial_state": None,
        "not_a_number": "finite", "labels_off_by_one": "label range",
        "wrong_labels_in_range": "labels", "squared_loss": "stop rule", "stops_early": None,
        "one_pass_too_many": "iterations", "hides_one_pass_too_many": "recording",
        "ties_to_highest": None, "wrong_later": None, "inertia_too_high": None,
        "wrong_once": None, "wobbles_wrong_once": None, "empty_to_origin": "passes", "claims_no_passes": "iterations",
        "claims_all_passes": "iterations",
    },
    "fcm": {
        "drops_tail": None, "drops_one_row": None, "stale_centroids": None, "racy_sums": None,
        "counts_of_one_block": None, "returns_initial_state": None, "not_a_number": "finite",
        "labels_off_by_one": "label range", "wrong_labels_in_range": "labels",
        "squared_loss": "stop rule", "stops_early": None, "one_pass_too_many": "iterations",
        "hides_one_pass_too_many": None, "ties_to_highest": None, "wrong_later": None,
        "wrong_once": None, "inertia_too_high": None, "wrong_exponent": "memberships", "unweighted_power": None,
        "not_normalised": None,
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
        cls.done = cls.runner.run_program(
            "run", *PROBLEM, "--family", cls.family, "--variant", cls.family + "_faulty_*",
            "--variant", cls.family + "_serial", "--samples", 2, "--budget", 0, "--no-probe",
            "--threads", 1, "--timeout", 4, "--out", "out", program=FAULTY, exit_code=2)
        cls.left = cls.runner.left_running()
        cls.headers, rows = ledger(cls.runner.folder / "out")
        cls.count = len(rows)
        cls.rows = {row["variant"]: row for row in rows}

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
        table = self.done.stdout
        line = next(line for line in table.splitlines() if "_wrong_later" in line)
        # No rank and no figure: problem, precision, rank, variant, and what is wrong.
        self.assertEqual([line.split()[2], *line.split()[4:6]], ["–", "wrong", "wrong:"], line)


class KMeans(OneCampaign, Program):
    family = "kmeans"

    def test_statuses_and_messages(self):
        for name, (status, message) in FAULTS.items():
            with self.subTest(name):
                row = self.rows["kmeans_faulty_" + name]
                self.assertEqual(row["status"], status, row["message"])
                self.assertRegex(row["message"], message)

    def test_every_variant_is_expected(self):
        expected = {*FAULTS, *WRONG["kmeans"], "none", "wobbles", "wobbles_wrong_late",
                    "looks_for_the_oracle"}
        self.assertEqual({name.removeprefix("kmeans_faulty_") for name in self.rows} -
                         {"kmeans_serial"}, expected)

    def test_last_words_are_kept(self):
        self.assertEqual(self.rows["kmeans_faulty_prints_and_crashes"]["output_tail"],
                         "planted: last words \ufffd\n")
        self.assertNotIn("planted: last words", self.done.stdout)

    def test_all_findings_of_a_row_that_is_right_first_and_wrong_later(self):
        row = self.rows["kmeans_faulty_wrong_later"]
        self.assertEqual(row["distinct_results"], 2)
        self.assertEqual([verdict["right"] for verdict in row["verification"]][0], True)
        self.assertEqual([verdict["right"] for verdict in row["verification"]][-1], False)

    def test_gbench_holds_right_cells_only(self):
        benchmarks = json.loads((self.runner.folder / "out" / "gbench.json").read_text())
        names = {benchmark["name"].split("/")[-2] for benchmark in benchmarks["benchmarks"]}
        self.assertEqual(names, {name for name, row in self.rows.items() if row["status"] == "ok"})

    def test_resume_reuses_what_another_run_would_not_change(self):
        done = self.runner.run_program(
            "run", *PROBLEM, "--variant", "kmeans_faulty_*", "--variant", "kmeans_serial",
            "--samples", 2, "--budget", 0, "--no-probe", "--threads", 1, "--timeout", 4,
            "--out", "out", "--resume", program=FAULTY, exit_code=2)
        settled = [row for row in self.rows.values() if row["status"] in ("ok", "wrong", "refused")]
        self.assertIn(f"re-used {len(settled)} rows", done.stderr)
        self.assertEqual(done.stdout, self.done.stdout)


class FuzzyCMeans(OneCampaign, Program):
    family = "fcm"


class OneWrongRun(Program):
    """Wrong in the third of four samples; the first, the last and the recorded run are right."""

    def row(self, variant, samples=4):
        self.run_program("run", *PROBLEM, "--variant", "kmeans_faulty_" + variant, "--samples",
                         samples, "--budget", 0, "--no-probe", "--out", variant, program=FAULTY,
                         exit_code=0 if variant == "wobbles" else 2)
        return ledger(self.folder / variant)[1][0]

    def test_of_a_variant_that_says_it_is_deterministic(self):
        row = self.row("wrong_once")
        self.assertEqual(row["status"], "wrong")
        self.assertEqual(row["distinct_results"], 2)
        self.assertEqual([verdict["right"] for verdict in row["verification"]].count(False), 1)

    def test_of_one_that_gives_other_bits_each_time(self):
        row = self.row("wobbles_wrong_once")
        self.assertEqual(row["status"], "wrong")
        self.assertRegex(row["message"], PLACE.format("means"))
        self.assertEqual([verdict["right"] for verdict in row["verification"]].count(False), 1)

    def test_other_bits_alone_are_not_wrong(self):
        row = self.row("wobbles")
        self.assertEqual(row["status"], "ok")
        self.assertEqual(row["distinct_results"], len(row["samples_ms"]) +
                         len(row["warm_up_samples_ms"]))
        self.assertEqual(row["answers_judged"], row["distinct_results"] + 1)  # and the recorded

    def test_one_of_forty_different_answers_is_wrong(self):
        row = self.row("wobbles_wrong_late", samples=40)
        self.assertGreaterEqual(row["distinct_results"], 40)
        self.assertEqual(row["status"], "wrong")
        self.assertRegex(row["message"], PLACE.format("means"))
        self.assertEqual(row["answers_judged"], 17 + 1)  # then only the recorded one

    def test_where_the_oracle_does_not_repeat_the_run(self):
        self.environment["CLUSTERBENCH_ORACLE_BUDGET"] = "1"
        for variant, status in (("wobbles", "ok"), ("wobbles_wrong_once", "wrong")):
            with self.subTest(variant):
                row = self.row(variant)
                self.assertEqual(row["oracle"], "single steps only")
                self.assertEqual(row["status"], status, row["message"])


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
                    self.assertEqual([step["state"] for step in row["single_steps"]],
                                     ["initial state", "after pass 2 of its own run"])

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
        for variants, exit_code in ((["none"], 0), (["refuses"], 0), (["segfaults"], 5),
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
        self.assertLess(time.monotonic() - start, 120)  # it hangs for ever
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


class Oracle(Program):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"  # its own: what others computed must not be in it
        self.environment["CLUSTERBENCH_CACHE"] = str(self.cache)

    def test_is_neither_open_nor_written_before_the_child_has_ended(self):
        rows = self.campaign(*PROBLEM, "--variant", "kmeans_faulty_looks_for_the_oracle",
                             program=FAULTY, exit_code=2)
        self.assertEqual(rows[0]["status"], "wrong")
        cached = list((self.cache / "oracle").iterdir())
        self.assertEqual(len(cached), 1)  # so there was something to look for, in the right place

    def test_cannot_be_read_even_if_cached_before(self):
        right = self.campaign(*PROBLEM, "--variant", "kmeans_serial", out="before")
        if not right[0]["oracle_hidden"]:
            self.skipTest("this kernel has no Landlock")
        cached = list((self.cache / "oracle").iterdir())
        rows = self.campaign(*PROBLEM, "--variant", "kmeans_faulty_looks_for_the_oracle",
                             "--rounds", 2, program=FAULTY, exit_code=2)
        self.assertEqual([row["status"] for row in rows], ["wrong", "wrong"])
        self.assertEqual(list((self.cache / "oracle").iterdir()), cached)  # it was the same problem

    def test_damaged_cache_is_mended(self):
        before = self.campaign(*PROBLEM, "--variant", "kmeans_serial", out="before")
        for path in (self.cache / "oracle").iterdir():
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0xFF
            path.write_bytes(content)
        after = self.campaign(*PROBLEM, "--variant", "kmeans_serial", out="after")
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


class Streams(Program):
    """What cannot be said costs no row; what was asked for on stdout and cannot be printed is 74."""

    def end_of(self, redirections):
        arguments = " ".join(map(str, ["run", *PROBLEM, "--variant", "kmeans_serial", "--variant",
                                       "kmeans_simd", *QUICK, "--out", "out"]))
        done = subprocess.run(["bash", "-c", f"exec '{BINARY}' {arguments} {redirections}"],
                              cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual([row["status"] for row in rows], ["ok", "ok"])
        shutil.rmtree(self.folder / "out")
        return done.returncode

    def test_messages_that_cannot_be_written_are_ignored(self):
        self.assertEqual(self.end_of("2>/dev/full"), 0)

    def test_closed_streams(self):
        for redirections in ("2>&-", "<&-", "<&- 2>&-"):
            with self.subTest(redirections):
                self.assertEqual(self.end_of(redirections), 0)
        self.assertEqual(self.end_of(">&-"), 0)  # as with >/dev/null

    def test_tables_that_cannot_be_printed(self):
        self.assertEqual(self.end_of(">/dev/full"), 74)


if __name__ == "__main__":
    unittest.main()
