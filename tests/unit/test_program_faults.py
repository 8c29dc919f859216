"""What tests of the harness plant in a program is there, and an oracle sees it."""

import os
import pathlib
import sys
import time
import unittest
import uuid

import numpy as np

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "programs"))

from checked import Checked  # noqa: E402
from drive import Failure, Program  # noqa: E402
from oracle import Problem  # noqa: E402

FAKE = SOURCE / "tests" / "programs" / "kmeans_fake.py"


class Faults(Checked):
    def setUp(self):
        self.random = np.random.default_rng(6)
        # The faults strike beyond 1500 points.
        points = self.random.uniform(-5, 5, (1600, 2))
        self.problem = Problem(points, 3, "f64", 1, {"rule": "iterations", "threshold": 0.0,
                                                     "max_iterations": 2})

    def strike(self, fault, whole=False):
        """Replies and answer of a variant with this fault."""
        self.mark = f"clusterbench-test-{uuid.uuid4().hex}"
        timeout = 2 if fault in ("hangs", "long_line") else 60
        with Program(FAKE, timeout=timeout, environment={"TEST_MARK": self.mark}) as program:
            program.load("kmeans_fake" + (f"_{fault}" if fault else ""))
            program.variant = {"family": "kmeans", "labels": "before update"} | program.variant
            self.problem.hand_to(program)
            self.start, _ = self.problem.clear_start(self.random, program.variant)
            if not whole:
                program.prepare()
            before = time.monotonic()
            reply = (program.whole if whole else program.run)(self.start)
            self.outside = time.monotonic() - before
            answer = program.take()[1]
            self.noise = program.noise
            self.check(program.variant, self.problem, self.start, reply, answer)
        return reply

    def test_none(self):
        for whole in (False, True):
            self.check_clock(self.strike("", whole), self.outside)

    def test_ends(self):
        for fault, kind in (("dies", "ended"), ("exits", "ended"), ("hangs", "silent"),
                            ("raises", "error"), ("refuses", "refused"), ("says_nothing", "ended"),
                            ("wrong_reply", "take"), ("unavailable", "unavailable"),
                            ("closes", "ended"), ("long_line", "silent"),
                            ("replies_twice", "run")):
            for whole in (False, True):
                kind = "whole" if fault == "replies_twice" and whole else kind
                with self.subTest(fault, whole=whole), self.assertRaises(Failure) as raised:
                    self.strike(fault, whole)
                self.assertEqual(raised.exception.kind, kind)

    def test_wrong_answers(self):
        for fault in ("answers_wrong", "writes_too_little", "shrinks_files", "no_numbers"):
            for whole in (False, True):
                with self.subTest(fault, whole=whole), self.assertRaises(
                        (AssertionError, ValueError, TypeError, KeyError)):
                    self.strike(fault, whole)

    def test_clocks(self):
        for whole in (False, True):
            self.assertLess(self.strike("lies", whole)["seconds"], 0.01 * self.outside)
            self.assertEqual(self.strike("claims_nothing", whole)["seconds"], 0)
            self.assertEqual(self.strike("claims_a_nanosecond", whole)["seconds"], 1e-9)
            self.assertGreater(self.strike("boasts", whole)["seconds"], self.outside)
            self.assertTrue(np.isnan(self.strike("says_nan", whole)["seconds"]))

    def test_rubbish(self):
        self.strike("prints_rubbish")
        self.assertGreaterEqual(len(self.noise), 5)

    def test_a_process_stays(self):
        self.strike("leaves_a_process")
        left = [int(process.name) for process in pathlib.Path("/proc").glob("[0-9]*")
                if self.is_marked(process)]
        for process in left:
            os.kill(process, 9)
        self.assertEqual(len(left), 1)

    def is_marked(self, process):
        try:
            return self.mark.encode() in (process / "environ").read_bytes()
        except OSError:
            return False  # it ended meanwhile, or it is not ours


if __name__ == "__main__":
    unittest.main()
