"""`--weights`: right answers of those that take them, refusals of those that do not, bad files, and that
weighted and unweighted cells stay apart wherever a ledger is read."""

import json
import re
import unittest

import numpy as np

from program import FAULTY, QUICK, SOURCE, Program, ledger

POINTS = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 5]
TAKERS = ["kmeans_openmp", "kmeans_serial", "kmeans_simd"]


class Weights(Program):
    def weights(self, values, name="w.npy"):
        path = self.folder / name
        if name.endswith(".npy"):
            np.save(path, np.asarray(values))
        else:
            path.write_text("".join(f"{value}\n" for value in values))
        return name

    def random_weights(self, name="w.npy", n=2000, seed=1):
        weights = np.random.default_rng(seed).uniform(0, 3, n)
        weights[::9] = 0
        return self.weights(weights, name)


class Right(Weights):
    def test_all_who_take_them_give_the_answer_of_numpy(self):
        name = self.random_weights()
        rows = self.campaign(*POINTS, "--weights", name, *(word for variant in TAKERS
                             for word in ("--variant", variant)), "--precision", "f64", "--save", "saved")
        weights = np.load(self.folder / name)
        for row in rows:
            self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.run_program("data", "uniform:2000,2,1", "--out", "points.npy")
        points = np.load(self.folder / "points.npy")
        centroids = points[:3].copy()
        for _ in range(5):
            labels = ((points[:, None] - centroids) ** 2).sum(axis=2).argmin(axis=1)
            for j in range(3):
                mine = labels == j
                centroids[j] = weights[mine] @ points[mine] / weights[mine].sum()
        for row in rows:
            saved = np.load(self.folder / "saved" / f"{row['variant']}.centroids.npy")
            np.testing.assert_allclose(saved, centroids, rtol=1e-12)
            np.testing.assert_array_equal(
                np.load(self.folder / "saved" / f"{row['variant']}.labels.npy"), labels)

    def test_peers(self):
        listed = json.loads(self.run_program("list", "--json").stdout)["variants"]
        peers = [variant["name"] for variant in listed
                 if variant["name"] in ("kmeans_sklearn", "kmeans_numpy_gemm") and not variant["unavailable"]]
        if not peers:
            self.skipTest("no peer is installed")
        rows = self.campaign(*POINTS, "--weights", self.random_weights(),
                             *(word for peer in peers for word in ("--variant", peer)))
        self.assertEqual([row["status"] for row in rows], ["ok"] * len(peers))

    def test_who_forgets_them_is_wrong(self):
        arguments = [*POINTS, "--variant", "kmeans_faulty_ignores_weights", "--variant",
                     "kmeans_faulty_forgets_weights", "--variant", "kmeans_faulty_none"]
        rows = self.campaign(*arguments, "--weights", self.random_weights(), program=FAULTY, exit_code=2)
        status = {row["variant"]: (row["status"], row["message"]) for row in rows}
        self.assertEqual(status.pop("kmeans_faulty_none"), ("ok", ""))
        for name, (got, message) in status.items():
            self.assertEqual(got, "wrong", name)
        # One is found when it is qualified; the other is right until then, and wrong in its cell.
        self.assertIn("qualification: ", status["kmeans_faulty_ignores_weights"][1])
        self.assertNotIn("qualification: ", status["kmeans_faulty_forgets_weights"][1])
        self.assertRegex(status["kmeans_faulty_forgets_weights"][1], "(passes|means): .*cluster")
        rows = self.campaign(*POINTS, "--variant", "kmeans_faulty_forgets_weights", program=FAULTY,
                             out="without")
        self.assertEqual([row["status"] for row in rows], ["ok"])

    def test_labels_loss_and_shift_rules(self):
        name = self.random_weights()
        for stop in ("labels", "loss:0.01", "shift:0.0001"):
            rows = self.campaign(*POINTS[:4], "--stop", stop, "--weights", name, "--init", "kmeans++:3",
                                 "--variant", "kmeans_serial", "--variant", "kmeans_simd", out=stop)
            self.assertEqual([row["status"] for row in rows], ["ok"] * 2)

    def test_take_takes_the_first_of_both(self):
        weights = np.ones(2000)
        weights[1000:] = 0
        self.weights(weights)
        rows = self.campaign(*POINTS, "--take", 1000, "--weights", "w.npy", "--variant", "kmeans_serial")
        self.assertEqual([row["status"] for row in rows], ["ok"])
        self.weights(1 - weights, "none.npy")
        done = self.run_program("run", *POINTS, "--take", 1000, "--weights", "none.npy", *QUICK,
                                exit_code=64)
        self.assertIn("none.npy: all 1000 weights are 0", done.stderr)


