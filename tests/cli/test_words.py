"""Every word of the command line does on small data what it says."""

import csv
import hashlib
import json
import re
import unittest

import numpy as np

from program import Program, QUICK, SOURCE, ledger

DATA = "uniform:300,3,7"


def lloyd(points, centroids, stop):
    """Plain k-means, for comparison: labels, centroids, and the losses and inertias of all passes.

    `stop(passes, losses, labels_changed, squared_shift)` says whether a pass was the last."""
    labels, losses, inertias = None, [], []
    while True:
        squared = ((points[:, None, :] - centroids[None, :, :]) ** 2).sum(axis=2)
        before, labels = labels, squared.argmin(axis=1)
        nearest = squared[np.arange(len(points)), labels]
        losses.append(np.sqrt(nearest).sum())
        inertias.append(nearest.sum())
        old = centroids
        centroids = np.array([points[labels == j].mean(axis=0) if (labels == j).any() else old[j]
                              for j in range(len(old))])
        changed = before is None or (before != labels).any()
        if stop(len(losses), losses, changed, ((centroids - old) ** 2).sum()):
            return labels, centroids, losses, inertias


def fuzzy(points, centres, m, passes):
    """Plain fuzzy c-means from centres: memberships and centres after so many passes."""
    for _ in range(passes):
        squared = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        weight = squared ** (-1.0 / (m - 1.0))
        u = weight / weight.sum(axis=1, keepdims=True)
        power = u ** m
        centres = (power.T @ points) / power.sum(axis=0)[:, None]
    return u, centres


class List(Program):
    def test_text(self):
        text = self.run_program("list").stdout
        for word in ("Variants", "Tables", "Datasets", "Backends", "kmeans_serial", "article004",
                     "mixture:n,d,components,std,seed", "built"):
            self.assertIn(word, text)

    def test_json(self):
        listed = json.loads(self.run_program("list", "--json").stdout)
        variants = {variant["name"]: variant for variant in listed["variants"]}
        self.assertEqual(list(variants), sorted(variants))
        serial = variants["kmeans_serial"]
        self.assertEqual(serial["backend"], "serial")
        self.assertEqual(serial["precisions"], ["f32", "f64"])
        self.assertEqual(serial["family"], "kmeans")
        self.assertEqual(variants["kmeans_serial_points"]["d"], {"min": 2, "max": 2})
        for variant in listed["variants"]:
            self.assertTrue(variant["idea"] and variant["source"], variant["name"])
            self.assertIn(variant["previous"], ["", *variants], variant["name"])
        tables = {path.stem for path in (SOURCE / "results" / "tables").glob("*.json")}
        self.assertEqual({table["name"] for table in listed["tables"]}, tables)
        self.assertIn("article000", {dataset["name"] for dataset in listed["datasets"]})

    def test_backends_with_reasons(self):
        listed = json.loads(self.run_program("list", "--json").stdout)
        folders = {recipe.parent.name for recipe in (SOURCE / "impls").glob("*/CMakeLists.txt")}
        names = {backend["name"] for backend in listed["backends"]}
        partly = {"mpi with CUDA"}  # named where the backend is built but for these variants
        self.assertEqual(names - partly, folders)
        self.assertTrue(all(not backend["built"] for backend in listed["backends"] if backend["name"] in partly))
        text = self.run_program("list").stdout
        for backend in listed["backends"]:
            variants = [v for v in listed["variants"] if v["backend"] == backend["name"]]
            if backend["built"]:
                self.assertEqual(backend["reason"], "")
                self.assertTrue(variants, backend["name"])
            else:
                self.assertTrue(backend["reason"])
                self.assertEqual(variants, [])
                self.assertIn("not built: " + backend["reason"], text)
                self.assertTrue(backend["not_built"])
                for name in backend["not_built"]:
                    self.assertRegex(text, rf"  {name} +{backend['name']} +not built here")

    def test_help_of_every_command_has_two_examples(self):
        commands = re.findall(r"^  (\w+) +\w", self.run_program("--help").stdout.split("ubcommands:")[1], re.MULTILINE)
        self.assertGreater(len(commands), 9)
        for command in commands:
            text = self.run_program(command, "--help").stdout
            examples = re.findall(rf"^  clusterbench {command}\b.*$", text.split("Examples:")[1], re.MULTILINE)
            self.assertEqual(len(examples), 2, command)
            self.assertIn("Exit codes: 0 all right", text)
            for option in re.findall(r" (--[a-z+-]+)", "\n".join(examples)):
                self.assertRegex(text.split("Examples:")[0], rf"{option}\b")

    def test_help_and_version(self):
        text = self.run_program("--help").stdout
        for word in ("list", "data", "run", "probe", "Exit codes"):
            self.assertIn(word, text)
        self.assertRegex(self.run_program("--version").stdout, r"\d+\.\d+\.\d+")


