"""Programs of other ecosystems, driven as the harness does: every answer of every variant that
runs here against an oracle of a few lines of NumPy in float64; the protocol's server; the page's
example; and that what is wrong is found."""

import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import numpy as np

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "programs"))

from drive import Failure, Program  # noqa: E402

PYTHON = SOURCE / "impls" / "python"
FAKE = SOURCE / "tests" / "programs" / "kmeans_fake.py"
TOLERANCE = {"f32": 2e-4, "f64": 1e-9}  # of values of about 5
# How much nearer a centroid must be, in squared distance, or how much larger a membership, for the
# label to be certain.
CLEAR = {"kmeans": {"f32": 1e-3, "f64": 1e-9}, "fcm": {"f32": 3e-5, "f64": 1e-10}}


# ---- the oracle

@dataclasses.dataclass
class Oracle:
    """One run in float64, with the labels of both kinds."""
    labels: np.ndarray
    labels_after: np.ndarray
    centroids: np.ndarray
    entering: np.ndarray  # None if FCM starts from memberships and makes one pass
    memberships: np.ndarray
    passes: list  # the centroids of each
    clear: float  # by how much every label was certain, in squared distance or membership
    any_empty: bool


def squared_distances(points, centroids):
    return np.square(points[:, None, :] - centroids).sum(axis=2)


def nearest(points, centroids):
    """Labels, distances to the nearest, and by how much the least certain of them is."""
    squared = squared_distances(points, centroids)
    two = np.partition(squared, 1, axis=1)
    return squared.argmin(axis=1), np.sqrt(two[:, 0]), float((two[:, 1] - two[:, 0]).min())


def memberships_of(points, centroids, fuzzifier):
    with np.errstate(divide="ignore"):
        inverse = squared_distances(points, centroids) ** (-1 / (fuzzifier - 1))
    exact = np.isinf(inverse)
    inverse = np.where(exact.any(axis=1, keepdims=True), exact, inverse)
    return inverse / inverse.sum(axis=1, keepdims=True)


def weighted_means(points, memberships, fuzzifier):
    weights = memberships ** fuzzifier
    return weights.T @ points / weights.sum(axis=0)[:, None]


def stops(rule, threshold, passes, most, loss, before, changed, shift):
    return passes >= most or {
        "iterations": False, "loss": abs(loss - before) < threshold, "labels": not changed,
        "shift": shift <= threshold}[rule]


def kmeans(points, start, rule, threshold, max_iterations, weights=None, **_):
    weights = np.ones(len(points)) if weights is None else weights
    centroids, labels, loss, passes, clear, empty = start, None, np.inf, [], np.inf, False
    while True:
        before, entering, loss_before = labels, centroids, loss
        labels, distances, margin = nearest(points, centroids)
        clear, loss = min(clear, margin), weights @ distances
        totals = np.bincount(labels, weights, minlength=len(start))[:, None]
        empty |= not totals.all()
        sums = np.zeros_like(start)
        np.add.at(sums, labels, weights[:, None] * points)
        centroids = np.where(totals > 0, sums / np.where(totals > 0, totals, 1), entering)
        passes.append(centroids)
        if stops(rule, threshold, len(passes), max_iterations, loss, loss_before,
                 not np.array_equal(labels, before), np.square(centroids - entering).sum()):
            break
    after, _, margin = nearest(points, centroids)
    return Oracle(labels, after, centroids, entering, None, passes, min(clear, margin), empty)


def fcm(points, start, rule, threshold, max_iterations, fuzzifier, start_from):
    labels, loss, passes, clear = None, np.inf, [], np.inf
    from_memberships = start_from == "memberships"
    memberships, centroids = (start, None) if from_memberships else (None, start)
    while True:
        before, entering, loss_before = labels, centroids, loss
        if from_memberships:
            centroids = weighted_means(points, memberships, fuzzifier)
        memberships = memberships_of(points, centroids, fuzzifier)
        loss = (memberships ** fuzzifier * squared_distances(points, centroids)).sum()
        if not from_memberships:
            centroids = weighted_means(points, memberships, fuzzifier)
        labels = memberships.argmax(axis=1)
        two = np.sort(memberships, axis=1)[:, -2:]
        margin = float((two[:, 1] - two[:, 0]).min())
        clear = min(clear, margin) if rule == "labels" else margin
        passes.append(centroids)
        shift = np.inf if entering is None else np.square(centroids - entering).sum()
        if stops(rule, threshold, len(passes), max_iterations, loss, loss_before,
                 not np.array_equal(labels, before), shift):
            break
    return Oracle(labels, labels, centroids, entering, memberships, passes, clear, False)


# ---- problems

@dataclasses.dataclass
class Problem:
    points: np.ndarray  # as the program's file has them
    k: int
    precision: str
    rotate: int
    stop: dict
    fuzzifier: float = 2.0
    start_from: str = "centroids"
    weights: np.ndarray = None  # of the points

    def hand_to(self, program, **options):
        program.points(self.points, self.k, self.precision, rotate=self.rotate,
                       fuzzifier=self.fuzzifier, start_from=self.start_from, weights=self.weights,
                       **self.stop, **options)

    def oracle(self, start, family, **changes):
        rotated = np.roll(self.points, -self.rotate, axis=0).astype(np.float64)
        settings = dict(self.stop, fuzzifier=self.fuzzifier, start_from=self.start_from) | changes
        if self.weights is not None:
            settings["weights"] = np.roll(self.weights, -self.rotate).astype(np.float64)
        return (fcm if family == "fcm" else kmeans)(rotated, start.astype(np.float64), **settings)

    def start(self, random):
        if self.start_from == "memberships":
            return random.dirichlet(np.ones(self.k), len(self.points)).astype(self.points.dtype)
        rows = random.choice(len(self.points), self.k, replace=False)
        moved = self.points[rows] + random.normal(0, 0.05, (self.k, self.points.shape[1]))
        return moved.astype(self.points.dtype)

    def clear_start(self, random, variant):
        """A start from which rounding decides nothing, and the oracle's run from it."""
        for _ in range(300):
            start = self.start(random)
            oracle = self.oracle(start, variant["family"])
            if oracle.clear > CLEAR[variant["family"]][self.precision] and not oracle.any_empty:
                return start, oracle
        raise AssertionError("every start is in doubt")


def random_problem(random, precision, largest_n=400, **fields):
    n, d, k = (int(random.integers(*range_)) for range_ in ((40, largest_n), (1, 13), (2, 8)))
    points = random.uniform(-5, 5, (n, d)).astype(np.float32 if precision == "f32" else np.float64)
    stop = {"rule": "iterations", "threshold": 0.0, "max_iterations": int(random.integers(1, 7))}
    return Problem(points, k, precision, int(random.integers(1, n)),
                   fields.pop("stop", stop), **fields)


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
        file = pathlib.Path(folder.name) / "toy.py"
        file.write_text(TOY)
        self.program = Program(file, PYTHON)
        self.addCleanup(self.program.__exit__)
        self.points = np.arange(24.0).reshape(8, 3)
        self.start = np.ones((2, 3))

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
        self.assertLess(self.program.take()[0]["seconds"], 0.04)  # it is on the host already

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


class Faults(Checked):
    """What tests of the harness plant is there, and an oracle sees it."""

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