class Named(unittest.TestCase):
    def test_the_page_names_all_of_this_tree_that_take_them(self):
        takers = {path.stem for pattern in ("*.cpp", "*.cu") for path in (SOURCE / "impls").rglob(pattern)
                  if re.search(r"\.takes_weights = true", path.read_text())}
        self.assertLess(set(TAKERS), takers)
        page = (SOURCE / "docs" / "weights.md").read_text()
        named = set(re.findall(r"`(kmeans_\w+)`", page.split("## Who takes them")[1].split("## ")[0]))
        self.assertEqual(takers, {name for name in named if not re.match("kmeans_(numpy|sklearn)", name)})


class Refused(Weights):
    def test_variants_that_take_none(self):
        rows = self.campaign(*POINTS, "--weights", self.random_weights(), "--variant", "kmeans_openmp_*",
                             "--variant", "kmeans_eigen*", "--variant", "kmeans_serial_*",
                             "--variant", "kmeans_simd_[!a]*", exit_code=6)
        self.assertGreater(len(rows), 5)
        for row in rows:
            if row["status"] != "unavailable":
                self.assertEqual((row["status"], row["message"]),
                                 ("refused", "the points have weights, and the variant takes none"))
        rows = self.campaign(*POINTS, "--weights", self.random_weights(), "--variant", "kmeans_openmp*",
                             out="some")
        self.assertEqual({row["variant"]: row["status"] for row in rows if row["status"] != "refused"},
                         {"kmeans_openmp": "ok"})

    def bad(self, *says, weights="w.npy", arguments=POINTS, options=()):
        for command in (["run", *arguments, *QUICK, "--variant", "kmeans_serial"],
                        ["judge", "none.cpp", *arguments]):
            done = self.run_program(*command, "--weights", weights, *options, "--out", "out", exit_code=64)
            self.assertEqual(done.stdout, "")
            for piece in says:
                self.assertIn(piece, done.stderr)
            self.assertFalse((self.folder / "out").exists())

    def test_bad_files(self):
        good = np.ones(2000)
        self.bad("missing.npy", "No such file", weights="missing.npy")
        self.bad("--weights", "name of a file is missing", weights="")
        self.weights(good[1:])
        self.bad("--weights w.npy", "1999 weights", "2000 rows")
        self.weights(good.reshape(1000, 2))
        self.bad("--weights w.npy", "1000 rows of 2 numbers", "one column")
        for value, says in ((-1, "-1 is negative"), (np.nan, "nan is no weight"), (np.inf, "inf is no weight")):
            bad = good.copy()
            bad[17] = value
            self.weights(bad)
            self.bad("--weights w.npy", "row 17 (from 0)", says)
            self.weights(["weight", *bad], "w.csv")
            self.bad("--weights w.csv", "line 19", says, weights="w.csv")
        self.weights(0 * good)
        self.bad("--weights w.npy", "all 2000 weights are 0")
        bad = good.copy()
        bad[3] = 1e39
        self.weights(bad)
        self.bad("--weights w.npy", "row 3", "1e+39 is more than float32 holds", "--precision f64")
        self.weights(3e38 * good)
        self.bad("--weights w.npy", "add up to 6e+41", "float32", "scale the weights")
        self.weights(1e-30 * good)
        self.bad("--weights w.npy", "all weights are too small", "scale the weights")

    def test_float64_has_room(self):
        weights = np.ones(2000)
        weights[3] = 1e39
        self.weights(weights)
        rows = self.campaign(*POINTS, "--weights", "w.npy", "--variant", "kmeans_serial", "--precision", "f64")
        self.assertEqual([row["status"] for row in rows], ["ok"])

    def test_where_there_can_be_none(self):
        self.random_weights()
        self.bad("--weights w.npy", "fuzzy c-means", options=["--family", "fcm"])
        done = self.run_program("run", "article004", "--weights", "w.npy", *QUICK, exit_code=64)
        self.assertIn("--weights describes an ad-hoc problem", done.stderr)


