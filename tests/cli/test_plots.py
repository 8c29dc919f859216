"""plots/make.py as a user meets it, and the committed pictures: they show the committed results."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import ledgers

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
PYTHON = os.environ["CLUSTERBENCH_PYTHON"]
BINARY = os.environ["CLUSTERBENCH_BINARY"]
PICTURES = SOURCE / "docs/pictures"
REFERENCE = SOURCE / "results/reference"
DRAWS = subprocess.run([PYTHON, "-c", "import matplotlib"], capture_output=True).returncode == 0


GPU = {"name": "H200", "fma_f32_gflops": 50000.0, "fma_f64_gflops": 25000.0,
       "read_by_size": [{"bytes": 1000, "gbs": 9000.0}, {"bytes": 1000000, "gbs": 4000.0}]}


def measurements_of(path):
    """What the program says that ledgers hold."""
    return json.loads(subprocess.run([BINARY, "ledger", path, "--json"], check=True,
                                     capture_output=True).stdout)


class Plots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")

    def make(self, *arguments, exit_code=0):
        done = subprocess.run([PYTHON, SOURCE / "plots/make.py", *map(str, arguments)], text=True,
                              cwd=self.folder, env=self.environment, capture_output=True)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def small_report(self, change=lambda rows: rows):
        """What is measured of one table on a GPU."""
        definition = json.loads((SOURCE / "results/tables/article003.json").read_text())
        bound = {"limit": "read bandwidth", "limit_ms_per_iteration": 0.01, "percent_of_limit": 1.0}
        rows = change([row | bound for row in ledgers.rows_of_table(definition)
                       if row["device"] == "gpu"])
        header = ledgers.header(gpus=["NVIDIA H200"], limits={"cpu": [], "gpu": GPU})
        ledger = ledgers.write(self.folder / "small", [header, *rows])
        path = self.folder / "measurements.json"
        path.write_text(json.dumps(measurements_of(ledger)))
        return path

    @unittest.skipUnless(DRAWS, "matplotlib is missing")
    def test_pictures_are_drawn_and_the_same_every_time(self):
        ledger = self.small_report()
        done = self.make("--from", ledger, "--out", "one")
        names = sorted(path.name for path in (self.folder / "one").iterdir())
        self.assertEqual(names, [f"{name}.{suffix}" for name in
                                 ("article003", "bounds", "phases-article003")
                                 for suffix in ("png", "svg")])
        self.assertIn("one/article003.{svg,png}", done.stdout)
        self.assertIn("convergence: not made, no verified cell of article000", done.stdout)
        self.make("--from", ledger, "--out", "two")
        for name in names:
            self.assertEqual((self.folder / "one" / name).read_bytes(),
                             (self.folder / "two" / name).read_bytes(), name)

    @unittest.skipUnless(DRAWS, "matplotlib is missing")
    def test_only_and_format_choose(self):
        self.make("--from", self.small_report(), "--out", ".", "--only", "bou*", "--format", "svg")
        self.assertEqual([path.name for path in self.folder.glob("*.[sp]*g")], ["bounds.svg"])

    def test_without_matplotlib_it_says_so_and_succeeds(self):
        (self.folder / "matplotlib.py").write_text("raise ImportError('not today')\n")
        self.environment["PYTHONPATH"] = str(self.folder)
        done = self.make("--from", self.small_report(), "--out", "out")
        self.assertIn("no pictures: matplotlib is missing (not today)", done.stdout)
        self.assertIn("python3-matplotlib", done.stdout)
        self.assertFalse((self.folder / "out").exists())

    def test_wrong_cells_are_left_out_and_named(self):
        def planted(rows):
            return [ledgers.row(row["variant"], status="wrong", table=row["table"],
                                words=row["problem"], device="gpu")
                    if (row["variant"], row["precision"]) == ("kmeans_cuda_persistent", "f32")
                    else row for row in rows]

        before = self.make("--from", self.small_report(), "--digests").stdout
        ledger = self.small_report(planted)
        after = self.make("--from", ledger, "--digests").stdout
        self.assertEqual([line.split()[0] for line in before.splitlines()],
                         [line.split()[0] for line in after.splitlines()])
        for old, new in zip(before.splitlines(), after.splitlines()):
            self.assertNotEqual(old, new)
        if DRAWS:
            said = self.make("--from", ledger, "--out", "out").stdout
            self.assertIn("left out: kmeans_cuda_persistent: wrong (1M)", said)

    def test_bad_input_is_named(self):
        good = self.small_report()
        torn = self.folder / "torn.json"
        torn.write_text(good.read_text()[:-20])
        for arguments, words in (
                (["--from", torn], f"{torn}:1:"),
                (["--from", "none.json"], "none.json: No such file"),
                (["--from", "small/ledger.jsonl"], "small/ledger.jsonl:2:"),
                (["--from", good, "--tables", "out"], "holds no table definition"),
                (["--from", good, "--published", torn], f"{torn}:"),
                (["--from", good, "--only", "x*"], "--only x*"),
                (["--from", good, "--format", "gif"], "gif"),
                (["--form", "x"], "--form"), ([], "--from")):
            with self.subTest(words):
                done = self.make(*arguments, "--out", "out", exit_code=64)
                self.assertIn(words, done.stderr)
                self.assertFalse((self.folder / "out").exists())

    @unittest.skipUnless(DRAWS, "matplotlib is missing")
    def test_a_folder_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        done = self.make("--from", self.small_report(), "--out", "file/out", exit_code=74)
        self.assertIn("file/out", done.stderr)


class CommittedPictures(unittest.TestCase):
    AGAIN = "run scripts/update_pictures.sh"

    @classmethod
    def setUpClass(cls):
        cls.digests = cls.digests_of(REFERENCE)

    @staticmethod
    def digests_of(reference, change=lambda measurements: None):
        quality = sorted(reference.glob("*/quality/quality.json"))[-1]
        measurements = measurements_of(reference)
        change(measurements)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "measurements.json")
            path.write_text(json.dumps(measurements))
            model = pathlib.Path(folder, "model.json")
            model.write_text(subprocess.run(
                [PYTHON, SOURCE / "scripts/scaling_model.py", SOURCE / "results/exchange.json", "--json", reference],
                text=True, capture_output=True, check=True).stdout)
            done = subprocess.run([PYTHON, SOURCE / "plots/make.py", "--from", path,
                                   "--quality", quality, "--model", model, "--digests"],
                                  text=True, capture_output=True, check=True,
                                  env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        return dict(line.split() for line in done.stdout.splitlines())

    def test_they_show_the_committed_results(self):
        self.assertEqual({path.stem for path in PICTURES.iterdir()}, set(self.digests), self.AGAIN)
        for name, digest in self.digests.items():
            with self.subTest(name):
                found = re.search(r"data ([0-9a-f]{64})", (PICTURES / f"{name}.svg").read_text())
                self.assertEqual(found.group(1), digest, self.AGAIN)

    def test_a_changed_result_is_noticed(self):
        def change(measurements):
            for cell in measurements["cells"]:
                if cell["table"] == "article004" and cell["status"] == "ok":
                    cell["own_start_ms"] = 12345.0
        self.assertNotEqual(self.digests_of(REFERENCE, change), self.digests)

    def test_every_picture_is_on_a_page_and_the_pages_show_nothing_else(self):
        pages = [SOURCE / "README.md", *(SOURCE / "docs").glob("*.md")]
        shown = set()
        for page in pages:
            for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()):
                picture = (page.parent / link).resolve()
                self.assertTrue(picture.is_file(), f"{page.name} shows {link}")
                shown.add(picture.stem)
        self.assertEqual(shown, set(self.digests))


if __name__ == "__main__":
    unittest.main()
