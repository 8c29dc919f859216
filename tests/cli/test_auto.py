"""kmeans_cuda_auto: its table names variants that exist, its Meta holds for whichever is picked, and
on the measured grid of shapes it is never more than 10 % behind the best."""

import json
import os
import pathlib
import re
import unittest

import grid

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
CUDA = SOURCE / "impls/cuda"


def picks():
    """The variants that the table names, in order."""
    text = (CUDA / "kmeans_cuda_auto.cu").read_text()
    table = text[text.index("kTable{"):text.index("};", text.index("kTable{"))]
    return re.findall(r'Line\{[^}]*"(\w+)"\}', table)


def meta(variant):
    """The text between a variant's name and the end of its registration."""
    text = (CUDA / f"{variant}.cu").read_text()
    return text[text.index(f'.name = "{variant}"'):]


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
        cells = grid.cells_of(grid.newest("*/gpu_shapes/ledger.jsonl", SOURCE / "results/reference"))
        table = json.loads((SOURCE / "results/tables/gpu_shapes.json").read_text())
        self.assertEqual({cell["name"].split("/")[1] for cell in cells},
                         {problem["id"] for problem in table["problems"]})
        self.assertEqual(grid.behind(cells, "kmeans_cuda_auto"), {})

    def test_the_comparison_can_fail(self):
        grid.check_that_it_can_fail(self, "kmeans_cuda_auto", "kmeans_cublas")


if __name__ == "__main__":
    unittest.main()
