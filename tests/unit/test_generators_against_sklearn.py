"""Compares the C++ generators and random streams with scikit-learn's and NumPy's, bit for bit.

Labels, permutations and every column before a matrix product must be equal byte for byte. The
products depend on the BLAS that NumPy loads: ours sum from the first term to the last, rounding
each product and each sum, as the reference BLAS does, and then everything is equal byte for byte.
Other orders and fused multiply-adds differ by at most 8 units in the last place of the largest
value (OpenBLAS 0.3.21: 2).
"""

import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
from sklearn.datasets import make_blobs, make_classification
from sklearn.utils.random import sample_without_replacement

TOOL = pathlib.Path(os.environ["CLUSTERBENCH_TOOLS"]) / "generate_dataset"

CLASSIFICATIONS = [
    {},
    {"random_state": 1},
    {"random_state": 2**32 - 1},
    {"n_samples": 1},
    {"n_samples": 17, "n_features": 4},
    {"n_samples": 1001, "n_features": 30, "n_informative": 12, "n_redundant": 0},
    {"n_informative": 5, "n_redundant": 0},
    {"n_informative": 5, "n_redundant": 9},
    {"n_informative": 5, "n_redundant": 3, "n_repeated": 1},
    {"n_informative": 5, "n_redundant": 3, "n_repeated": 12},
    {"n_informative": 4, "n_redundant": 0, "n_repeated": 6, "shuffle": False},
    {"n_informative": 20, "n_redundant": 0},
    {"n_informative": 3, "n_redundant": 0, "n_features": 3, "shuffle": False},
    {"shuffle": False},
    {"shuffle": False, "n_redundant": 5, "n_repeated": 3, "n_samples": 333},
    {"n_clusters_per_class": 1},
    {"n_clusters_per_class": 4, "n_informative": 8, "n_classes": 4},
    {"n_clusters_per_class": 8, "n_informative": 4, "n_redundant": 0},
    {"n_classes": 7, "n_informative": 6, "n_samples": 500},
    {"class_sep": 0.1},
    {"class_sep": 7.5, "hypercube": False},
    {"hypercube": False},
    {"hypercube": False, "n_informative": 6, "n_classes": 3, "shuffle": False},
    {"flip_y": 0.0},
    {"flip_y": 0.7, "n_classes": 3, "n_informative": 4},
    {"flip_y": -1.0},
    {"flip_y": 1.0},
    {"weights": [0.9, 0.1]},
    {"weights": [0.3], "n_samples": 111},
    {"weights": [0.2, 0.3, 0.4], "n_classes": 3, "n_informative": 4},
    {"weights": [0.5, 0.1, 0.1, 0.3], "n_classes": 4, "n_informative": 4, "shuffle": False},
    {"shift": None, "scale": None},
    {"shift": 3.5, "scale": 0.25},
    {"shift": None, "shuffle": False, "class_sep": 2.0},
    {"n_features": 40, "n_informative": 35, "n_classes": 3},  # beyond 30 binary digits
    {"n_features": 31, "n_informative": 31, "n_redundant": 0},
    {"n_features": 30, "n_informative": 30, "n_redundant": 0, "n_classes": 5},
    {"n_samples": 2000, "n_features": 100, "n_classes": 4, "n_clusters_per_class": 4,
     "n_informative": 8, "random_state": 1024},
]

BLOBS = [
    {},
    {"random_state": 7, "n_samples": 1000},
    {"n_samples": 2},
    {"n_samples": 103, "centers": 5},
    {"n_features": 7, "centers": 4},
    {"centers": [[0.0, 1.0], [5.0, -5.0], [9.0, 9.0]]},
    {"centers": [[1.0, 2.0, 3.0]], "shuffle": False},
    {"cluster_std": 2.5},
    {"cluster_std": [0.1, 1.0, 4.0]},
    {"cluster_std": 0.0},
    {"center_box": [0.0, 1.0]},
    {"center_box": [-1000.0, -999.0], "centers": 6, "n_samples": 61},
    {"shuffle": False},
    {"n_samples": [5, 0, 11]},
    {"n_samples": [3, 4], "centers": [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], "cluster_std": [1.0, 0.5]},
]

# Seed, then calls; the words are those of numpy.random.RandomState.
STREAMS = [
    ([0], [["rand", 1500], ["randn", 1501], ["rand", 3]]),
    ([1024], [["randint", 0, 2, 100], ["randint", 0, 1, 3], ["randint", -5, 1000, 700]]),
    ([4294967295], [["randint", 0, 4294967296, 50], ["randint", 0, 2**40, 50], ["randn", 1]]),
    ([3], [["randint", 0, 3, 1], ["rand", 700], ["randn", 700]]),  # an odd word in the stream
    ([9], [["uniform", -3.0, 1e6, 300], ["standard_normal", 7], ["permutation", 1000]]),
    ([10], [["permutation", 0], ["permutation", 1], ["permutation", 70000], ["rand", 2]]),
    ([11], [["shuffle", [float(i) for i in range(257)]], ["shuffle", []], ["randn", 5]]),
    ([12], [["choice", 10, 40, True], ["choice", 50, 50, False], ["choice", 1, 3, True]]),
    ([13], [["choice", 4, 90, True, [0.1, 0.2, 0.3, 0.4]],
            ["choice", 5, 3, False, [0.5, 0.25, 0.125, 0.125, 0.0]], ["rand", 2]]),
    ([1, 2, 3], [["rand", 10], ["randn", 10]]),
    ([0, 0], [["randn", 1000]]),
    (list(range(700)), [["rand", 1000]]),  # a key longer than the state
    ([14], [["sample_without_replacement", 100000, 20], ["sample_without_replacement", 100, 50],
            ["sample_without_replacement", 1000, 999], ["sample_without_replacement", 5, 5],
            ["sample_without_replacement", 3, 0], ["sample_without_replacement", 1, 1]]),
]


