"""Checks of a program's answers against the oracle."""

import dataclasses
import time
import unittest

import numpy as np

from oracle import TOLERANCE


class Checked(unittest.TestCase):
    def close(self, got, wanted, precision, what):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=5 * TOLERANCE[precision],
                                   err_msg=what)

    def check(self, variant, problem, start, reply, answer):
        """An answer is that of the oracle, which stops where the program did."""
        passes, precision = reply["iterations"], problem.precision
        oracle = problem.oracle(start, variant["family"])
        if passes < len(oracle.passes) and variant["name"].startswith("kmeans_sklearn"):
            # At its fixed point it stops whatever the rule.
            fixed = problem.oracle(start, variant["family"], rule="labels")
            self.assertEqual(passes, len(fixed.passes))
            oracle = fixed
        self.assertEqual(passes, len(oracle.passes))
        self.close(answer.centroids, oracle.centroids, precision, "centroids")
        np.testing.assert_array_equal(answer.labels, oracle.labels_after
                                      if variant["labels"] == "after update" else oracle.labels)
        if variant["gives_entering"]:
            if oracle.entering is None:
                self.assertTrue(np.isnan(answer.entering).all())
            else:
                self.close(answer.entering, oracle.entering, precision, "entering")
        if answer.memberships is not None:
            self.close(answer.memberships, oracle.memberships, precision, "memberships")
        if len(answer.recorded):
            self.assertEqual(len(answer.recorded), passes)
            np.testing.assert_array_equal(answer.recorded[-1], answer.centroids)
            for got, wanted in zip(answer.recorded, oracle.passes):
                self.close(got, wanted, precision, "recorded")

    def check_clock(self, reply, outside):
        parts = ("prepare_s", "run_s", "download_s")
        self.assertGreater(reply["seconds"], 0)
        self.assertLessEqual(reply["seconds"], outside)
        if "prepare_s" in reply:
            self.assertAlmostEqual(sum(reply[part] for part in parts), reply["seconds"], 6)

    def check_problem(self, program, problem, random, runs=3):
        """Several starts on what was prepared once, a recording run, and a whole answer."""
        variant = program.variant
        problem.hand_to(program)
        program.prepare()
        digests = {}
        for turn in range(runs + 1):
            start, _ = problem.clear_start(random, variant)
            before = time.monotonic()
            reply = program.run(start, record=turn == runs and variant["records"])
            self.check_clock(reply, time.monotonic() - before)
            self.check(variant, problem, start, reply, answer := program.take()[1])
            digests[turn] = answer.labels.tobytes() + answer.centroids.tobytes()
            if turn == 0 and variant["deterministic"]:
                program.run(start)
                again = program.take()[1]
                self.assertEqual(digests[0], again.labels.tobytes() + again.centroids.tobytes())
        problem = dataclasses.replace(problem, rotate=int(random.integers(0, len(problem.points))))
        start, _ = problem.clear_start(random, variant)
        problem.hand_to(program)
        before = time.monotonic()
        reply = program.whole(start)
        self.check_clock(reply, time.monotonic() - before)
        self.check(variant, problem, start, reply, program.take()[1])
