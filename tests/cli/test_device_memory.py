"""--device-memory: how a limit is written, and what is said where there is no GPU to hold to it. What it does
on one is in tests/gpu/test_gpu_memory_limit.py."""

import shutil
import unittest

from program import QUICK, Program

PROBLEM = ["--data", "uniform:500,3,1", "--k", 2, "--iterations", 1, "--variant", "kmeans_serial", *QUICK]


class DeviceMemory(Program):
    def refused(self, limit):
        done = self.run_program("run", *PROBLEM, "--device-memory", limit, "--out", "out", exit_code=64)
        self.assertFalse((self.folder / "out").exists())
        return done.stderr

    def test_bad_limits(self):
        for limit in ("lots", "12T", "-1G", "99999999999999999G", "1.5G"):
            with self.subTest(limit):
                self.assertIn(f"--device-memory {limit}: a whole number followed by K, M or G is needed",
                              self.refused(limit))
        self.assertIn("--device-memory 1M: at least 128M is needed", self.refused("1M"))

    @unittest.skipIf(shutil.which("nvidia-smi"), "this machine may have a GPU")
    def test_no_gpu(self):
        self.assertIn("--device-memory 2G: this machine has no GPU", self.refused("2G"))


if __name__ == "__main__":
    unittest.main()
