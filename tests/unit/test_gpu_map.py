"""What scripts/gpu_map.py says of the cells of the map for GPUs."""

import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "scripts"))

import gpu_map  # noqa: E402

GPU = {"compare_f32_gpairs": 1000.0, "compare_f16_gpairs": 2000.0, "graph_node_us": 1.0, "grid_barrier_us": 2.0}


def cell(variant, problem, ms, whole_ms, **other):
    return {"variant": variant, "problem": problem, "precision": "f32", "status": "ok", "n": 1000000,
            "ms_per_iteration": ms, "whole_ms": whole_ms, "limit_ms_per_iteration": 0.1, "limit": "read bandwidth",
            "chosen_path": "kmeans_cuda_packed: a path", **other}


class GpuMap(unittest.TestCase):
    def setUp(self):
        self.ours = [cell(gpu_map.OURS, "1M x 8, k=4", 1.0, 10.0), cell(gpu_map.OURS, "1M x 8, k=64", 2.0, 20.0),
                     cell(gpu_map.OURS, "1M x 8, k=256", 4.0, 40.0)]

    def test_leads_are_those_of_shapes_that_both_have(self):
        peer = [cell(gpu_map.PEER, "1M x 8, k=64", 6.0, 30.0), cell(gpu_map.PEER, "1M x 8, k=4", 5.0, 70.0)]
        cells = self.ours + peer
        self.assertEqual(gpu_map.leads(cells, "ms_per_iteration"), [(3.0, "1M x 8, k=64"), (5.0, "1M x 8, k=4")])
        text = " ".join(gpu_map.beside_peer(cells).split())
        self.assertIn("has 2 of these shapes", text)
        self.assertIn("is never behind: an iteration is 3.0 (1M x 8, k=64) to 5 times as fast, 4 in the median", text)
        self.assertIn("the whole answer 1.5 (1M x 8, k=64) to 7 times", text)

    def test_says_where_the_peer_is_ahead(self):
        cells = [*self.ours, cell(gpu_map.PEER, "1M x 8, k=4", 0.5, 70.0)]
        self.assertIn("is behind in 1 of 2 comparisons", " ".join(gpu_map.beside_peer(cells).split()))

    def test_wrong_cells_and_other_precisions_do_not_count(self):
        for other in ({"status": "wrong"}, {"precision": "f64"}):
            cells = [*self.ours, cell(gpu_map.PEER, "1M x 8, k=4", 0.5, 70.0, **other)]
            self.assertEqual(gpu_map.beside_peer(cells), f"{gpu_map.PEER} has none of these shapes.")

    def test_the_farthest_come_first_beside_the_longest_bound(self):
        found = gpu_map.farthest([*self.ours, cell(gpu_map.OURS, "1M x 8, k=256", 3.0, 40.0)], GPU)
        self.assertEqual([(each[2]["problem"], each[2]["ms_per_iteration"]) for each in found],
                         [("1M x 8, k=256", 3.0), ("1M x 8, k=64", 2.0), ("1M x 8, k=4", 1.0)])
        times, (limit_ms, limit), _ = found[0]
        self.assertEqual(limit, "comparison rate")  # 1e6 x 255 pairs at 2000 a ns
        self.assertAlmostEqual(limit_ms, 0.1275)
        self.assertAlmostEqual(times, 3.0 / 0.1375)


if __name__ == "__main__":
    unittest.main()
