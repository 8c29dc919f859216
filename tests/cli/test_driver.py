"""Drivers that are too old for the build's toolkit, or do not start: a row with a plain reason, and the
cells of the CPU unharmed. A stand-in takes the driver's place, so no GPU is needed."""

import json
import os
import pathlib
import re
import unittest

import program

STAND_IN = os.environ["CLUSTERBENCH_STAND_IN_DRIVER"]
HAS_CUDA = (pathlib.Path(program.BINARY).parent / "plugins" / "device.so").exists()
PROBLEM = ["--data", "uniform:200,2,1", "--k", "2", "--iterations", "2"]
BOTH = ["--variant", "kmeans_serial", "--variant", "kmeans_cuda_atomic"]
NEW = "99000"  # a driver that is new enough for every toolkit


@unittest.skipUnless(HAS_CUDA, "the build has no CUDA")
class Driver(program.Program):
    def driver(self, cuda, start=0):
        self.environment.update(LD_LIBRARY_PATH=STAND_IN, STAND_IN_CUDA=str(cuda), STAND_IN_START=str(start))
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)

    def rows(self, *arguments, exit_code=0):
        cells = self.campaign(*PROBLEM, *arguments, exit_code=exit_code)
        return {cell["variant"]: (cell["status"], cell["message"]) for cell in cells}

    def assert_unavailable(self, *said):
        rows = self.rows(*BOTH)
        self.assertEqual(rows["kmeans_serial"], ("ok", ""))
        status, message = rows["kmeans_cuda_atomic"]
        self.assertEqual(status, "unavailable")
        for words in said:
            self.assertIn(words, message)
        self.assertEqual(self.left_running(), [])

    TOO_OLD = ("the NVIDIA driver 123.45 is too old for this build: it supports CUDA up to 9.2, and the build "
               "was made with CUDA ")

    def test_too_old(self):
        self.driver(9020)
        self.assert_unavailable(self.TOO_OLD)

    def test_hidden_gpus_are_none(self):
        self.driver(NEW)
        self.environment["STAND_IN_GPUS"] = "3"
        for visible, count in (("1", 1), ("2,0", 2), ("1,9,0", 1)):
            self.environment["CUDA_VISIBLE_DEVICES"] = visible
            done = self.run_program("run", *PROBLEM, "--gpus", count + 1, "--variant", "kmeans_serial",
                                    "--no-probe", "--out", "out", exit_code=64)
            self.assertIn(f"--gpus {count + 1}: this machine has {count} that CUDA_VISIBLE_DEVICES shows",
                          done.stderr)
        header = self.run_and_read_header("2,0")
        self.assertEqual([gpu["index"] for gpu in header["provenance"]["gpu"]["devices"]], [2, 0])

    def run_and_read_header(self, visible):
        self.environment["CUDA_VISIBLE_DEVICES"] = visible
        self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *program.QUICK, "--out", "out")
        return program.ledger(self.folder / "out")[0][0]

    def test_too_old_on_the_terminal(self):
        """Once for all variants, and after the table, which does not name the reason."""
        self.driver(9020)
        done = self.run_program("run", *PROBLEM, *BOTH, "--variant", "kmeans_cuda_soa", *program.QUICK,
                                "--out", "out")
        said = " ".join(done.stdout.split())
        self.assertEqual(said.count(self.TOO_OLD), 1)
        self.assertRegex(said, "cannot run here: kmeans_cuda_[a-z]+ and 1 more: the NVIDIA driver")

    def test_too_old_in_lists(self):
        self.driver(9020)
        known = json.loads(self.run_program("list", "--json").stdout)["variants"]
        unavailable = {variant["name"]: variant["unavailable"] for variant in known}
        self.assertIn(self.TOO_OLD, unavailable["kmeans_cuda_atomic"])
        self.assertEqual(unavailable["kmeans_serial"], "")

    def test_a_reason_is_listed_once(self):
        self.driver(9020)
        text = self.run_program("list").stdout
        said = " ".join(text.split())
        self.assertEqual(said.count(self.TOO_OLD), 1)
        mark = re.search(rf"(\d+) {re.escape(self.TOO_OLD)}", said.split(" Not here ")[1])[1]
        self.assertRegex(text, rf"\n  kmeans_cuda_atomic +cuda +\[not here: {mark}\] ")
        self.assertRegex(text, r"\n  kmeans_serial +serial +[^\[]")

    def test_nothing_but_the_gpu(self):
        self.driver(9020)
        self.rows("--variant", "kmeans_cuda_atomic", exit_code=6)

    def test_no_device(self):
        self.driver(NEW, 100)
        self.assert_unavailable("CUDA does not start: it finds no GPU that it can use (cudaErrorNoDevice; the driver "
                                "supports CUDA 99.0, the build has CUDA ")

    def test_library_of_another_driver(self):
        self.driver(NEW, 803)
        self.assert_unavailable("libcuda.so.1 is not of the driver that the kernel has loaded",
                                "cudaErrorSystemDriverMismatch")

    def test_not_ready(self):
        self.driver(NEW, 802)
        self.assert_unavailable("fabric manager", "cudaErrorSystemNotReady")

    def test_unknown(self):
        self.driver(NEW, 999)
        self.assert_unavailable("the driver does not say why", "nvidia_uvm", "cudaErrorUnknown")

    def test_probe_keeps_the_rates_of_the_processor(self):
        for driver, exit_code, reason in (((9020,), 0, "too old"), ((NEW, 999), 5, "CUDA does not start")):
            self.driver(*driver)
            done = self.run_program("probe", "--quick", "--json", "--threads", "1", exit_code=exit_code)
            limits = json.loads(done.stdout)
            self.assertGreater(limits["cpu"][0]["read_gbs"], 0)
            self.assertIsNone(limits["gpu"])
            self.assertIn(reason, limits["gpu_missing"])


if __name__ == "__main__":
    unittest.main()
