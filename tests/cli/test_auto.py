"""kmeans_cuda_auto: its table names variants that exist, its Meta holds for whichever is picked, and
on the measured grid of shapes it is never more than 10 % behind the best."""

import json
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
CUDA = SOURCE / "impls/cuda"
ALLOWED = 1.10


def picks():
    """The variants that the table names, in order."""
    text = (CUDA / "kmeans_cuda_auto.cu").read_text()
    table = text[text.index("kTable{"):text.index("};", text.index("kTable{"))]
    return re.findall(r'Line\{[^}]*"(\w+)"\}', table)


def meta(variant):
    """The text between a variant's name and the end of its registration."""
    text = (CUDA / f"{variant}.cu").read_text()
    return text[text.index(f'.name = "{variant}"'):]


def behind(cells):
    """Shapes at which auto is more than 10 % behind the best right variant, and by how much."""
    times = {}
    for cell in cells:
        if cell["precision"] == "f32" and cell["status"] == "ok":
            times.setdefault(cell["name"].split("/")[1], {}).setdefault(cell["variant"], []).append(
                cell["ms_per_iteration"])
    found = {}
    for problem, variants in times.items():
        best = {name: min(values) for name, values in variants.items()}
        auto = best.pop("kmeans_cuda_auto", None)
        if auto is None:
            found[problem] = "not run"
        elif best and auto > ALLOWED * min(best.values()):
            found[problem] = auto / min(best.values())
    return found


def cells_of(path):
    """The cells of a ledger, without its header lines."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "ms_per_iteration" in line]


class Auto(unittest.TestCase):
    def test_the_table_names_variants(self):
        names = picks()
        self.assertGreaterEqual(len(names), 4)
        for name in names:
            self.assertTrue((CUDA / f"{name}.cu").is_file(), name)

    def test_meta_is_the_loosest_of_all(self):
        own = meta("kmeans_cuda_auto")
        for name in picks():
            for looser in (".distance = DistanceForm::expanded", ".deterministic = false",
                           ".reseeds_empty = true", ".labels = LabelsFrom::returned_centroids"):
                if looser in meta(name):
                    self.assertIn(looser, own, name)
            self.assertNotIn(".arithmetic", meta(name))

    def test_the_grid_has_auto_and_all_it_may_pick(self):
        table = json.loads((SOURCE / "results/tables/gpu_shapes.json").read_text())
        rows = {row["variant"]: row["problems"] for row in table["rows"]}
        for name in ["kmeans_cuda_auto", *picks()]:
            self.assertEqual(rows[name], [problem["id"] for problem in table["problems"]])

    def test_never_far_behind_on_the_measured_grid(self):
        ledgers = sorted((SOURCE / "results/reference").glob("*/gpu_shapes/ledger.jsonl"))
        if not ledgers:
            self.skipTest("no measured grid among the reference runs")
        cells = cells_of(ledgers[-1])
        self.assertTrue(cells, ledgers[-1])
        self.assertEqual(behind(cells), {})

    def test_the_comparison_can_fail(self):
        def cell(variant, ms, status="ok"):
            return {"variant": variant, "name": f"gpu_shapes/p/{variant}/f32", "precision": "f32",
                    "status": status, "ms_per_iteration": ms}
        fast, slow = cell("kmeans_cublas", 1.0), cell("kmeans_cublas", 9.0)
        self.assertEqual(behind([fast, cell("kmeans_cuda_auto", 1.05)]), {})
        self.assertEqual(behind([fast, cell("kmeans_cuda_auto", 1.2)]), {"p": 1.2})
        self.assertEqual(behind([fast]), {"p": "not run"})
        self.assertEqual(behind([cell("kmeans_cublas", 1.0, "wrong"), slow,
                                 cell("kmeans_cuda_auto", 9.0)]), {})


if __name__ == "__main__":
    unittest.main()
