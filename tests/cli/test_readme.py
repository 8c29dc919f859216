"""The figures in README.md and in the pages of tables are those of the reference runs."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["CLUSTERBENCH_SOURCE"])
PAGES = ["README.md", "docs/results.md", "docs/tables.md", "docs/scaling.md", "docs/studies.md",
         "docs/verdicts.md", "docs/scaling_model.md", "docs/ladder/any_shape.md", "docs/ladder/cpu_map.md",
         "docs/ladder/gpu_map.md", "docs/ladder/fuzzy.md",
         "docs/out_of_core.md", "docs/out_of_core_gpu.md", "docs/ranks.md", "docs/several_gpus.md"]


class Readme(unittest.TestCase):
    def updated(self, change=lambda text: text):
        """What the script makes of copies of the pages, each changed before."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "docs/ladder").mkdir(parents=True)
            for page in PAGES:
                shutil.copy(SOURCE / page, Path(folder, page))
                Path(folder, page).write_text(change((SOURCE / page).read_text()))
            subprocess.run([SOURCE / "scripts/update_readme.sh",
                            os.environ["CLUSTERBENCH_BINARY"], folder],
                           check=True, capture_output=True)
            return {page: Path(folder, page).read_text() for page in PAGES}

    def test_pages_agree_with_the_results(self):
        for page, text in self.updated().items():
            self.assertEqual(text, (SOURCE / page).read_text(), f"{page}: run {SOURCE}/scripts/update_readme.sh")

    def test_a_changed_figure_is_put_right(self):
        def change(text):
            if text.startswith("# Any shape"):  # a table among sentences with figures of their own
                return text.replace("| kmeans_cuda_boxes | 0.", "| kmeans_cuda_boxes | 9.", 1)
            # Tables of the studies that are of no reference run stay as they are.
            at = max(text.find("<!-- table cpu_shapes begin -->"), 0)
            return text[:at] + (text[at:].replace(" %)", " per cent)", 1)
                                .replace("| right", "| wrong", 1)
                                .replace("| 1024 | ", "| 1024 | 9")
                                .replace(" times as fast as that C++", " times as slow"))
        for page, text in self.updated(change).items():
            self.assertEqual(text, (SOURCE / page).read_text())

    def test_every_figure_of_the_first_page_is_the_scripts(self):
        def change(text):
            return re.sub(r"(?ms)^<!-- (\w+) begin -->$.*?^<!-- \1 end -->$",
                          lambda block: re.sub(r"\d", "9", block[0]), text)
        page = (SOURCE / "README.md").read_text()
        self.assertEqual(len(re.findall(r"(?m)^<!-- \w+ begin -->$", page)), 2)
        self.assertNotEqual(change(page), page)
        self.assertEqual(self.updated(change)["README.md"], page)

    def test_the_ledgers_are_committed(self):
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "results/reference"], capture_output=True, text=True)
        if listed.returncode != 0:
            self.skipTest("there is no git")
        ledgers = {str(path.relative_to(SOURCE)) for path in SOURCE.glob("results/reference/**/*.jsonl")}
        self.assertGreater(len(ledgers), 3)
        self.assertEqual(ledgers - set(listed.stdout.splitlines()), set())


if __name__ == "__main__":
    unittest.main()
