"""The model of a pass over several GPUs: its formula, in figures that can be worked out by hand."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))

import scaling_model as model  # noqa: E402

FACTS = {
    "measured": {"source": "Made up.", "flag_barrier_us": 1.0, "peer_write_gbs": 100.0,
                 "all_reduce": [{"bytes": 1000, "us": 11.0}, {"bytes": 3000, "us": 13.0}]},  # 10 µs and 1 GB/s
    "assumed": {"gpus_per_node": {"value": 4, "why": "w"}, "node_step_us": {"value": 2.0, "why": "w"},
                "network_step_us": {"value": 50.0, "why": "w"}, "network_gbs": {"value": 0.5, "why": "w"}},
}


class Passes(unittest.TestCase):
    def test_a_line_is_found_again(self):
        line = model.fit([(rows, 0.25 + 3e-6 * rows) for rows in (1000, 50_000, 2_000_000)])
        self.assertAlmostEqual(line.floor, 0.25)
        self.assertAlmostEqual(line.per_row, 3e-6)
        self.assertAlmostEqual(line.ms(1_000_000), 3.25)

    def test_errors_are_relative(self):
        # Of one row 1 ms, of three 2 and 4: the line through (3, 2.4) has errors of -1/5 and 2/5 of weight 4 to 1.
        line = model.fit([(1, 1.0), (3, 2.0), (3, 4.0)])
        self.assertAlmostEqual(line.ms(1), 1.0)
        self.assertAlmostEqual(line.ms(3), 2.4)

    def test_no_rows_take_no_less_than_nothing(self):
        line = model.fit([(1, 1.0), (2, 4.0)])  # the line has -2 ms at none; through 0 and (1, 1.2) errors are least
        self.assertEqual(line.floor, 0.0)
        self.assertAlmostEqual(line.per_row, 1.2)

    def test_one_number_of_rows_tells_nothing(self):
        with self.assertRaises(ValueError):
            model.fit([(5, 1.0), (5, 2.0)])


class Exchanges(unittest.TestCase):
    def setUp(self):
        self.exchange = model.Exchange(FACTS)

    def test_of_one_there_is_none(self):
        self.assertEqual(self.exchange.all_reduce(1, 1000), 0.0)
        self.assertEqual(self.exchange.peer_writes(1, 1000), 0.0)

    def test_of_two_is_what_was_measured(self):
        for point in FACTS["measured"]["all_reduce"]:
            self.assertAlmostEqual(self.exchange.all_reduce(2, point["bytes"]), point["us"] * 1e-3)

    def test_of_a_node_and_of_several(self):
        # 4: another 2 steps of 2 µs, 3/4 of twice 2000 bytes at 1 GB/s.
        self.assertAlmostEqual(self.exchange.all_reduce(4, 2000), (10 + 4 + 3) * 1e-3)
        # 16 in 4 nodes: 4 steps of 50 µs more, 3/4 of twice 500 bytes at 0.5 GB/s.
        self.assertAlmostEqual(self.exchange.all_reduce(16, 2000), (10 + 4 + 200 + 3 + 1.5) * 1e-3)

    def test_peer_writes(self):
        self.assertAlmostEqual(self.exchange.peer_writes(4, 1_000_000), (1 + 3 * 10) * 1e-3)
        self.assertEqual(self.exchange.in_the_launch(4, 1000), self.exchange.peer_writes(4, 1000))
        self.assertEqual(self.exchange.in_the_launch(8, 1000), self.exchange.all_reduce(8, 1000))


class Efficiencies(unittest.TestCase):
    def test_strong_and_weak(self):
        line = model.Pass(floor=1.0, per_row=0.01)
        exchange = lambda gpus, size: 0.5 * size  # noqa: E731
        # t(900, 1) = 10; t(900, 3) = 1 + 3 + 1 = 5; t(2700, 3) = 1 + 9 + 1 = 11
        self.assertAlmostEqual(model.ms_of(line, exchange, 900, 3, 2), 5.0)
        self.assertAlmostEqual(model.efficiency(line, exchange, 900, 3, 2, weak=False), 10 / (3 * 5))
        self.assertAlmostEqual(model.efficiency(line, exchange, 900, 3, 2, weak=True), 10 / 11)

    def test_several_take_longer_than_one(self):
        line = model.Pass(floor=1.0, per_row=0.01, slower=0.5, joint=2.0)
        self.assertAlmostEqual(line.ms(900), 10.0)
        self.assertAlmostEqual(line.ms(900, 3), 1.5 * 4 + 2)
        self.assertAlmostEqual(model.ms_of(line, lambda gpus, size: 0.25, 900, 3, 2), 8.25)

    def test_how_much_longer_is_found_in_cells_of_two(self):
        line = model.Pass(floor=1.0, per_row=0.01)
        cells = [{"variant": "kmeans_nvlink", "n": 2 * rows, "d": 128, "k": 1024, "parts": parts, "of": "GPUs", "ms": ms}
                 for rows, parts, ms in ((100, 2, 2.2), (900, 2, 13.0), (900, 4, 99.0))]
        exchange = model.Exchange(FACTS)
        x = exchange.peer_writes(2, model.sums_bytes(128, 1024))
        misses = model.misses_of(cells, model.MANY, 128, 1024, exchange)
        self.assertEqual(misses, [(100, 2.2 - x), (900, 13.0 - x)])
        self.assertAlmostEqual(model.corrected(line, [(100, 2.2), (900, 13.0)], by_share=True).slower, 0.2)
        self.assertAlmostEqual(model.corrected(line, [(100, 2.2), (900, 13.0)], by_share=False).joint, 1.6)
        self.assertEqual(model.corrected(line, [(100, 9.0)], by_share=True), line)

    def test_bytes(self):
        self.assertEqual(model.sums_bytes(9, 16), 1280)
        self.assertEqual(model.sums_bytes(9, 16, a_value=16), 2560)


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def row(self, variant, n, parts, ms, d=128, k=1024, of="gpus", status="ok", day="2026-11-28"):
        return {"type": "cell", "variant": variant, "status": status, "precision": "f32", "threads": 2, of: parts,
                "ms_per_iteration": ms, "time": f"{day}T03:20:11Z", "problem": {"n": n, "d": d, "k": k, "hash": f"{n} {d} {k}"}}

    def ledger(self, *rows):
        path = self.folder / "ledger.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in ({"type": "header"}, *rows)))
        return path

    def test_cells_of_several_beside_their_predictions(self):
        rows = [self.row("kmeans_nccl", 1000, 1, 2.0), self.row("kmeans_nccl", 3000, 1, 4.0),  # 1 ms + 1 µs a row
                self.row("kmeans_nccl", 3000, 2, 9.0), self.row("kmeans_nccl", 3000, 2, 3.0),  # the newest counts
                self.row("kmeans_nccl", 1000, 2, 1.0, status="wrong"),
                self.row("kmeans_mpi", 1000, 1, 2.0, of="ranks"), self.row("kmeans_mpi", 3000, 1, 4.0, of="ranks"),
                self.row("kmeans_mpi", 3000, 4, 1.75, of="ranks")]
        gpus, ranks = model.compared(model.cells_of([self.ledger(*rows)]), model.Exchange(FACTS))
        size = 8 * 1024 * 129
        self.assertAlmostEqual(gpus["predicted"], 1.0 + 1.5 + (10 + size * 1e-3) * 1e-3)
        self.assertAlmostEqual(gpus["predicted_efficiency"], 4.0 / 2 / gpus["predicted"])
        self.assertAlmostEqual(gpus["efficiency"], 4.0 / (2 * 3.0))
        self.assertEqual((ranks["of"], ranks["parts"]), ("ranks", 4))
        self.assertAlmostEqual(ranks["predicted"], 1.0 + 0.75)  # no exchange
        self.assertAlmostEqual(ranks["efficiency"], 4.0 / (4 * 1.75))

    def test_a_pass_that_became_faster_is_not_mixed_with_what_it_was(self):
        rows = [self.row("kmeans_nccl", 1000, 1, 2.0), self.row("kmeans_cuda_wgmma", 3000, 1, 4.0),
                self.row("kmeans_nccl", 3000, 2, 3.0), self.row("kmeans_nccl", 5000, 2, 4.0, day="2026-11-29"),
                self.row("kmeans_mpi", 1000, 1, 2.0, of="ranks", day="2026-11-26"),
                *(self.row("kmeans_nvlink", n, parts, 50.0, day="2026-11-26") for n in (4000, 8000) for parts in (1, 2))]
        cells = model.cells_of([self.ledger(*rows)])
        self.assertEqual({(cell["variant"], cell["n"]) for cell in cells if cell["day"] == "2026-11-26"},
                         {("kmeans_mpi", 1000)})
        self.assertEqual(model.points_of(cells, model.MANY, 128, 1024), [(1000, 2.0), (3000, 4.0)])
        self.assertEqual({cell["n"] for cell in cells if cell["parts"] == 2}, {3000, 5000})  # a newer one stays

    def test_days_count_until_they_tell_a_slope(self):
        rows = [self.row("kmeans_nccl", 64000, 1, 65.0, day="2026-11-30"), self.row("kmeans_nccl", 1000, 1, 2.0),
                self.row("kmeans_nvlink", 64000, 1, 65.0), self.row("kmeans_nccl", 3000, 2, 3.0),
                self.row("kmeans_nccl", 9000, 1, 99.0, day="2026-11-26"), self.row("kmeans_nccl", 9000, 2, 50.0, day="2026-11-26")]
        cells = model.cells_of([self.ledger(*rows)])
        self.assertEqual(model.points_of(cells, model.MANY, 128, 1024), [(1000, 2.0), (64000, 65.0), (64000, 65.0)])
        self.assertEqual([cell["n"] for cell in cells if cell["parts"] == 2], [3000])

    def test_a_page_without_the_blocks_is_refused(self):
        page = self.folder / "page.md"
        page.write_text((SOURCE / "docs/scaling_model.md").read_text().replace("model limits begin", "model begin"))
        done = subprocess.run([sys.executable, SOURCE / "scripts/scaling_model.py", SOURCE / "results/exchange.json",
                               page, SOURCE / "results/reference"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no block <!-- model limits begin -->", done.stderr)


if __name__ == "__main__":
    unittest.main()
