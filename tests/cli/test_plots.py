"""plots/make.py as a user meets it, and the committed pictures: they show the committed results."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
PYTHON = os.environ["CLUSTERBENCH_PYTHON"]
PICTURES = SOURCE / "docs/pictures"
REFERENCE = SOURCE / "results/reference"
DRAWS = subprocess.run([PYTHON, "-c", "import matplotlib"], capture_output=True).returncode == 0


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

    def small_ledger(self):
        """The header and the rows of one table of a reference run on a GPU."""
        ledger = sorted(REFERENCE.glob("nvidia*/ledger.jsonl"))[0]
        lines = [line for line in ledger.read_text().splitlines()
                 if json.loads(line).get("table", "article003") == "article003"]
        path = self.folder / "ledger.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return path

    @unittest.skipUnless(DRAWS, "matplotlib is missing")
    def test_pictures_are_drawn_and_the_same_every_time(self):
        ledger = self.small_ledger()
        done = self.make("--from", ledger, "--out", "one")
        names = sorted(path.name for path in (self.folder / "one").iterdir())
        self.assertEqual(names, [f"{name}.{suffix}" for name in
                                 ("article003", "phases-article003", "roofline")
                                 for suffix in ("png", "svg")])
        self.assertIn("one/article003.{svg,png}", done.stdout)
        self.assertIn("convergence: not made, no verified cell of article000", done.stdout)
        self.make("--from", ledger, "--out", "two")
        for name in names:
            self.assertEqual((self.folder / "one" / name).read_bytes(),
                             (self.folder / "two" / name).read_bytes(), name)

    @unittest.skipUnless(DRAWS, "matplotlib is missing")
    def test_only_and_format_choose(self):
        self.make("--from", self.small_ledger(), "--out", ".", "--only", "roof*", "--format", "svg")
        self.assertEqual([path.name for path in self.folder.iterdir() if path.suffix != ".jsonl"],
                         ["roofline.svg"])

    def test_without_matplotlib_it_says_so_and_succeeds(self):
        (self.folder / "matplotlib.py").write_text("raise ImportError('not today')\n")
        self.environment["PYTHONPATH"] = str(self.folder)
        done = self.make("--from", self.small_ledger(), "--out", "out")
        self.assertIn("no pictures: matplotlib is missing (not today)", done.stdout)
        self.assertIn("python3-matplotlib", done.stdout)
        self.assertFalse((self.folder / "out").exists())

    def test_wrong_cells_are_left_out_and_named(self):
        ledger = self.small_ledger()
        lines = [json.loads(line) for line in ledger.read_text().splitlines()]
        before = self.make("--from", ledger, "--digests").stdout
        for line in lines:
            if line.get("variant") == "kmeans_cuda_persistent":
                line["status"], line["message"] = "wrong", "planted"
        ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
        after = self.make("--from", ledger, "--digests").stdout
        self.assertEqual([line.split()[0] for line in before.splitlines()],
                         [line.split()[0] for line in after.splitlines()])
        for old, new in zip(before.splitlines(), after.splitlines()):
            self.assertNotEqual(old, new)
        if DRAWS:
            said = self.make("--from", ledger, "--out", "out").stdout
            self.assertIn("left out: kmeans_cuda_persistent: wrong (1M)", said)

    def test_bad_input_is_named(self):
        ledger = self.small_ledger()
        ledger.write_text(ledger.read_text()[:-20] + "\n")
        number = len(ledger.read_text().splitlines())
        for arguments, words in (
                (["--from", ledger], f"{ledger}:{number}:"),
                (["--from", "none.jsonl"], "none.jsonl: No such file"),
                (["--from", REFERENCE, "--tables", "."], "holds no table definition"),
                (["--from", REFERENCE, "--published", ledger], f"{ledger}:"),
                (["--from", REFERENCE, "--only", "x*"], "--only x*"),
                (["--from", REFERENCE, "--format", "gif"], "gif"),
                (["--form", "x"], "--form"), ([], "--from")):
            with self.subTest(words):
                done = self.make(*arguments, "--out", "out", exit_code=64)
                self.assertIn(words, done.stderr)
                self.assertFalse((self.folder / "out").exists())

    @unittest.skipUnless(DRAWS, "matplotlib is missing")
    def test_a_folder_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        done = self.make("--from", self.small_ledger(), "--out", "file/out", exit_code=74)
        self.assertIn("file/out", done.stderr)


class CommittedPictures(unittest.TestCase):
    AGAIN = "run scripts/update_pictures.sh"

    @classmethod
    def setUpClass(cls):
        cls.digests = cls.digests_of(REFERENCE)

    @staticmethod
    def digests_of(reference):
        quality = sorted(reference.glob("*/quality/quality.json"))[-1]
        done = subprocess.run([PYTHON, SOURCE / "plots/make.py", "--from", reference,
                               "--quality", quality, "--digests"],
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
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "reference")
            shutil.copytree(REFERENCE, copy)
            ledger = sorted(copy.glob("*/ledger.jsonl"))[0]  # the articles' tables
            lines = [json.loads(line) for line in ledger.read_text().splitlines()]
            for line in lines:
                if line.get("name") == lines[-1]["name"]:  # all rounds of the newest cell
                    line["samples_ms"] = [12345.0]
            ledger.write_text("".join(json.dumps(line) + "\n" for line in lines))
            self.assertNotEqual(self.digests_of(copy), self.digests)

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
