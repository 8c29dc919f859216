"""scripts/headline.py: README.md's first table says of each time which machine it is of, of how many processes
and samples, and what the ledgers behind it lack. Tried on made-up reports, and on the committed page."""

import os
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.path[:0] = [str(SOURCE / "scripts")]

from headline import Headline  # noqa: E402
from reference import POINTS_TRAVEL_SINCE, joined, span  # noqa: E402

SERIAL, SIMD, OPENMP, CUDA = "kmeans_serial", "kmeans_simd", "kmeans_openmp", "kmeans_cuda_fused"
OLD, NEW = "2026-11-25T00:00:00Z", "2026-11-28T00:00:00Z"
CPU_LIMITS = {"cpu": [{"threads": 2, "cpu_share": 1.0, "compare_f32_gpairs": 1.0}]}


class Campaigns:
    """What `table --json` would say of campaigns on made-up machines."""

    def __init__(self):
        self.machines, self.cells = [], []

    def machine(self, name, *variants, limits=None, time=NEW, rounds=1, samples=9):
        """A machine that ran each variant, of which a pass took 1 ms."""
        letter = chr(ord("A") + len(self.machines))
        limits = limits or CPU_LIMITS
        self.machines.append({"id": letter, "name": name, "date": time[:10], "ledgers": [f"{name}.jsonl"],
                              "environment": f"hash of {name}", "limits": limits,
                              "cpu_shares": [each["cpu_share"] for each in limits["cpu"]]})
        for variant in variants:
            self.cells.append({
                "problem": "p", "variant": variant, "precision": "f32", "machine": letter, "threads": 2,
                "device": "gpu" if "cuda" in variant else "cpu", "status": "ok", "rounds": rounds,
                "times": [time] * rounds, "runs": [samples] * rounds, "whole_answers": [5] * rounds,
                "n": 1000, "d": 2, "rank": len(self.cells) + 1, "whole_rank": len(self.cells) + 1,
                "ms_per_iteration": 1.0, "whole_ms": 11.0, "digits": {"ms_per_iteration": 3, "whole_ms": 2},
                "percent_of_limit": 20.0})
        return f"{name}.jsonl"

    def report(self):
        problem = {"id": "p", "data": "x", "k": 4, "family": "kmeans"}
        return {"name": "t", "title": "a table", "machines": self.machines, "cells": self.cells, "problems": [problem]}

    def text(self):
        return Headline([self.report()]).text()


