"""kmeans_cuda_auto: its table names variants that exist, its Meta holds for whichever is picked, and
on the measured grid of shapes, and at the borders of its table, it is never more than 10 % behind
the best."""

import json
import math
import os
import pathlib
import re
import unittest

import grid

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
CUDA = SOURCE / "impls/cuda"
PAGE = SOURCE / "docs/ladder/any_shape.md"
SHAPES, BORDERS = (json.loads((SOURCE / f"results/tables/{name}.json").read_text())
                   for name in ("gpu_shapes", "gpu_borders"))


def measured(table):
    """The cells of a table in the newest reference run that has it; skips the test where none has."""
    reference = SOURCE / "results/reference"
    pattern = f"*/{table['name']}/ledger.jsonl"
    if not list(reference.glob(pattern)):
        raise unittest.SkipTest(f"no reference run has the table {table['name']}")
    return grid.cells_of(grid.newest(pattern, reference))


def source(variant):
    return next(CUDA.rglob(f"{variant}.cu"), None)


def lines(name="kTable"):
    """A table, in order: (most points, most features, most clusters, variant)."""
    text = source("kmeans_cuda_auto").read_text()
    table = text[text.index(f"{name}{{"):text.index("};", text.index(f"{name}{{"))]
    found = re.findall(r'Choice\{(\w+), (\w+), (\w+), "(\w+)"\}', table)
    assert len(found) == table.count("Choice{"), table
    return [(*(math.inf if most == "kAny" else int(most) for most in line[:3]), line[3])
            for line in found]


def picks():
    return [line[3] for line in lines()]


def pick(problem, refused):
    """The first variant of the table that fits a problem and does not refuse it."""
    return next(variant for n, d, k, variant in lines()
                if problem["n"] <= n and problem["d"] <= d and problem["k"] <= k
                and variant not in refused)


def uncompared(table):
    """The problems of a table at which it does not run auto, what auto picks, and somebody else."""
    found = []
    for problem in table["problems"]:
        n, d = map(int, re.match(r"mixture:(\d+),(\d+),", problem["data"]).groups())
        there = {row["variant"] for row in table["rows"] if problem["id"] in row["problems"]}
        if not {"kmeans_cuda_auto", pick({"n": n, "d": d, "k": problem["k"]}, ())} < there:
            found.append(problem["id"])
    return found


def meta(variant):
    """The text between a variant's name and the end of its registration."""
    text = source(variant).read_text()
    return text[text.index(f'.name = "{variant}"'):]


