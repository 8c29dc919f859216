"""kmeans_simd: on the measured grid of shapes no other variant of ours on a CPU is more than 10 %
faster, but where docs/ladder/cpu.md names the shape and the reason."""

import json
import os
import pathlib
import re
import unittest

import grid

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
PAGE = SOURCE / "docs/ladder/cpu.md"


TABLE = json.loads((SOURCE / "results/tables/cpu_shapes.json").read_text())


def known_exceptions(text):
    """Shapes of that page's table of exceptions, with their reasons."""
    section = text[text.index("## Where kmeans_simd is not the fastest"):]
    section = section[:section.find("\n#", 3)]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return {shape.strip(): reason.strip() for shape, _, reason in rows[1:]
            if not shape.startswith("---")}


class Grid(unittest.TestCase):
    def test_never_far_behind_without_a_reason(self):
        reference = SOURCE / "results/reference"
        known = known_exceptions(PAGE.read_text())
        newest = grid.newest("*/cpu_shapes*/ledger.jsonl", reference).parent.parent
        for ledger in sorted(newest.glob("cpu_shapes*/ledger.jsonl")):  # numbers of threads
            with self.subTest(ledger=str(ledger.relative_to(SOURCE))):
                cells = grid.cells_of(ledger)
                self.assertEqual(grid.missing(cells, TABLE), [])
                found = grid.behind(cells, "kmeans_simd")
                self.assertEqual({problem: found[problem] for problem in found.keys() - known.keys()}, {})

    def test_exceptions_are_of_the_grid_and_have_reasons(self):
        known = known_exceptions(PAGE.read_text())
        self.assertLessEqual(set(known), {problem["id"] for problem in TABLE["problems"]})
        self.assertTrue(all(known.values()))

    def test_the_comparison_can_fail(self):
        grid.check_that_it_can_fail(self, "kmeans_simd", "kmeans_openmp")

    def test_exceptions_are_read(self):
        text = ("## Where kmeans_simd is not the fastest\n\n| shape | faster | why |\n| --- | --- | --- |\n"
                "| 1 x 2, k=3 | another | because |\n\n## Next\n| no | part | of it |\n")
        self.assertEqual(known_exceptions(text), {"1 x 2, k=3": "because"})


if __name__ == "__main__":
    unittest.main()