class Apart(Weights):
    """A weighted cell is no unweighted one, nor one with other weights."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = cls("run_program")
        cls.shared.setUp()
        cls.addClassCleanup(cls.shared.doCleanups)
        cls.shared.random_weights("w.npy", seed=1)
        cls.shared.random_weights("v.npy", seed=2)
        for out, weights in (("none", []), ("w", ["--weights", "w.npy"]), ("v", ["--weights", "v.npy"])):
            cls.shared.campaign(*POINTS, *weights, "--variant", "kmeans_serial", "--variant", "kmeans_openmp",
                                "--starts", 1, out=out)
        cls.shared.random_weights("w.npy", seed=3)  # another file of the same name
        cls.shared.campaign(*POINTS, "--weights", "w.npy", "--variant", "kmeans_serial", "--starts", 1,
                            out="other_w")

    def setUp(self):
        super().setUp()
        self.folder = self.shared.folder

    def test_the_ledger_says_what_they_were(self):
        rows = {out: ledger(self.folder / out)[1][0] for out in ("none", "w", "v", "other_w")}
        self.assertNotIn("weights", rows["none"]["problem"])
        self.assertNotIn("weights_sha256", rows["none"]["problem"])
        self.assertEqual(rows["w"]["problem"]["weights"], "w.npy")
        self.assertRegex(rows["w"]["problem"]["weights_sha256"], "^[0-9a-f]{64}$")
        for field in ("hash", "weights_sha256"):
            values = [row["problem"].get(field) for row in rows.values()]
            self.assertEqual(len(set(values)), 4, field)
        self.assertEqual(len({row["problem"]["data_sha256"] for row in rows.values()}), 1)
        self.assertEqual(rows["w"]["problem"]["id"], "uniform:2000,2,1, weights w.npy")

    def test_compare(self):
        for other in ("w", "v"):
            done = self.run_program("compare", "none", other, "--json", exit_code=(0, 1, 3, 5))
            cells = json.loads(done.stdout)["cells"]
            self.assertEqual([cell for cell in cells if "ratio" in cell], [])
        # The name is the same, and the work is not.
        done = self.run_program("compare", "w", "other_w", "--json", exit_code=(3, 5))
        verdicts = {cell["verdict"] for cell in json.loads(done.stdout)["cells"]
                    if "kmeans_serial" in cell["name"]}
        self.assertEqual(verdicts, {"different_work"})

    def test_table_and_explain(self):
        cells = json.loads(self.run_program("ledger", "none", "w", "v", "--json").stdout)["cells"]
        self.assertEqual({cell["problem"]["id"] for cell in cells},
                         {"uniform:2000,2,1" + end for end in ("", ", weights w.npy", ", weights v.npy")})
        self.assertEqual(len(cells), 6)
        done = self.run_program("explain", "kmeans_serial", "kmeans_openmp", "--from", "none", "--from", "w",
                                "--no-diff")
        self.assertIn("uniform:2000,2,1, weights w.npy", done.stdout)

    def test_a_resumed_campaign_runs_them_anew(self):
        self.campaign(*POINTS, "--variant", "kmeans_serial", out="resumed")
        done = self.run_program("run", *POINTS, "--weights", "v.npy", "--variant", "kmeans_serial", *QUICK,
                                "--out", "resumed", "--resume")
        self.assertIn("re-used 0 rows", done.stderr)
        self.assertEqual(len(ledger(self.folder / "resumed")[1]), 2)


class Judge(Weights):
    def test_company_takes_weights(self):
        text = (SOURCE / "impls" / "serial" / "kmeans_serial.cpp").read_text()
        (self.folder / "mine.cpp").write_text(text.replace("impls/contract", "clusterbench/contract").replace(
            '"kmeans_serial"', '"kmeans_mine"'))
        done = self.run_program(
            "judge", "mine.cpp", "--data", "uniform:2000,2,1", "--k", 3, "--iterations", 5, "--weights",
            self.random_weights(), "--samples", 1, "--budget", 0, "--no-probe", "--out", "out")
        self.assertIn("kmeans_mine f32: right", done.stdout)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual({row["status"] for row in rows}, {"ok"})
        self.assertGreater(len(rows), 1)


if __name__ == "__main__":
    unittest.main()
