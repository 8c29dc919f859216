"""Programs of other ecosystems, driven as the harness does: every answer of every variant that
runs here against an oracle of a few lines of NumPy in float64; and the page's example."""

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "programs"))

from checked import Checked  # noqa: E402
from drive import Failure, Program  # noqa: E402
from oracle import random_problem  # noqa: E402

PYTHON = SOURCE / "impls" / "python"


@functools.cache
def loads(file, variant):
    """Empty, or why the variant does not run here."""
    with Program(file) as program:
        try:
            program.load(variant)
        except Failure as failure:
            if failure.kind != "unavailable":
                raise
            return failure.message
    return ""


class Right(Checked):
    def check_variant(self, file, name):
        if reason := loads(file, name):
            self.skipTest(reason)
        with Program(file) as program:
            program.load(name)
            variant = program.variant
            random = np.random.default_rng(7)
            for precision in variant["precisions"]:
                for rule, threshold in (("iterations", 0.0), ("labels", 0.0), ("shift", 0.02),
                                        ("loss", 2.0)):
                    for start_from in variant["starts"]:
                        for turn in range(4 if rule == "iterations" else 1):
                            stop = {"rule": rule, "threshold": threshold,
                                    "max_iterations": turn + 1 if rule == "iterations" else 60}
                            if rule not in variant["stops"]:
                                continue
                            problem = random_problem(
                                random, precision, 400 if turn else 120, stop=stop,
                                fuzzifier=float(random.choice([1.5, 2.0, 2.7])),
                                start_from=start_from)
                            with self.subTest(precision=precision, rule=rule, turn=turn,
                                              start_from=start_from):
                                self.check_problem(program, problem, random)
            self.assertEqual(program.noise, [])
            self.assertEqual(program.end(), 0)

    def test_numpy(self):
        self.check_variant(PYTHON / "kmeans_numpy.py", "kmeans_numpy")

    def test_numpy_gemm(self):
        self.check_variant(PYTHON / "kmeans_numpy.py", "kmeans_numpy_gemm")

    def test_scipy(self):
        self.check_variant(PYTHON / "kmeans_scipy.py", "kmeans_scipy")

    def test_sklearn(self):
        self.check_variant(PYTHON / "kmeans_sklearn.py", "kmeans_sklearn")

    def test_sklearn_elkan(self):
        self.check_variant(PYTHON / "kmeans_sklearn.py", "kmeans_sklearn_elkan")

    def test_faiss(self):
        self.check_variant(PYTHON / "kmeans_faiss.py", "kmeans_faiss")

    def test_fcm_numpy(self):
        self.check_variant(PYTHON / "fcm_numpy.py", "fcm_numpy")

    def test_weights(self):
        """Of every program that takes them. Weights of 0 are left to those that only stop by the rule:
        scikit-learn stops where no centroid moves, though points without weight may change their labels."""
        takers = []
        for file in sorted(PYTHON.glob("*.py")):
            with Program(file) as program:
                takers += [(file, name) for name, variant in program.describe().items()
                           if variant["takes_weights"]]
        self.assertEqual([name for _, name in takers], ["kmeans_numpy", "kmeans_numpy_gemm",
                                                        "kmeans_sklearn", "kmeans_sklearn_elkan"])
        for file, name in takers:
            if loads(file, name):
                continue
            random = np.random.default_rng(5)
            with Program(file) as program:
                program.load(name)
                for precision in ("f32", "f64"):
                    for rule, threshold in (("iterations", 0.0), ("labels", 0.0), ("shift", 0.02),
                                            ("loss", 2.0)):
                        if rule not in program.variant["stops"]:
                            continue
                        stop = {"rule": rule, "threshold": threshold,
                                "max_iterations": 5 if rule == "iterations" else 60}
                        problem = random_problem(random, precision, 120, stop=stop)
                        weights = random.uniform(0.1, 2, len(problem.points))
                        if not name.startswith("kmeans_sklearn"):
                            weights[::7] = 0
                        problem.weights = weights.astype(problem.points.dtype)
                        with self.subTest(name, precision=precision, rule=rule):
                            self.check_problem(program, problem, random)

    def test_every_program_for_a_cpu_is_here(self):
        named = re.findall(r'check_variant\(PYTHON / "\w+\.py", "(\w+)"\)',
                           pathlib.Path(__file__).read_text())
        found = []
        for file in sorted(PYTHON.glob("*.py")):
            with Program(file) as program:
                found += [name for name, variant in program.describe().items()
                          if variant["device"] == "cpu" and not variant["approximate_within"]]
        self.assertEqual(sorted(named), sorted(found))

    def test_an_empty_cluster_keeps_its_centroid(self):
        random = np.random.default_rng(3)
        for file, name in (("kmeans_numpy", "kmeans_numpy"), ("kmeans_numpy", "kmeans_numpy_gemm"),
                           ("kmeans_scipy", "kmeans_scipy")):
            if loads(PYTHON / f"{file}.py", name):
                continue
            with self.subTest(name), Program(PYTHON / f"{file}.py") as program:
                program.load(name)
                problem = random_problem(random, "f64")
                start, _ = problem.clear_start(random, program.variant)
                start[1] = 1e3
                problem.hand_to(program)
                program.prepare()
                reply = program.run(start)
                self.check(program.variant, problem, start, reply, answer := program.take()[1])
                np.testing.assert_array_equal(answer.centroids[1], 1e3)

    def test_sealed_memory(self):
        random = np.random.default_rng(4)
        with Program(PYTHON / "fcm_numpy.py") as program:
            program.load("fcm_numpy")
            problem = random_problem(random, "f64")
            problem.hand_to(program, sealed=True)
            program.prepare()
            start, _ = problem.clear_start(random, program.variant)
            reply = program.run(start)
            self.check(program.variant, problem, start, reply, program.take()[1])