class Auto(unittest.TestCase):
    def test_the_table_names_variants(self):
        names = picks()
        self.assertGreaterEqual(len(names), 4)
        for name in names:
            self.assertIsNotNone(source(name), name)

    def test_the_table_of_doubles_ends_with_one_for_any_shape(self):
        doubles = lines("kDoubles")
        self.assertEqual(doubles[-1][:3], (math.inf,) * 3)
        for *_, name in doubles:
            self.assertRegex(meta(name), r"both_precisions|\{\{\}, ", name)  # or float64 alone

    def test_meta_is_the_loosest_of_all(self):
        own = meta("kmeans_cuda_auto")
        for name in {*picks(), *(line[3] for line in lines("kDoubles"))}:
            for looser in (".distance = DistanceForm::expanded", ".deterministic = false",
                           ".reseeds_empty = true", ".labels = LabelsFrom::returned_centroids"):
                if looser in meta(name):
                    self.assertIn(looser, own, name)
            self.assertNotIn(".arithmetic", meta(name))

    def test_the_grid_has_auto_and_all_it_may_pick(self):
        rows = {row["variant"]: row["problems"] for row in SHAPES["rows"]}
        for name in {"kmeans_cuda_auto", *picks()}:
            self.assertEqual(rows[name], [problem["id"] for problem in SHAPES["problems"]])

    def test_the_borders_have_auto_and_what_it_picks_there(self):
        self.assertEqual(uncompared(BORDERS), [])
        # Both tables' problems are told apart by their names.
        names = [problem["id"] for table in (SHAPES, BORDERS) for problem in table["problems"]]
        self.assertEqual(len(names), len(set(names)))

    def test_near_centroids_from_where_the_page_says(self):
        # Neither table has these shapes. Packed scores of one feature took up to 85 times as long.
        text = " ".join(PAGE.read_text().split())
        borders = re.search(r"but for one feature, two to six beyond (.*?) points", text).group(1)
        numbers = re.findall(r"([\d.,]*\d)( million)?", borders)
        most = [round(float(number.replace(",", "")) * (1e6 if million else 1))
                for number, million in numbers]
        self.assertEqual(len(most), 5)
        for n in (2000, 15000, 1000000):
            self.assertEqual(pick({"n": n, "d": 1, "k": 1500}, ()), "kmeans_cuda_nearby")
        self.assertIn("Up to 256 clusters these borders are 3 million points of five features and 20 "
                      "million of six", text)
        for d, n, k in (*((d, n, 1500) for d, n in enumerate(most, start=2)),
                        (5, 3000000, 256), (6, 20000000, 256)):
            self.assertEqual(pick({"n": n, "d": d, "k": k}, ()), "kmeans_cuda_packed")
            self.assertEqual(pick({"n": n + 1, "d": d, "k": k}, ()), "kmeans_cuda_nearby")

    def test_many_clusters_as_the_page_says(self):
        # Nor these: the last shapes of a variant, and the first ones behind them.
        for n, d, k, inside, beyond in (
                (21000000, 2, 100, "boxes", {"k": 101}), (5000000, 2, 256, "boxes", {"n": 5000001}),
                (20000000, 4, 204, "boxes", {"k": 205}), (4000, 128, 128, "resident", {"n": 4001}),
                (2000, 16, 256, "resident", {"n": 2001}), (4000, 25, 256, "resident", {"d": 24}),
                (2000, 2048, 128, "resident", {"k": 129}), (50000, 6, 80, "cells", {"k": 81}),
                (1000000, 6, 72, "cells", {"d": 7}), (4001, 64, 1000, "packed", {"d": 65}),
                (250000, 64, 1280, "packed", {"n": 250001}), (600000, 33, 1100, "packed", {"k": 1101}),
                (700000, 64, 800, "packed", {"k": 801}), (12000, 2048, 5000, "wgmma", {"n": 12001}),
                (25000, 512, 3000, "wgmma", {"k": 3001}), (50000, 512, 500, "wgmma", {"k": 501}),
                (100000, 128, 1000, "wgmma", {"k": 1001}),
                (100000, 256, 700, "wgmma", {"n": 100001}), (300000, 128, 600, "wgmma", {"k": 601}),
                (1000000, 256, 450, "wgmma", {"d": 257}), (1000000, 2048, 300, "wgmma", {"k": 301}),
                (1500000, 64, 64, "half_rows", {"n": 1500001}),
                (2500000, 32, 64, "half_rows", {"n": 2500001}),
                (5000000, 24, 64, "half_rows", {"n": 5000001}),
                (20000000, 16, 64, "half_rows", {"n": 20000001}),
                (4000, 512, 8, "resident", {"n": 4001}), (5000, 1000, 16, "resident", {"k": 17}),
                (7500, 256, 64, "resident", {"k": 65}), (100000, 256, 8, "fused", {"n": 100001}),
                (10000, 512, 8, "fused", {"n": 10001}), (50000, 512, 4, "fused", {"k": 5}),
                (50000, 128, 16, "fused", {"n": 50001}), (300000, 256, 5, "fused", {"k": 6}),
                (10000000, 100, 8, "fused", {"k": 9}), (10000000, 2048, 1, "hamerly", {"k": 2})):
            last = {"n": n, "d": d, "k": k}
            self.assertEqual(pick(last, ()), f"kmeans_cuda_{inside}", last)
            self.assertNotEqual(pick(last | beyond, ()), f"kmeans_cuda_{inside}", last | beyond)
        for n, variant in ((50000, "kmeans_cuda_wgmma"), (50001, "kmeans_cuda_hamerly")):
            self.assertEqual(pick({"n": n, "d": 64, "k": 5000}, ("kmeans_cuda_packed",)), variant)

    def test_never_far_behind_where_measured(self):
        cells = [*measured(SHAPES), *measured(BORDERS)]
        # Who is not there cannot win, so the ladder's page of any shape says who that is.
        text = PAGE.read_text()
        known = re.findall(r"^\| (\w+) \| not run at \| ([^|]+) \|$", text, re.MULTILINE)
        self.assertEqual(sorted(grid.missing(cells, SHAPES) + grid.missing(cells, BORDERS)),
                         sorted((variant, problem) for variant, all_of_it in known
                                for problem in all_of_it.strip().split("; ")))
        # The table of today, with the times of what it picks; and what auto itself took, where it
        # ran with the same pick.
        newest = {(cell["name"].split("/")[1], cell["variant"]): cell for cell in cells}
        as_picked, as_run, otherwise = [], [], []
        for problem in {cell["name"].split("/")[1] for cell in cells}:
            here = [cell for (name, _), cell in newest.items()
                    if name == problem and cell["status"] == "ok"]
            right = {cell["variant"]: cell for cell in here}
            own = right.pop("kmeans_cuda_auto", None)  # or the page says that it was not run
            refused = {variant for (name, variant), cell in newest.items()
                       if name == problem and cell["status"] == "refused"}
            picked = right[pick(here[0]["problem"], refused)]
            as_picked += [*right.values(), {**picked, "variant": "kmeans_cuda_auto"}]
            if own is None:
                continue
            if own["chosen_path"].split(":")[0] == picked["variant"]:
                as_run += here
            else:
                otherwise.append(problem)
        self.assertEqual(grid.behind(as_picked, "kmeans_cuda_auto"), {})
        # The same module in two processes, tens of microseconds long: up to 16 % apart were seen.
        self.assertEqual(grid.behind(as_run, "kmeans_cuda_auto", allowed=1.2), {})
        named = re.findall(r"^\| kmeans_cuda_auto \| ran with another pick at \| ([^|]+) \|$", text,
                           re.MULTILINE)
        self.assertEqual(sorted(otherwise),
                         sorted(problem for all_of_it in named for problem in all_of_it.split("; ")))

    def test_the_ladder_names_the_fastest_of_each_shape(self):
        cells = measured(SHAPES)
        newest = {(cell["name"].split("/")[1], cell["variant"]): cell for cell in cells}
        fastest = {}
        for (name, variant), cell in newest.items():
            if cell["status"] == "ok" and variant != "kmeans_cuda_auto":
                fastest[name] = min(fastest.get(name, cell), cell,
                                    key=lambda one: one["ms_per_iteration"])
        text = PAGE.read_text()
        rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\w ]+) \| (\d+) \|$",
                          text, re.MULTILINE)
        self.assertEqual(len(rows), 16)
        for d, k, *row in rows:
            cell = fastest[f"n=1M d={d} k={k}"]
            self.assertEqual(row, [cell["variant"], f'{cell["ms_per_iteration"]:.4f}',
                                   f'{cell["limit_ms_per_iteration"]:.4f}', cell["limit"],
                                   f'{cell["percent_of_limit"]:.0f}'], (d, k))

    def test_the_comparison_can_fail(self):
        grid.check_that_it_can_fail(self, "kmeans_cuda_auto", "kmeans_cublas")
        for name in ("kmeans_cuda_auto", picks()[0]):
            rows = [row for row in BORDERS["rows"] if row["variant"] != name]
            self.assertNotEqual(uncompared({**BORDERS, "rows": rows}), [], name)


