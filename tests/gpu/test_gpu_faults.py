"""What goes wrong on a GPU is a row with a plain reason, and the next cell is unharmed: no memory on
the device, kernels that fault, trap or never end, a launch that is refused, a GPU that another process
fills, no device."""

import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

from program import BINARY, FAULTY, Program  # noqa: E402

DATA = ["--data", "uniform:3000,3,7", "--k", "3", "--iterations", "3", "--precision", "f32"]

FAULTS = {
    "none": ("ok", ""),
    "asks_for_too_much": ("out_of_memory", "cudaErrorMemoryAllocation"),
    "writes_to_nothing": ("error", "cudaErrorIllegalAddress"),
    "traps": ("error", "cudaErrorLaunchFailure|cudaErrorIllegalInstruction"),
    "never_ends": ("timed_out", "killed after"),
    "launches_nothing": ("wrong", ""),
}

HOLD = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, device, memory = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
size = free.value - (700 << 20)
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)) == 0
print("held", flush=True)
time.sleep(600)
"""


class GpuFaults(Program):
    def setUp(self):
        super().setUp()
        smi = shutil.which("nvidia-smi")
        if smi is None or subprocess.run([smi, "-L"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no NVIDIA GPU")
        if "kmeans_cuda_faulty_none" not in self.run_program("list", program=FAULTY).stdout:
            self.skipTest("built without CUDA")

    def rows(self, *arguments, exit_code, out="out", program=FAULTY):
        rows = self.campaign(*arguments, program=program, exit_code=exit_code, out=out)
        return {row["variant"]: row for row in rows}

    def test_faults_are_rows(self):
        rows = self.rows(*DATA, "--variant", "kmeans_cuda_faulty_*", "--variant", "kmeans_cuda_atomic",
                        "--timeout", "8", exit_code=2)
        for fault, (status, reason) in FAULTS.items():
            with self.subTest(fault):
                row = rows["kmeans_cuda_faulty_" + fault]
                self.assertEqual(row["status"], status, row.get("message"))
                if reason:
                    self.assertRegex(row["message"], reason)
        self.assertEqual(rows["kmeans_cuda_atomic"]["status"], "ok")
        self.assertEqual(self.left_running(), [])

    def test_a_gpu_that_another_process_fills(self):
        holder = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), "held\n")
        rows = self.rows("--data", "uniform:20000000,16,7", "--k", "3", "--iterations", "2", "--precision", "f32",
                        "--variant", "kmeans_cuda_atomic", exit_code=5)
        self.assertEqual(rows["kmeans_cuda_atomic"]["status"], "out_of_memory")
        holder.kill()
        holder.wait()
        time.sleep(1)
        rows = self.rows(*DATA, "--variant", "kmeans_cuda_atomic", exit_code=0, out="after")
        self.assertEqual(rows["kmeans_cuda_atomic"]["status"], "ok")

    def test_no_device(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        rows = self.rows(*DATA, "--variant", "kmeans_cuda_atomic", "--variant", "kmeans_serial",
                        exit_code=(0, 5), program=BINARY)
        self.assertIn(rows["kmeans_cuda_atomic"]["status"], ("unavailable", "error"))
        self.assertRegex(rows["kmeans_cuda_atomic"]["message"], "(?i)device")
        self.assertEqual(rows["kmeans_serial"]["status"], "ok")


if __name__ == "__main__":
    unittest.main()
