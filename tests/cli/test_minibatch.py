"""Mini-batch k-means, the approximate variants that draw rows: right within what they declare, shown
apart, and wrong where their rule is."""

import random
import re
import unittest

from program import QUICK, SOURCE, Program

VARIANT = SOURCE / "impls" / "openmp" / "kmeans_openmp_minibatch.cpp"
CLOUDS = ["--data", "mixture:5000,6,8,0.5,1", "--k", 8, "--iterations", 6]


class MiniBatch(Program):
    def test_right_within_what_it_declares(self):
        for row in self.campaign(*CLOUDS, "--precision", "f32", "--precision", "f64",
                                 "--variant", "*_minibatch"):
            with self.subTest(row["variant"], precision=row["precision"]):
                if row["status"] == "unavailable":
                    self.skipTest(row["message"])
                self.assertEqual((row["status"], row["message"]), ("ok", ""))
                self.assertEqual(row["iterations"], 6)
                self.assertEqual(row["approximate_within"], 1.0)
                self.assertGreater(row["verification"][0]["oracle_objective"], 0.0)

    def test_it_is_ranked_apart(self):
        done = self.run_program("run", *CLOUDS, "--variant", "kmeans_openmp_minibatch",
                                "--variant", "kmeans_openmp", *QUICK)
        self.assertRegex(done.stdout, r"(?m)^ +1 +1 +kmeans_openmp ")
        self.assertRegex(done.stdout, r"(?m)^ +≈1 +≈1 +kmeans_openmp_minibatch ")
        self.assertRegex(done.stdout, "kmeans_openmp_minibatch: approximate: 0 % of labels differ")

    def test_it_stops_after_a_number_of_iterations_only(self):
        row, = self.campaign("--data", "mixture:5000,6,8,0.5,1", "--k", 8, "--stop", "labels",
                             "--variant", "kmeans_openmp_minibatch", exit_code=6)
        self.assertEqual(row["status"], "refused")
        self.assertIn("a fixed number of iterations only", row["message"])

    def judged(self, old, new, exit_code):
        """What `judge` says of the variant with a part of it replaced."""
        header = re.search(r'#include "(.*distances.hpp)"', VARIANT.read_text())
        text = VARIANT.read_text().replace(header.group(0), (SOURCE / header.group(1)).read_text())
        text = text.replace("#pragma once\n", "").replace("kmeans_openmp_minibatch", "kmeans_mine")
        text = text.replace('#include "impls/contract.hpp"', "#include <clusterbench/contract.hpp>")
        self.assertEqual(text.count(old), 1, old)
        file = self.folder / "kmeans_mine.cpp"
        file.write_text(text.replace(old, new))
        drawn = random.Random(1)
        data = self.folder / "two.csv"
        data.write_text("".join(f"{drawn.gauss(100 + i % 2 * 100, 1)},{drawn.gauss(0, 1)}\n"
                                for i in range(6000)))
        return self.run_program("judge", file, "--data", data, "--k", 2, "--iterations", 6, "--alone",
                                "--samples", 1, "--budget", 0, "--no-probe", "--threads", 1,
                                exit_code=exit_code).stdout

    def test_a_wrong_learning_rate_is_wrong(self):
        """Of two clouds on a line through the origin, to which centroids drift whose past weighs too
        little: soon one of them has all points."""
        rate = "double sum = before * double{centroid[f]};"
        self.assertIn("kmeans_mine: approximate", self.judged(rate, rate, 0))
        wrong = self.judged(rate, "double sum = 0.9 * before * double{centroid[f]};", 2)
        self.assertIn("right on the small awkward problems", wrong)
        self.assertRegex(wrong, r"objective: after iteration 6: got\s+\S+ expected")


if __name__ == "__main__":
    unittest.main()
