"""Efficiency of several ranks or GPUs in tables: exact figures of made-up ledgers, or why there is none."""

import json
import re
import unittest

import jsonschema

import ledgers
from program import SOURCE, Program

SCHEMA = json.loads((SOURCE / "results" / "table.schema.json").read_text())
SAMPLES = (0.998, 0.999, 1.0, 1.0, 1.0, 1.001, 1.002)  # times the time of a run; the median is 1
ALL = [("strong", "itself"), ("strong", "fastest"), ("weak", "itself"), ("weak", "fastest")]


class Efficiency(Program):
    def words(self, table, name):
        definition = json.loads((SOURCE / f"results/tables/{table}.json").read_text())
        words = next(each for each in definition["problems"] if each["id"] == name)
        rows, features = re.match(r"mixture:(\d+),(\d+)", words["data"]).groups()
        return ledgers.problem(words, n=int(rows), d=int(features))

    def row(self, table, name, variant, ms, **changes):
        several = max(changes.get("ranks", 1), changes.get("gpus", 1)) > 1  # or pairs would all be alike
        samples = [ms * sample for sample in (reversed(SAMPLES) if several else SAMPLES)]
        return ledgers.row(variant, samples, table=table, words=self.words(table, name),
                           passes=changes.pop("passes", 5), **changes)

    def gpus(self, name, variant, ms, gpus, **changes):
        device = "multi_gpu" if variant in ("kmeans_nccl", "kmeans_nvlink", "fcm_nccl") else "gpu"
        return self.row("several_gpus", name, variant, ms, device=device, gpus=gpus,
                        passes=20 if "x9" in name else 10, **changes)

    def ranks(self, name, variant, ms, threads, ranks=None, **changes):
        more = {"device": "mpi", "ranks": ranks} if ranks else {"device": "cpu"}
        return self.row("ranks", name, variant, ms, threads=threads, **more, **changes)

    def efficiencies(self, table, *rows, headers=None):
        """(variant, problem) -> (scaling, on one) -> what the cell of several says."""
        lines = [ledgers.header(), *rows] if headers is None else headers
        ledger = ledgers.write(self.folder / "made", lines)
        report = json.loads(self.run_program("table", table, "--from", ledger, "--json").stdout)
        jsonschema.validate(report, SCHEMA)
        return {(cell["variant"], cell["problem"]):
                {(each["scaling"], each["on_one"]): each for each in cell["efficiency"]}
                for cell in report["cells"] if "efficiency" in cell}

    def assert_is(self, found, ratio, problem, variant, threads=2):
        self.assertAlmostEqual(found["ratio"], ratio, places=12)
        self.assertEqual((found["base_problem"], found["base_variant"], found["base_threads"]),
                         (problem, variant, threads))
        low, high = found["interval"]
        self.assertTrue(0.99 * ratio < low < ratio < high < 1.01 * ratio, found)
        self.assertFalse(found["interval_is_range"])

    def test_of_gpus(self):
        found = self.efficiencies(
            "several_gpus",
            self.gpus("2Mx128, k=1024", "kmeans_nccl", 10.0, 2), self.gpus("2Mx128, k=1024", "kmeans_nccl", 16.0, 1),
            self.gpus("2Mx128, k=1024", "kmeans_cuda_wgmma", 15.0, 1),
            self.gpus("1Mx128, k=1024", "kmeans_nccl", 9.0, 1),
            self.gpus("1Mx128, k=1024", "kmeans_cuda_wgmma", 8.0, 1),
            self.gpus("1Mx128, k=1024", "kmeans_cuda_auto", 7.0, 1))
        self.assertEqual(list(found), [("kmeans_nccl", "2Mx128, k=1024")])
        of = found["kmeans_nccl", "2Mx128, k=1024"]
        self.assertEqual(list(of), ALL)
        self.assert_is(of["strong", "itself"], 16 / (2 * 10), "2Mx128, k=1024", "kmeans_nccl")
        self.assert_is(of["strong", "fastest"], 15 / (2 * 10), "2Mx128, k=1024", "kmeans_cuda_wgmma")
        self.assert_is(of["weak", "itself"], 9 / 10, "1Mx128, k=1024", "kmeans_nccl")
        self.assert_is(of["weak", "fastest"], 7 / 10, "1Mx128, k=1024", "kmeans_cuda_auto")

    def test_of_fuzzy_c_means(self):
        found = self.efficiencies(
            "several_gpus",
            self.gpus("fcm 8Mx32, k=8", "fcm_nccl", 10.0, 2), self.gpus("fcm 8Mx32, k=8", "fcm_nccl", 16.0, 1),
            self.gpus("fcm 8Mx32, k=8", "fcm_cuda_fused", 15.0, 1),
            self.gpus("fcm 4Mx32, k=8", "fcm_nccl", 9.0, 1), self.gpus("fcm 4Mx32, k=8", "fcm_cuda_fused", 8.0, 1),
            self.gpus("1Mx9, k=16", "kmeans_cuda_auto", 1.0, 1))  # of another family
        self.assertEqual(list(found), [("fcm_nccl", "fcm 8Mx32, k=8")])
        of = found["fcm_nccl", "fcm 8Mx32, k=8"]
        self.assert_is(of["strong", "itself"], 16 / (2 * 10), "fcm 8Mx32, k=8", "fcm_nccl")
        self.assert_is(of["strong", "fastest"], 15 / (2 * 10), "fcm 8Mx32, k=8", "fcm_cuda_fused")
        self.assert_is(of["weak", "itself"], 9 / 10, "fcm 4Mx32, k=8", "fcm_nccl")
        self.assert_is(of["weak", "fastest"], 8 / 10, "fcm 4Mx32, k=8", "fcm_cuda_fused")

    def test_of_four_gpus_is_of_four(self):
        found = self.efficiencies(
            "several_gpus", self.gpus("4Mx9, k=16", "kmeans_nvlink", 5.0, 4),
            self.gpus("4Mx9, k=16", "kmeans_nvlink", 9.0, 2), self.gpus("4Mx9, k=16", "kmeans_nvlink", 16.0, 1),
            self.gpus("1Mx9, k=16", "kmeans_nvlink", 4.5, 1), self.gpus("2Mx9, k=16", "kmeans_nvlink", 8.0, 1))
        of = found["kmeans_nvlink", "4Mx9, k=16"]  # the last of its name: of two
        self.assert_is(of["weak", "itself"], 8 / 9, "2Mx9, k=16", "kmeans_nvlink")
        found = self.efficiencies(
            "several_gpus", self.gpus("4Mx9, k=16", "kmeans_nvlink", 5.0, 4),
            self.gpus("4Mx9, k=16", "kmeans_nvlink", 16.0, 1), self.gpus("1Mx9, k=16", "kmeans_nvlink", 4.5, 1))
        of = found["kmeans_nvlink", "4Mx9, k=16"]
        self.assert_is(of["strong", "itself"], 16 / (4 * 5), "4Mx9, k=16", "kmeans_nvlink")
        self.assert_is(of["weak", "itself"], 4.5 / 5, "1Mx9, k=16", "kmeans_nvlink")

    def test_of_ranks_beside_one_process_with_the_same_threads(self):
        found = self.efficiencies(
            "ranks",
            self.ranks("1Mx16, k=32", "kmeans_mpi", 12.0, 2, ranks=2),
            self.ranks("1Mx16, k=32", "kmeans_mpi", 18.0, 1, ranks=1),
            self.ranks("1Mx16, k=32", "kmeans_mpi", 1.0, 2, ranks=1, status="wrong"),  # of two threads
            self.ranks("1Mx16, k=32", "kmeans_simd", 9.0, 2), self.ranks("1Mx16, k=32", "kmeans_simd", 1.0, 1),
            self.ranks("500kx16, k=32", "kmeans_mpi", 9.0, 1, ranks=1),
            self.ranks("500kx16, k=32", "kmeans_simd", 6.0, 1), self.ranks("500kx16, k=32", "kmeans_simd", 3.0, 2))
        of = found["kmeans_mpi", "1Mx16, k=32"]
        self.assert_is(of["strong", "itself"], 18 / (2 * 12), "1Mx16, k=32", "kmeans_mpi", threads=1)
        self.assert_is(of["strong", "fastest"], 9 / 12, "1Mx16, k=32", "kmeans_simd", threads=2)
        self.assert_is(of["weak", "itself"], 9 / 12, "500kx16, k=32", "kmeans_mpi", threads=1)
        self.assert_is(of["weak", "fastest"], 6 / 12, "500kx16, k=32", "kmeans_simd", threads=1)

    def test_says_why_there_is_none(self):
        two = self.gpus("2Mx128, k=1024", "kmeans_nccl", 10.0, 2)

        def reasons(*rows):
            found = self.efficiencies("several_gpus", *rows)["kmeans_nccl", "2Mx128, k=1024"]
            return [found[key].get("why_not") for key in ALL]

        self.assertEqual(reasons(two), [
            "not run on one GPU", "nothing ran on one GPU",
            "not run on one GPU with 1/2 of the rows", "nothing ran on one GPU with 1/2 of the rows"])
        self.assertEqual(reasons(two, self.gpus("2Mx128, k=1024", "kmeans_nccl", 1.0, 1, status="wrong"))[:2],
                         ["one GPU is not ranked", "nothing ran on one GPU"])
        self.assertEqual(reasons(self.gpus("2Mx128, k=1024", "kmeans_nccl", 1.0, 2, status="wrong"),
                                 self.gpus("2Mx128, k=1024", "kmeans_nccl", 1.0, 1)),
                         4 * ["not ranked itself"])
        found = self.efficiencies("ranks", self.ranks("1Mx16, k=32", "kmeans_mpi", 12.0, 4, ranks=2),
                                  self.ranks("1Mx16, k=32", "kmeans_mpi", 18.0, 1, ranks=1),
                                  self.ranks("1Mx16, k=32", "kmeans_simd", 18.0, 2))
        self.assertEqual([found["kmeans_mpi", "1Mx16, k=32"][key].get("why_not") for key in ALL],
                         ["not run on one rank of 2 threads", "nothing ran on one process of 4 threads",
                          "not run on one rank of 2 threads with 1/2 of the rows",
                          "nothing ran on one process of 2 threads with 1/2 of the rows"])

    def test_other_work_and_other_machines_are_no_base(self):
        words = self.words("several_gpus", "1Mx128, k=1024")
        for name, wrong in (("k", {"k": 512}), ("init", {"init": "kmeans++:1"}),
                            ("data", {"data": "mixture:1048576,128,2000,0.7,7"})):
            row = self.gpus("1Mx128, k=1024", "kmeans_nccl", 9.0, 1) | {"problem": words | wrong}
            with self.subTest(name):
                found = self.efficiencies("several_gpus", self.gpus("2Mx128, k=1024", "kmeans_nccl", 10.0, 2), row)
                self.assertIn("why_not", found["kmeans_nccl", "2Mx128, k=1024"]["weak", "itself"])
        found = self.efficiencies("several_gpus", headers=[
            ledgers.header(gpus=["NVIDIA H200"] * 2), self.gpus("2Mx128, k=1024", "kmeans_nccl", 10.0, 2),
            ledgers.header(gpus=["NVIDIA H200"]), self.gpus("2Mx128, k=1024", "kmeans_nccl", 16.0, 1)])
        self.assertIn("why_not", found["kmeans_nccl", "2Mx128, k=1024"]["strong", "itself"])

    def test_tables_print_it(self):
        rows = [self.gpus("2Mx128, k=1024", "kmeans_nccl", ms, gpus) for ms, gpus in ((10.0, 2), (16.0, 1))]
        ledger = ledgers.write(self.folder / "made", [ledgers.header(), *rows])
        text = self.run_program("table", "several_gpus", "--from", ledger).stdout
        self.assertRegex(text, r"\n +1 +1 +kmeans_nccl +2 GPUs +1\.0")
        self.assertRegex(text, r"kmeans_nccl +2 GPUs +strong +itself +0\.800 \[0\.7\d+, 0\.8\d+\]\n")
        self.assertIn("kmeans_nccl, 2 GPUs, weak, beside itself: not run on one GPU with 1/2 of the rows\n", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        for form in ("--wide", "--markdown"):
            text = self.run_program("table", "several_gpus", "--from", ledger, form).stdout
            self.assertRegex(text, r"2Mx128, k=1024 f32[ |]+kmeans_nccl[ |]+2 GPUs[ |]+strong[ |]+itself[ |]+0\.800 ")
            self.assertIn("not run on one GPU with 1/2 of the rows", text)
        ledgers.write(self.folder / "made", [ledgers.header(), rows[1]])
        self.assertNotIn("fficiency", self.run_program("table", "several_gpus", "--from", ledger).stdout)


if __name__ == "__main__":
    unittest.main()
