"""The server that programs of other ecosystems share: what it asks of a solver, and when."""

import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "programs"))

from drive import Failure, Program  # noqa: E402

PYTHON = SOURCE / "impls" / "python"

# Its answers show what the server does: where the points lie and what they are, which of the calls
# wait and convert, and what is passed on.
TOY = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.peer import Answer, Refused, Solver, Variant, serve

class Toy(Solver):
    def __init__(self, problem):
        self.problem, self.told = problem, "made"
        if problem.max_iterations == 13:
            raise Refused("unlucky")
        if problem.max_iterations == 14:
            raise MemoryError()
        if problem.max_iterations == 15:
            raise type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory")

    def run(self, start, record):
        print("a library says {\\"reply\\": \\"run\\"}")
        points = self.problem.points
        self.told = "ran"
        centroids = start.centroids.copy()
        centroids[0, 0] = points.ctypes.data
        centroids[1] = points[0]
        short = self.problem.max_iterations == 16
        return Answer(3, ["0"] * (self.problem.n - short), centroids)

    def wait(self):
        time.sleep(0.01 if self.told == "made" else 0.03)

    def to_host(self, array):
        time.sleep(0.02)
        return [int(label) for label in array] if isinstance(array, list) else array

serve([Variant(name="toy", idea="", source="", make=Toy, gives_entering=True)],
      lambda threads: {"threads": str(threads)})
"""


class Server(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.program_of(TOY)
        self.points = np.arange(24.0).reshape(8, 3)
        self.start = np.ones((2, 3))

    def program_of(self, text):
        file = self.folder / "toy.py"
        file.write_text(text)
        program = Program(file, PYTHON)
        self.addCleanup(program.__exit__)
        return program

    def failure(self, request, **fields):
        with self.assertRaises(Failure) as raised:
            self.program.ask(request, **fields)
        return raised.exception

    def test_load(self):
        reply = self.program.load("toy", threads=3)
        self.assertEqual(reply["versions"], {"numpy": np.__version__, "threads": "3"})

    def test_what_cannot_be_done_is_an_error_and_not_the_end(self):
        self.assertEqual(self.failure("dance").kind, "error")
        self.assertEqual(self.failure("load", variant="other", threads=1).kind, "error")
        self.program.load("toy")
        for request in ("prepare", "run", "whole", "take"):
            self.assertEqual(self.failure(request, record=False).kind, "error", request)
        self.program.points(self.points, 2)
        self.assertEqual(self.failure("run", record=False).kind, "error")
        self.assertEqual(self.failure("take").kind, "error")
        self.program.ask("ping")

    def test_how_a_solver_ends(self):
        self.program.load("toy")
        for passes, kind, message in ((13, "refused", "unlucky"), (14, "out_of_memory", "Memory"),
                                      (15, "out_of_memory", "CUDA out of memory")):
            self.program.points(self.points, 2, max_iterations=passes)
            failure = self.failure("prepare")
            self.assertEqual(failure.kind, kind)
            self.assertIn(message, failure.message)
        self.program.points(self.points, 2, max_iterations=16)
        self.program.whole(self.start)
        self.assertIn("labels are [7], and not [8]", self.failure("take").message)

    def test_a_library_that_cannot_be_mapped_is_no_missing_one(self):
        for raised, kind in (("ImportError('libx.so: cannot open shared object file')", "unavailable"),
                             ("ImportError('libx.so: failed to map segment from shared object')",
                              "out_of_memory"),
                             ("ImportError('see above') from OSError('Cannot allocate memory')",
                              "out_of_memory"),
                             ("MemoryError()", "out_of_memory"), ("ValueError('odd')", "error")):
            with self.subTest(raised):
                program = self.program_of(TOY.replace(
                    "lambda threads: {\"threads\": str(threads)})", "load)").replace(
                    "serve([", f"def load(threads):\n    raise {raised}\n\nserve(["))
                with self.assertRaises(Failure) as failure:
                    program.load("toy")
                self.assertEqual(failure.exception.kind, kind)

    def test_each_copy_of_the_points_is_elsewhere_and_rotated(self):
        self.program.load("toy")
        addresses = []
        for rotate in (0, 3, 7):
            self.program.points(self.points, 2, rotate=rotate)
            for _ in range(2):
                self.program.prepare()
                self.program.run(self.start)
                answer = self.program.take()[1]
                np.testing.assert_array_equal(answer.centroids[1], self.points[rotate])
            addresses.append(answer.centroids[0, 0])
        self.assertEqual(len({*addresses[:2]}), 2)
        self.assertEqual(len({*addresses[1:]}), 2)

    def test_the_clock_waits_for_the_device(self):
        self.program.load("toy")
        self.program.points(self.points, 2)
        self.assertGreaterEqual(self.program.prepare()["seconds"], 0.01)
        self.assertGreaterEqual(self.program.run(self.start)["seconds"], 0.03)
        reply, answer = self.program.take()
        self.assertGreaterEqual(reply["seconds"], 0.04)  # two arrays: there are no others
        self.assertTrue(np.isnan(answer.entering).all())  # which it has promised: that is noticed
        whole = self.program.whole(self.start)
        for part, least in (("prepare_s", 0.01), ("run_s", 0.03), ("download_s", 0.04)):
            self.assertGreaterEqual(whole[part], least)
        self.assertEqual(whole["iterations"], 3)
        takes = [self.program.take()[0]["seconds"]]
        for _ in range(4):  # a busy machine may delay some
            self.program.whole(self.start)
            takes.append(self.program.take()[0]["seconds"])
        self.assertLess(min(takes), 0.04)  # it is on the host already

    def test_a_run_after_a_whole_answer_has_its_own(self):
        self.program.load("toy")
        self.program.points(self.points, 2)
        self.program.whole(self.start)
        self.program.run(7 * self.start)
        self.assertEqual(self.program.take()[1].centroids[0, 1], 7)

    def test_what_a_library_prints_is_no_reply(self):
        self.program.load("toy")
        self.program.points(self.points, 2)
        self.program.prepare()
        self.program.run(self.start)
        self.assertEqual(self.program.noise, [])  # it went to standard error

    def test_it_ends_when_its_input_does(self):
        self.program.load("toy")
        self.assertEqual(self.program.end(), 0)


if __name__ == "__main__":
    unittest.main()