class Refusals(unittest.TestCase):
    def refused(self, file, name, points, k, **stop):
        if reason := loads(PYTHON / file, name):
            self.skipTest(reason)
        with Program(PYTHON / file) as program:
            program.load(name)
            program.points(points, k, "f32", **stop)
            with self.assertRaises(Failure) as raised:
                program.prepare()
            self.assertEqual(raised.exception.kind, "refused")
            with self.assertRaises(Failure) as raised:
                program.whole(np.zeros((k, points.shape[1])))
            self.assertEqual(raised.exception.kind, "refused")
            return raised.exception.message

    def test_no_more_points_than_clusters(self):
        self.assertIn("more points than", self.refused("kmeans_faiss.py", "kmeans_faiss",
                                                       np.eye(5), 5))

    def test_fuzzifier(self):
        self.assertIn("fuzzifier", self.refused("fcm_numpy.py", "fcm_numpy", np.eye(5), 2,
                                                fuzzifier=1.0))

    def test_too_large(self):
        self.assertIn("8192 are allowed", self.refused("kmeans_numpy.py", "kmeans_numpy",
                                                       np.zeros((20000, 64)), 1000))


class Example(Checked):
    def test_the_program_of_the_page(self):
        if subprocess.run(["perl", "-MJSON::PP", "-e", "1"], capture_output=True).returncode != 0:
            self.skipTest("no Perl with JSON::PP here")
        page = (SOURCE / "docs" / "peers.md").read_text()
        example = re.search(r"```perl\n(.*?)```", page, re.DOTALL).group(1)
        defaults = {"family": "kmeans", "labels": "before update", "deterministic": True,
                    "records": False, "gives_entering": False}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "kmeans_perl.pl"
            file.write_text(example)
            file.chmod(0o755)
            random = np.random.default_rng(5)
            with Program(file) as program:
                program.load("kmeans_perl")
                program.ask("ping")
                program.variant = defaults | program.variant
                for precision in ("f32", "f64"):
                    for _ in range(3):
                        self.check_problem(program, random_problem(random, precision, 150), random)
                self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main()