def run(items):
    """Runs the C++ tool on a script; returns the list of (x, y or None)."""
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder) / "script.json"
        script.write_text(json.dumps(items))
        subprocess.run([TOOL, script, folder], check=True)
        results = []
        for i in range(len(items)):
            labels = pathlib.Path(folder) / f"{i}.y.npy"
            results.append((np.load(pathlib.Path(folder) / f"{i}.x.npy"),
                            np.load(labels) if labels.exists() else None))
        return results


def call(random, words):
    name, *arguments = words
    if name == "sample_without_replacement":
        return sample_without_replacement(*arguments, random_state=random)
    if name == "shuffle":
        values = np.array(arguments[0])
        random.shuffle(values)
        return values
    return getattr(random, name)(*arguments)


def product_columns(arguments):
    """How many columns are products, or copies of one: the informative, redundant, repeated."""
    return (arguments.get("n_informative", 2) + arguments.get("n_redundant", 2)
            + arguments.get("n_repeated", 0))


def product_bound(theirs):
    return 8 * np.spacing(np.abs(theirs).max())


class AgainstScikitLearn(unittest.TestCase):
    def test_make_classification(self):
        sets = [dict({"random_state": 0}, **a) for a in CLASSIFICATIONS]
        results = run([{"generator": "make_classification", "arguments": a} for a in sets])
        identical = 0
        largest = 0.0
        for arguments, (x, y) in zip(sets, results):
            with self.subTest(**arguments):
                theirs, labels = make_classification(**arguments)
                self.assertEqual(y.tobytes(), labels.astype(np.int64).tobytes())
                self.assertEqual(x.shape, theirs.shape)
                exact = (x == theirs).all(axis=0)
                if not arguments.get("shuffle", True):
                    free = np.arange(x.shape[1]) >= product_columns(arguments)
                    self.assertEqual(x[:, free].tobytes(), theirs[:, free].tobytes())
                self.assertLessEqual((~exact).sum(), product_columns(arguments),
                                     "a column that is no product differs")
                difference = np.abs(x - theirs).max()
                largest = max(largest, difference / np.spacing(np.abs(theirs).max()))
                self.assertLessEqual(difference, product_bound(theirs))
                identical += x.tobytes() == theirs.tobytes()
        print(f"make_classification: {identical} of {len(sets)} identical to the last bit, "
              f"largest difference {largest:.2g} units in the last place")

    def test_make_blobs_is_identical(self):
        sets = [dict({"random_state": 0}, **a) for a in BLOBS]
        results = run([{"generator": "make_blobs", "arguments": a} for a in sets])
        for arguments, (x, y) in zip(sets, results):
            with self.subTest(**arguments):
                given = dict(arguments)
                if "centers" in given and isinstance(given["centers"], list):
                    given["centers"] = np.array(given["centers"])
                if "center_box" in given:
                    given["center_box"] = tuple(given["center_box"])
                theirs, labels = make_blobs(**given)
                self.assertEqual(x.tobytes(), theirs.tobytes())
                self.assertEqual(y.tobytes(), labels.astype(np.int64).tobytes())

    def test_random_state_is_identical(self):
        results = run([{"random_state": seed, "calls": calls} for seed, calls in STREAMS])
        for (seed, calls), (x, _) in zip(STREAMS, results):
            with self.subTest(seed=seed[:3]):
                random = np.random.RandomState(seed[0] if len(seed) == 1 else seed)
                theirs = np.concatenate([np.atleast_1d(call(random, words)) for words in calls])
                self.assertEqual(x.tobytes(), theirs.astype(np.float64).tobytes())

    def test_mixture_follows_its_definition(self):
        for kind, dtype in (("f64", np.float64), ("f32", np.float32)):
            n, d, components, std, seed = 10000, 3, 17, 0.25, 42
            [(x, y)] = run([{"generator": "mixture", "arguments": {
                "n": n, "d": d, "components": components, "std": std, "seed": seed,
                "type": kind}}])
            centres = np.random.RandomState([seed, 0]).standard_normal((components, d))
            for block, first in enumerate(range(0, n, 4096)):
                rows = min(4096, n - first)
                random = np.random.RandomState([seed, 1 + block])
                labels = random.randint(components, size=rows)
                points = centres[labels] + std * random.standard_normal((rows, d))
                self.assertEqual(y[first:first + rows].tolist(), labels.tolist())
                self.assertEqual(x[first:first + rows].tobytes(), points.astype(dtype).tobytes())

    def test_uniform_is_numpys(self):
        [(x, _)] = run([{"generator": "uniform", "arguments": {
            "n": 1000, "d": 2, "low": 0.0, "high": 1000.0, "seed": 3}}])
        theirs = np.random.RandomState(3).uniform(0, 1000, (1000, 2))
        self.assertEqual(x.tobytes(), theirs.tobytes())

    def test_article000(self):
        arguments = dict(n_samples=1000000, n_features=100, n_classes=4, n_clusters_per_class=4,
                         n_informative=8, random_state=1024)
        [(x, y)] = run([{"generator": "make_classification", "arguments": arguments}])
        theirs, labels = make_classification(**arguments)
        self.assertEqual(y.tobytes(), labels.astype(np.int64).tobytes())
        exact = (x == theirs).all(axis=0)
        self.assertLessEqual((~exact).sum(), 10)  # 8 informative and 2 redundant features
        self.assertLessEqual(np.abs(x - theirs).max(), product_bound(theirs))
        print("article000: ours", hashlib.sha256(x).hexdigest(),
              "scikit-learn's", hashlib.sha256(theirs).hexdigest())


if __name__ == "__main__":
    unittest.main()
