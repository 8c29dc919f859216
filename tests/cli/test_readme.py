"""The figures in README.md and docs/scaling.md are those of the committed reference runs."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["CLUSTERBENCH_SOURCE"])


class Readme(unittest.TestCase):
    def updated(self, change=lambda text: text):
        """What the script makes of copies of the two pages, the first one changed before."""
        with tempfile.TemporaryDirectory() as folder:
            readme, scaling = Path(folder, "README.md"), Path(folder, "scaling.md")
            readme.write_text(change((SOURCE / "README.md").read_text()))
            shutil.copy(SOURCE / "docs/scaling.md", scaling)
            subprocess.run(
                [SOURCE / "scripts/update_readme.sh", readme, os.environ["CLUSTERBENCH_BINARY"],
                 scaling], check=True, capture_output=True)
            return readme.read_text(), scaling.read_text()

    def test_pages_agree_with_the_results(self):
        readme, scaling = self.updated()
        self.assertEqual(readme, (SOURCE / "README.md").read_text())
        self.assertEqual(scaling, (SOURCE / "docs/scaling.md").read_text())

    def test_a_changed_figure_is_put_right(self):
        readme, _ = self.updated(lambda text: text.replace("| right", "| wrong", 1))
        self.assertEqual(readme, (SOURCE / "README.md").read_text())


if __name__ == "__main__":
    unittest.main()