class FuzzyAuto(unittest.TestCase):
    """fcm_cuda_auto, of whose shapes no reference run has all variants."""

    def lines(self):
        text = source("fcm_cuda_auto").read_text()
        table = text[text.index("kTable{"):text.index("};", text.index("kTable{"))]
        found = re.findall(r'Choice\{(\w+), (\w+), "(\w+)"(, false)?\}', table)
        self.assertEqual(len(found), table.count("Choice{"))
        return found

    def test_the_table_names_variants_and_no_float_alone_for_doubles(self):
        self.assertGreaterEqual(len(self.lines()), 4)
        for *_, name, floats in self.lines():
            self.assertRegex(meta(name), "f32_only" if floats else "both_precisions")
            self.assertIn("Family::fcm", meta(name))

    def test_the_table_ends_with_one_for_any_shape(self):
        features, clusters, name, floats = self.lines()[-1]
        self.assertEqual((features, clusters, floats), ("kAny", "kAny", ""))
        self.assertNotIn(".max_d", meta(name))
        self.assertIn(".max_k = 256", meta(name))
        self.assertIn(".max_k = 256", meta("fcm_cuda_auto"))

    def test_meta_is_the_loosest_of_all(self):
        for *_, name, _ in self.lines():
            for looser in (".distance = DistanceForm::expanded", ".deterministic = false"):
                if looser in meta(name):
                    self.assertIn(looser, meta("fcm_cuda_auto"), name)


if __name__ == "__main__":
    unittest.main()