class Data(Program):
    def fields(self, *arguments):
        text = self.run_program("data", *arguments).stdout
        return dict(line.split(":", 1) for line in text.splitlines())

    def test_name(self):
        fields = self.fields(DATA)
        points = np.load(fields["file"].strip())
        self.assertEqual(points.shape, (300, 3))
        self.assertEqual(points.dtype, np.float64)
        self.assertEqual(fields["shape"].strip(), "300 x 3 f64")
        self.assertEqual(fields["sha256"].strip(), hashlib.sha256(points.tobytes()).hexdigest())

    def test_list(self):
        text = self.run_program("data", "--list").stdout
        for name in ("article000", "article001", "article002", "article003", "article004-100",
                     "article004-100k", "mixture:", "uniform:"):
            self.assertIn(name, text)

    def test_out(self):
        cached = np.load(self.fields(DATA)["file"].strip())
        fields = self.fields(DATA, "--out", "copy.npy")
        self.assertEqual(fields["file"].strip(), "copy.npy")
        copy = np.load(self.folder / "copy.npy")
        self.assertEqual(copy.tobytes(), cached.tobytes())

    def test_own_file_with_labels(self):
        (self.folder / "own.csv").write_text("x;y;kind\n1;2;red\n3;4.5;blue\n")
        self.assertEqual(self.fields("own.csv", "--last-column-is-label")["shape"].strip(),
                         "2 x 2 f64")
        self.run_program("data", "own.csv", exit_code=64)


