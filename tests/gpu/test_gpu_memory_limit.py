"""--device-memory on a GPU: what is left is what was allowed, variants that need more say so, and one whose
points stay in host memory gives the same answer as without a limit."""

import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

from program import Program  # noqa: E402

NAME = "kmeans_cuda_out_of_core"
MIB = 1 << 20
# 256 MiB in float32, half of it as a half-precision copy.
DATA = ["--data", "uniform:524288,128,7", "--k", "50", "--iterations", "3", "--precision", "f32", "--starts", "5"]


class DeviceMemory(Program):
    def setUp(self):
        super().setUp()
        smi = shutil.which("nvidia-smi")
        if smi is None or subprocess.run([smi, "-L"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no NVIDIA GPU")
        if NAME not in self.run_program("list").stdout:
            self.skipTest("built without CUDA")

    def row(self, variant, out, *arguments):
        row, = self.campaign(*DATA, "--variant", variant, "--save", f"{out}-answers", *arguments,
                             exit_code=(0, 3, 5, 6), out=out)
        return row

    def labels(self, out):
        return next((self.folder / f"{out}-answers").glob("*.labels.npy")).read_bytes()

    def test_the_same_answer_within_the_limit(self):
        whole, limited = self.row(NAME, "whole"), self.row(NAME, "limited", "--device-memory", "224M")
        for row in (whole, limited):
            self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertNotIn("device_memory", whole)
        self.assertEqual(limited["device_memory"]["limit_bytes"], 224 * MIB)
        self.assertLessEqual(limited["device_memory"]["peak_bytes"], 224 * MIB)
        self.assertGreater(limited["device_memory"]["peak_bytes"], 128 * MIB)
        self.assertRegex(limited["chosen_path"], "^a copy of half the size")
        self.assertEqual(self.labels("whole"), self.labels("limited"))

    def test_less_than_half_of_the_points(self):
        row = self.row(NAME, "streamed", "--device-memory", "128M")
        self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertRegex(row["chosen_path"], "^all rows in every pass")

    def test_points_that_need_more(self):
        row = self.row("kmeans_cuda_wgmma", "refused", "--device-memory", "224M")
        self.assertEqual(row["status"], "refused")
        self.assertEqual(row["message"], "the points need 256 MiB of device memory, --device-memory allows 224 MiB "
                                         "for everything: only variants that leave them in host memory take them")

    # Points alone would fit; with labels, centroids and lists they do not.
    def test_the_limit_holds(self):
        row = self.row("kmeans_cuda_wgmma", "full", "--device-memory", "260M")
        self.assertEqual(row["status"], "out_of_memory")
        self.assertIn("cudaErrorMemoryAllocation", row["message"])


if __name__ == "__main__":
    unittest.main()
