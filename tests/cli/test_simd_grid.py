"""kmeans_simd: on the measured grid of shapes no other variant of ours on a CPU is more than 10 %
faster, but where docs/ladder.md names the shape and the reason."""

import json
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
ALLOWED = 1.10


def problems():
    return [problem["id"] for problem in
            json.loads((SOURCE / "results/tables/cpu_shapes.json").read_text())["problems"]]


def known_exceptions(text):
    """Shapes of the ladder's table of exceptions, with their reasons."""
    section = text[text.index("### Where kmeans_simd is not the fastest"):]
    section = section[:section.find("\n#", 3)]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return {shape.strip(): reason.strip() for shape, _, reason in rows[1:]
            if not shape.startswith("---")}


def behind(cells):
    """Problems at which kmeans_simd is more than 10 % behind the best right variant, and by how
    much."""
    times = {}
    for cell in cells:
        if cell["precision"] == "f32" and cell["status"] == "ok":
            times.setdefault(cell["name"].split("/")[1], {}).setdefault(cell["variant"], []).append(
                cell["ms_per_iteration"])
    found = {}
    for problem, variants in times.items():
        best = {name: min(values) for name, values in variants.items()}
        own = best.pop("kmeans_simd", None)
        if own is None:
            found[problem] = "not run"
        elif best and own > ALLOWED * min(best.values()):
            found[problem] = own / min(best.values())
    return found


def cells_of(path):
    """The cells of a ledger, without its header lines."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "ms_per_iteration" in line]


class Grid(unittest.TestCase):
    def test_never_far_behind_without_a_reason(self):
        ledgers = sorted((SOURCE / "results/reference").glob("*/cpu_shapes*/ledger.jsonl"))
        if not ledgers:
            self.skipTest("no measured grid among the reference runs")
        known = known_exceptions((SOURCE / "docs/ladder.md").read_text())
        newest = ledgers[-1].parent.parent
        for ledger in sorted(newest.glob("cpu_shapes*/ledger.jsonl")):  # numbers of threads
            with self.subTest(ledger=str(ledger.relative_to(SOURCE))):
                cells = cells_of(ledger)
                self.assertEqual({cell["name"].split("/")[1] for cell in cells}, set(problems()))
                self.assertEqual({problem: ratio for problem, ratio in behind(cells).items()
                                  if problem not in known}, {})

    def test_exceptions_are_of_the_grid_and_have_reasons(self):
        known = known_exceptions((SOURCE / "docs/ladder.md").read_text())
        self.assertLessEqual(set(known), set(problems()))
        self.assertTrue(all(known.values()))

    def test_the_comparison_can_fail(self):
        def cell(variant, ms, status="ok"):
            return {"variant": variant, "name": f"cpu_shapes/p/{variant}/f32", "precision": "f32",
                    "status": status, "ms_per_iteration": ms}
        fast = cell("kmeans_openmp", 1.0)
        self.assertEqual(behind([fast, cell("kmeans_simd", 1.05)]), {})
        self.assertEqual(behind([fast, cell("kmeans_simd", 1.2)]), {"p": 1.2})
        self.assertEqual(behind([fast]), {"p": "not run"})
        self.assertEqual(behind([cell("kmeans_openmp", 1.0, "wrong"), cell("kmeans_simd", 9.0)]), {})

    def test_exceptions_are_read(self):
        text = ("### Where kmeans_simd is not the fastest\n\n| shape | faster | why |\n| --- | --- | --- |\n"
                "| 1 x 2, k=3 | another | because |\n\n## Next\n| no | part | of it |\n")
        self.assertEqual(known_exceptions(text), {"1 x 2, k=3": "because"})


if __name__ == "__main__":
    unittest.main()