class Run(Program):
    def setUp(self):
        super().setUp()
        self.run_program("data", DATA, "--out", "points.npy")
        self.points = np.load(self.folder / "points.npy")

    def saved(self, variant, what):
        path = self.folder / "saved" / f"{variant}.{what}"
        return json.loads(path.read_text()) if what.endswith("json") else np.load(path)

    def exact(self, *arguments, k=4, family="kmeans"):
        """One cell in float64, with its answer saved; returns its ledger line."""
        rows = self.campaign("--data", DATA, "--k", k, "--precision", "f64", "--family", family,
                             "--variant", family + "_serial", "--save", "saved", *arguments)
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0]["status"], "ok")
        return rows[0]

    def check_one_pass_from(self, centroids):
        labels, means, _, _ = lloyd(self.points, centroids, lambda *_: True)
        np.testing.assert_array_equal(self.saved("kmeans_serial", "labels.npy"), labels)
        np.testing.assert_allclose(self.saved("kmeans_serial", "centroids.npy"), means, rtol=1e-12)

    # ---- where a run starts

    def test_init_rows(self):
        row = self.exact("--init", "rows:1,3,6,8", "--iterations", 1)
        self.assertEqual(row["problem"]["initial_rows"], [1, 3, 6, 8])
        self.check_one_pass_from(self.points[[1, 3, 6, 8]])

    def test_init_first(self):
        self.exact("--init", "first", "--iterations", 1)
        self.check_one_pass_from(self.points[:4])

    def test_init_random_is_numpys(self):
        row = self.exact("--init", "random:5", "--iterations", 1)
        rows = np.random.RandomState(5).choice(300, 4, replace=False)
        self.assertEqual(row["problem"]["initial_rows"], list(rows))
        self.check_one_pass_from(self.points[rows])

    def test_init_kmeans_plus_plus(self):
        rows = self.exact("--init", "kmeans++:5", "--iterations", 1)["problem"]["initial_rows"]
        self.assertEqual(len(set(rows)), 4)
        self.check_one_pass_from(self.points[rows])

    def test_init_file(self):
        centroids = np.asfortranarray(self.points[5:9] + 0.25)
        np.save(self.folder / "start.npy", centroids)
        self.exact("--init", "file:start.npy", "--iterations", 1)
        self.check_one_pass_from(centroids)

    def test_init_file_of_another_content_is_another_problem(self):
        hashes = set()
        for shift in (0.0, 0.25):
            np.save(self.folder / "start.npy", self.points[:4] + shift)
            hashes.add(self.exact("--init", "file:start.npy", "--iterations", 1)["problem"]["hash"])
            (self.folder / "out" / "ledger.jsonl").unlink()
        self.assertEqual(len(hashes), 2)

    # ---- where it ends

    def check_stop(self, stop, *arguments):
        row = self.exact(*arguments)
        labels, means, losses, inertias = lloyd(self.points, self.points[:4], stop)
        self.assertEqual(row["own_start"]["iterations"], len(losses))
        np.testing.assert_array_equal(self.saved("kmeans_serial", "labels.npy"), labels)
        np.testing.assert_allclose(self.saved("kmeans_serial", "centroids.npy"), means, rtol=1e-12)
        trace = self.saved("kmeans_serial", "trace.json")
        self.assertEqual(trace["iterations"], len(losses))
        # Every pass is evaluated at the centroids that entered it.
        np.testing.assert_allclose(trace["loss"], losses, rtol=1e-12)
        np.testing.assert_allclose(trace["inertia"], inertias, rtol=1e-12)
        return row, losses

    def test_iterations(self):
        self.check_stop(lambda passes, *_: passes == 7, "--iterations", 7)

    def test_stop_loss(self):
        def stop(passes, losses, *_):
            return passes > 1 and abs(losses[-1] - losses[-2]) < 0.05
        row, losses = self.check_stop(stop, "--stop", "loss:0.05")
        self.assertGreater(len(losses), 2)
        self.assertEqual(row["problem"]["max_iterations"], 300)

    def test_stop_labels(self):
        self.check_stop(lambda passes, losses, changed, shift: not changed, "--stop", "labels")

    def test_stop_labels_is_bounded(self):
        self.check_stop(lambda passes, *_: passes == 3, "--stop", "labels", "--max-iterations", 3)

    def test_stop_shift_is_scikit_learns(self):
        tolerance = 1e-3 * np.var(self.points, axis=0).mean()
        self.check_stop(lambda passes, losses, changed, shift: shift <= tolerance,
                        "--stop", "shift:0.001")

    # ---- which algorithm, in which precision

    def test_fcm(self):
        self.exact("--iterations", 3, "--fuzzifier", 1.7, family="fcm")
        u, centres = fuzzy(self.points, self.points[:4] + 1e-9, 1.7, 3)
        memberships = self.saved("fcm_serial", "memberships.npy")
        self.assertEqual((memberships.shape, memberships.dtype), ((300, 4), np.float64))
        np.testing.assert_allclose(memberships.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(memberships, u, atol=1e-5)
        np.testing.assert_allclose(self.saved("fcm_serial", "centroids.npy"), centres, atol=1e-5)
        np.testing.assert_array_equal(self.saved("fcm_serial", "labels.npy"),
                                      memberships.argmax(axis=1))

    def test_fcm_from_memberships(self):
        row = self.exact("--init", "memberships:3", "--iterations", 2, family="fcm")
        self.assertEqual(row["problem"]["init"], "memberships:3")
        self.assertEqual(row["own_start"]["iterations"], 2)

    def test_precisions(self):
        rows = self.campaign("--data", DATA, "--k", 4, "--iterations", 3, "--precision", "f32",
                             "--precision", "f64", "--variant", "kmeans_serial")
        self.assertEqual({row["precision"] for row in rows}, {"f32", "f64"})
        self.assertEqual({row["status"] for row in rows}, {"ok"})
        self.assertEqual(len({row["problem"]["hash"] for row in rows}), 2)

    def test_saved_files_in_float32(self):
        self.campaign("--data", DATA, "--k", 4, "--iterations", 3, "--precision", "f32",
                      "--variant", "kmeans_serial", "--variant", "fcm_serial", "--save", "saved")
        labels = self.saved("kmeans_serial", "labels.npy")
        centroids = self.saved("kmeans_serial", "centroids.npy")
        self.assertEqual((labels.shape, labels.dtype), ((300,), np.int32))
        self.assertEqual((centroids.shape, centroids.dtype), ((4, 3), np.float32))
        # Nothing is saved of a variant that takes no part: it is refused as of another family.
        self.assertFalse((self.folder / "saved" / "fcm_serial.labels.npy").exists())

    def test_printed_loss_of_article000(self):
        self.campaign("--data", DATA, "--k", 4, "--stop", "loss:0.1", "--variant",
                      "kmeans_serial_distances", "--save", "saved")
        trace = self.saved("kmeans_serial_distances", "trace.json")
        self.assertGreater(len(trace["printed_loss"]), 1)
        self.assertTrue(all(value > 0 for value in trace["printed_loss"]))

    # ---- which cells, how often

    def test_variant_globs(self):
        rows = self.campaign("--data", DATA, "--k", 4, "--iterations", 2,
                             "--variant", "kmeans_ser*", "--variant", "kmeans_openmp")
        self.assertEqual({row["variant"]: row["status"] for row in rows},
                         {"kmeans_serial": "ok", "kmeans_serial_distances": "ok",
                          "kmeans_serial_points": "refused", "kmeans_openmp": "ok"})
        refused = next(row for row in rows if row["status"] == "refused")
        self.assertIn("d = 3, but the variant takes d = 2 only", refused["message"])

    def test_every_variant_of_the_family_by_default(self):
        listed = json.loads(self.run_program("list", "--json").stdout)
        rows = self.campaign("--data", "uniform:200,2,1", "--k", 3, "--iterations", 2)
        expected = {v["name"] for v in listed["variants"]
                    if v["family"] == "kmeans" and "f32" in v["precisions"]}
        self.assertEqual({row["variant"] for row in rows}, expected)
        self.assertLessEqual({row["status"] for row in rows}, {"ok", "refused", "unavailable"})

    def test_rounds_samples_threads(self):
        self.run_program("run", "--data", DATA, "--k", 4, "--iterations", 2, "--variant",
                         "kmeans_openmp", "--rounds", 3, "--samples", 4, "--budget", 0,
                         "--threads", 2, "--no-probe", "--out", "out")
        _, rows = ledger(self.folder / "out")
        self.assertEqual([row["round"] for row in rows], [1, 2, 3])
        for row in rows:
            self.assertIn(len(row["samples_ms"]), (4, 5))  # one more was taken for the warm-up
            self.assertEqual(row["threads"], 2)
        self.assertEqual(len({row["key"] for row in rows}), 3)

    def sampled(self, *options):
        self.run_program("run", "--data", DATA, "--k", 4, "--iterations", 1, "--variant",
                         "kmeans_serial", *options, "--threads", 1, "--no-probe", "--out", "out")
        return ledger(self.folder / "out")[1][-1]

    def test_sampling_ends_where_it_should(self):
        row = self.sampled("--samples", 2, "--min-time", 3600, "--budget", 3600)
        self.assertEqual(row["sampling_ended"], "largest number of samples")
        # Load that comes later raises the fence, and what was warm-up before is a sample again.
        self.assertIn(len(row["samples_ms"]), range(199, 199 + 199 // 3 + 1))
        self.assertIn(len(row["samples_ms"] + row["warm_up_samples_ms"]), range(199, 199 * 4 // 3 + 1))
        row = self.sampled("--samples", 12, "--target", 1e9, "--min-time", 0)
        self.assertEqual(row["sampling_ended"], "the interval is narrow")
        self.assertIn(len(row["samples_ms"]), range(12, 25))  # up to two cycles of nine, and warm-up
        row = self.sampled("--samples", 12, "--target", 0, "--budget", 0)
        self.assertEqual(row["sampling_ended"], "the budget is spent")
        self.assertIn(len(row["samples_ms"]), range(12, 25))
        self.assertEqual(row["gbench_row"]["repetitions"], len(row["samples_ms"]))

    def test_dropped_runs_stay_in_the_ledger(self):
        row = self.sampled("--samples", 9)
        self.assertAlmostEqual(row["warm_up_ms"], sum(row["warm_up_samples_ms"]))
        self.assertLessEqual(len(row["warm_up_samples_ms"]) * 3, len(row["samples_ms"]))
        self.assertEqual(len(row["disturbances"]), row["disturbed_runs"])

    def test_starts_repeats_them(self):
        seeds = []
        for number, words in enumerate((["--starts", 5], ["--starts", 5], [])):
            self.campaign("--data", DATA, "--k", 4, "--iterations", 1, "--variant", "kmeans_serial",
                          *words, out=f"out{number}")
            seeds.append(ledger(self.folder / f"out{number}")[0][0]["starts_seed"])
        self.assertEqual(seeds[:2], [5, 5])
        done = self.run_program("compare", "out0", "out1", "--json", exit_code=3)
        self.assertFalse(json.loads(done.stdout)["cells"][0]["paired"])  # of one sample each
        self.campaign("--data", DATA, "--k", 4, "--iterations", 1, "--variant", "kmeans_serial",
                      "--resume", out="out2")
        self.assertEqual({header["starts_seed"] for header in ledger(self.folder / "out2")[0]},
                         {seeds[2]})

    def test_seed_decides_the_order(self):
        orders = []
        for number, seed in enumerate((1, 1, 2, 3)):
            rows = self.campaign("--data", "uniform:50,2,1", "--k", 2, "--iterations", 1,
                                 "--variant", "kmeans_*e[nr]*", "--seed", seed, out=f"out{number}")
            orders.append([row["variant"] for row in rows])
        self.assertEqual(orders[0], orders[1])
        self.assertEqual({tuple(sorted(order)) for order in orders}, {tuple(sorted(orders[0]))})
        self.assertGreater(len({tuple(order) for order in orders}), 1)

    def test_take(self):
        row = self.exact("--take", 100, "--iterations", 1)
        self.assertEqual(row["problem"]["n"], 100)

    def test_own_csv_with_label_words(self):
        with open(self.folder / "own.csv", "w", newline="") as file:
            csv.writer(file).writerows([*point, "kind"] for point in self.points[:50].tolist())
        rows = self.campaign("--data", "own.csv", "--last-column-is-label", "--k", 3,
                             "--iterations", 2, "--variant", "kmeans_serial")
        self.assertEqual([(row["status"], row["problem"]["d"]) for row in rows], [("ok", 3)])

    def test_out_defaults_to_a_dated_folder(self):
        done = self.run_program("run", "--data", DATA, "--k", 4, "--iterations", 1, "--variant",
                                "kmeans_serial", *QUICK)
        folders = list((self.folder / "results" / "runs").iterdir())
        self.assertEqual(len(folders), 1)
        self.assertIn(str(folders[0].relative_to(self.folder)), done.stdout)
        self.assertEqual(len(ledger(folders[0])[1]), 1)

    # ---- again

    def test_resume_reuses_rows_and_says_how_many(self):
        problem = ["--data", DATA, "--k", 4, "--iterations", 2]
        first = self.campaign(*problem, "--variant", "kmeans_serial", "--rounds", 2)
        done = self.run_program("run", *problem, "--variant", "kmeans_serial", "--variant",
                                "kmeans_openmp", "--rounds", 2, *QUICK, "--out", "out", "--resume")
        self.assertIn("re-used 2 rows", done.stderr)
        _, rows = ledger(self.folder / "out")
        self.assertEqual(rows[:2], first)
        self.assertEqual([row["variant"] for row in rows[2:]], ["kmeans_openmp"] * 2)
        self.assertIn("kmeans_serial", done.stdout)  # the table shows re-used rows, too

    def test_resume_does_not_reuse_another_problem(self):
        self.campaign("--data", DATA, "--k", 4, "--iterations", 2, "--variant", "kmeans_serial")
        done = self.run_program("run", "--data", DATA, "--k", 5, "--iterations", 2, "--variant",
                                "kmeans_serial", *QUICK, "--out", "out", "--resume")
        self.assertIn("re-used 0 rows", done.stderr)

    # ---- tables

    def test_a_variant_whose_backend_is_not_built_is_a_row_that_says_so(self):
        backend = next(backend for backend in json.loads(self.run_program("list", "--json").stdout)
                       ["backends"] if backend["name"] == "cuda")
        if backend["built"]:
            self.skipTest("the backend is built")
        (self.folder / "tables").mkdir()
        self.environment["CLUSTERBENCH_TABLES"] = str(self.folder / "tables")
        (self.folder / "tables" / "small.json").write_text(json.dumps({
            "name": "small", "title": "", "source": "",
            "problems": [{"id": "p", "data": DATA, "k": 4, "init": "first",
                          "stop": "iterations", "max_iterations": 1}],
            "rows": [{"variant": "kmeans_cuda_atomic", "precisions": ["f32"], "problems": ["p"]}]}))
        row, = self.campaign("small", exit_code=6)
        self.assertEqual(row["status"], "unavailable")
        self.assertIn("cuda is not built here: " + backend["reason"], row["message"])

    def test_json(self):
        done = self.run_program("run", "--data", DATA, "--k", 3, "--iterations", 2, "--variant", "kmeans_serial",
                                *QUICK, "--out", "out", "--json")
        end = json.loads(done.stdout)
        self.assertEqual((end["type"], end["exit_code"], end["ledger"]), ("run", 0, "out/ledger.jsonl"))
        (table,) = end["tables"]
        self.assertEqual([cell["status"] for cell in table["cells"]], ["ok"])

    def test_table(self):
        done = self.run_program("run", "article004", "--quick", "--variant", "kmeans_serial",
                                "--precision", "f32", *QUICK, "--out", "out")
        _, rows = ledger(self.folder / "out")
        self.assertEqual({row["problem"]["id"]: row["status"] for row in rows},
                         {"n=100": "ok", "n=100k": "ok"})
        self.assertIn("article004", done.stdout)
        self.assertRegex(" ".join(done.stdout.split()), "Not run.*: .*kmeans_openmp f32")  # other cells of the table
        shown = self.run_program("table", "article004", "--quick", "--from", "out").stdout
        self.assertEqual(done.stdout.split("ledger:")[0].split(), shown.split())
        self.assertRegex(shown, r"\n  A: .* \(\d{4}-\d\d-\d\d\)\.\n")
        self.assertIn("\n2 cells: 2 right.\n", shown)

        readme = self.folder / "README.md"
        readme.write_text("before\n<!-- table article004 begin -->\nold\n"
                          "<!-- table article004 end -->\nafter\n")
        self.run_program("table", "article004", "--from", "out", "--splice", "README.md")
        text = readme.read_text()
        self.assertRegex(text, r"(?s)^before\n.*\| kmeans_serial +\|.*\nMade by `clusterbench table "
                         r"article004 --from out --markdown`\n.*\nafter\n$")
        self.assertNotIn("\nold\n", text)
        markdown = self.run_program("table", "article004", "--from", "out", "--markdown").stdout
        self.assertIn(markdown, text)

    # ---- ledgers

    def test_ledger(self):
        self.campaign("--data", DATA, "--k", 4, "--iterations", 2, "--variant", "kmeans_ser*")
        text = self.run_program("ledger", ".").stdout  # at any depth
        self.assertRegex(text, r"^A: .*\(\d{4}-\d\d-\d\d\)\n  2 ok\n  1 refused\n$")
        report = json.loads(self.run_program("ledger", "out/ledger.jsonl", "--json").stdout)
        self.assertEqual({cell["variant"]: cell["status"] for cell in report["cells"]},
                         {row["variant"]: row["status"] for row in ledger(self.folder / "out")[1]})
        self.run_program("ledger", "nowhere", exit_code=64)

    # ---- limits

    def test_probe(self):
        text = self.run_program("probe", "--quick", "--threads", 1).stdout
        self.assertRegex(text, r"1 thread: read [\d.]+ GB/s, FMA \d+ GFLOP/s \(f32\), \d+ GFLOP/s \(f64\), "
                               r"comparing \d+ Gpairs/s \(f32\), \d+ Gpairs/s \(f64\)")
        self.assertIn("GPU:", text)

    def test_campaign_with_limits(self):
        self.run_program("run", "--data", DATA, "--k", 4, "--iterations", 2, "--variant",
                         "kmeans_serial", "--samples", 1, "--budget", 0, "--threads", 1, "--out",
                         "out")
        headers, rows = ledger(self.folder / "out")
        cpu = headers[0]["limits"]["cpu"][0]
        self.assertEqual(cpu["threads"], 1)
        self.assertGreater(cpu["compare_f64_gpairs"], 0)
        if cpu["cpu_share"] < 0.5:  # too busy to tell the limit
            self.assertNotIn("percent_of_limit", rows[0])
            return
        self.assertGreater(rows[0]["percent_of_limit"], 0)
        self.assertIn(rows[0]["limit"], ("read bandwidth", "FMA rate", "comparison rate"))


if __name__ == "__main__":
    unittest.main()