class Footer(unittest.TestCase):
    def setUp(self):
        self.campaigns = Campaigns()

    def test_each_time_names_its_machine(self):
        self.campaigns.machine("Large", CUDA)
        self.campaigns.machine("Small", SERIAL)
        text = self.campaigns.text()
        self.assertIn("| 1.00, 20 % `kmeans_cuda_fused` (A) |", text)
        self.assertIn("| 1.00, 20 % `kmeans_serial` (B) |", text)
        self.assertIn("- A: Large (2026-11-28).\n- B: Small (2026-11-28).\n", text)

    def test_one_row_may_be_of_two_machines(self):
        self.campaigns.machine("Large", SIMD)
        self.campaigns.machine("Small", SIMD)
        by_pass, whole = self.campaigns.cells
        by_pass["ms_per_iteration"], whole["whole_ms"] = 0.5, 1.0
        row = self.campaigns.text().splitlines()[2]
        self.assertIn("0.500, 20 % `kmeans_simd` (A)", row)
        self.assertIn("1.0 `kmeans_simd` (B)", row)

    def test_a_machine_has_one_letter_in_all_tables(self):
        self.campaigns.machine("Large", CUDA)
        self.campaigns.machine("Small", SERIAL)
        other = Campaigns()
        other.machine("Small", SERIAL)
        text = Headline([self.campaigns.report(), other.report()]).text()
        self.assertEqual(text.count("`kmeans_serial` (B)"), 8)  # plain C++ and the CPU's column, twice each
        self.assertEqual(text.count(": Small ("), 1)

    def test_what_the_probe_got_of_the_processors(self):
        share = {"cpu": [{"threads": 2, "cpu_share": 0.301, "compare_f32_gpairs": 1.0}]}
        self.campaigns.machine("Shared", SIMD, limits=share)
        self.campaigns.machine("Alone", SERIAL)
        text = self.campaigns.text()
        self.assertIn("A: Shared (2026-11-28); its probe got 30 % of its processors' time (`cpu_share`).", text)
        self.assertIn("B: Alone (2026-11-28).\n", text)

    def test_processes_and_samples(self):
        self.campaigns.machine("One", SERIAL, samples=3)
        self.campaigns.machine("Two", SIMD, samples=12)
        self.campaigns.cells[1].update(ms_per_iteration=0.5)
        self.assertIn("Each time is of one process (one round): per iteration the median of 3 to 12 runs, of a whole "
                      "answer the median of 5 runs.", self.campaigns.text())

    def test_samples_of_all_rounds_count(self):
        self.campaigns.machine("One", SERIAL, samples=3, rounds=2)
        self.assertIn("Each time is of 2 processes (rounds): per iteration the median of 6 runs, of a whole answer "
                      "the median of 10 runs.", self.campaigns.text())

    def test_what_an_equals_sign_rests_on(self):
        self.campaigns.machine("One", SIMD, OPENMP)
        self.assertNotIn("`=`", self.campaigns.text())
        self.campaigns.cells[1].update(rank=1, whole_rank=1)
        text = self.campaigns.text()
        self.assertIn("`kmeans_simd` = `kmeans_openmp` (A)", text)
        self.assertIn("An `=` stands between variants that samples of one process each do not tell apart.", text)
        self.assertNotIn("that rounds do not", text)

    def test_an_equals_sign_of_several_rounds(self):
        self.campaigns.machine("One", SIMD, OPENMP, rounds=2)
        self.campaigns.cells[1].update(rank=1, whole_rank=1)
        self.assertIn("An `=` stands between variants that rounds do not tell apart.", self.campaigns.text())

    def test_a_bound_without_comparisons_is_said(self):
        bare = {"cpu": [{"threads": 2, "cpu_share": 1.0}], "gpu": {"read_gbs": 1.0}}
        self.campaigns.machine("Bare", CUDA, limits=bare)
        self.campaigns.machine("Full", SERIAL)
        said = "The percentages of A are of a bound of bytes and multiply-adds alone"
        self.assertIn(said, self.campaigns.text())
        for cell in self.campaigns.cells:
            del cell["percent_of_limit"]
        self.assertNotIn("multiply-adds", self.campaigns.text())

    def test_a_bound_is_that_of_the_rows_own_table(self):
        bare, later = Campaigns(), Campaigns()
        bare.machine("One", CUDA, limits={"cpu": [{"threads": 2, "cpu_share": 1.0}], "gpu": {"read_gbs": 1.0}})
        later.machine("One", SERIAL)
        for reports in ([bare.report(), later.report()], [later.report(), bare.report()]):
            self.assertIn("The percentages of A are of a bound", Headline(reports).text())
        self.assertNotIn("of a bound of bytes", Headline([later.report()]).text())

    def test_all_probes_of_a_machine_count(self):
        self.campaigns.machine("One", CUDA)
        self.campaigns.machines[0]["cpu_shares"] = [0.38, 0.30]
        self.assertIn("its probe got 30 to 38 % of", self.campaigns.text())

    def test_a_bound_is_of_the_device(self):
        for gpu, is_said in (({"read_gbs": 1.0}, True), ({"compare_f32_gpairs": 1.0}, False)):
            with self.subTest(gpu=gpu):
                campaigns = Campaigns()
                campaigns.machine("GPU", CUDA, limits={**CPU_LIMITS, "gpu": gpu})
                self.assertEqual("multiply-adds" in campaigns.text(), is_said)

    def test_whole_answers_before_points_travelled_as_now(self):
        self.assertTrue(OLD < POINTS_TRAVEL_SINCE < NEW)
        said = "Whole answers on the GPU of 2026-11-25 are older than the way in which points travel now"
        for variant, time, is_said in ((CUDA, OLD, True), (CUDA, NEW, False), (SERIAL, OLD, False)):
            with self.subTest(variant=variant, time=time):
                campaigns = Campaigns()
                campaigns.machine("One", variant, time=time)
                self.assertEqual(said in campaigns.text(), is_said)

    def test_words(self):
        self.assertEqual([span([3, 207, 5]), span([5, 5])], ["3 to 207", "5"])
        self.assertEqual([joined("A"), joined("AB"), joined("ABC")], ["A", "A and B", "A, B and C"])


class CommittedPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        page = (SOURCE / "README.md").read_text()
        cls.block = page.split("<!-- headline begin -->\n")[1].split("<!-- headline end -->")[0]
        cls.outside = page.replace(cls.block, "")

    def test_every_time_has_a_letter_of_the_legend(self):
        legend = set(re.findall(r"(?m)^- ([A-Z]): ", self.block))
        rows = [line for line in self.block.splitlines() if line.startswith("| ")][2:]
        self.assertEqual(len(rows), 5)
        for cell in (cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]):
            if cell != "–":
                self.assertRegex(cell, rf"` \([{''.join(legend)}]\)$")

    def test_nothing_else_speaks_of_rounds_that_nobody_ran(self):
        self.assertRegex(self.block, r"Each time is of [\w ]+ \([\w ]*rounds?\): per iteration the median of ")
        self.assertNotRegex(self.outside, "Rounds do not tell")


if __name__ == "__main__":
    unittest.main()
