"""What goes wrong on a GPU is a row with a plain reason, and the next cell is unharmed: no memory on
the device, kernels that fault, trap or never end, a launch that is refused, a GPU that another process
fills or keeps busy, no device; and of several GPUs one rank that fails, one GPU that is full or busy, writes that
are forbidden."""

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

# Programs that have a context on a GPU, and say a word when they have done what they are for.
CONTEXT = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, device, memory = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
"""

HOLD = CONTEXT + """
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
size = free.value - (700 << 20)
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)) == 0
print("held", flush=True)
time.sleep(600)
"""


# One kernel after another, each on all multiprocessors for 20 ms.
SPIN = CONTEXT + '''
module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuModuleLoadData(ctypes.byref(module), b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin() {
  .reg .u64 %begin, %now, %since;
  .reg .pred %early;
  mov.u64 %begin, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %since, %now, %begin;
  setp.lt.u64 %early, %since, 20000000;
  @%early bra again;
  ret;
}
""") == 0
assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin") == 0
for i in range(1 << 30):
    assert cuda.cuLaunchKernel(kernel, 1024, 1, 1, 1024, 1, 1, 0, None, None, None) == 0
    if i % 2:
        assert cuda.cuCtxSynchronize() == 0
    if i == 1:
        print("spinning", flush=True)
'''


class OnGpu(Program):
    def setUp(self):
        super().setUp()
        smi = shutil.which("nvidia-smi")
        if smi is None or subprocess.run([smi, "-L"], capture_output=True, check=False).returncode != 0:
            self.skipTest("there is no NVIDIA GPU")
        if "kmeans_cuda_faulty_none" not in self.run_program("list", program=FAULTY).stdout:
            self.skipTest("built without CUDA")

    def beside(self, program, gpu, word):
        """A process that does something to a GPU until it is killed, and has begun."""
        process = subprocess.Popen([sys.executable, "-c", program, str(gpu)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), word + "\n")
        return process

    def fill(self, gpu):
        return self.beside(HOLD, gpu, "held")

    def rows(self, *arguments, exit_code, out="out", program=FAULTY):
        rows = self.campaign(*arguments, program=program, exit_code=exit_code, out=out)
        return {row["variant"]: row for row in rows}


class GpuFaults(OnGpu):
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
        holder = self.fill(0)
        rows = self.rows("--data", "uniform:20000000,16,7", "--k", "3", "--iterations", "2", "--precision", "f32",
                        "--variant", "kmeans_cuda_atomic", exit_code=5)
        self.assertEqual(rows["kmeans_cuda_atomic"]["status"], "out_of_memory")
        holder.kill()
        holder.wait()
        time.sleep(1)
        rows = self.rows(*DATA, "--variant", "kmeans_cuda_atomic", exit_code=0, out="after")
        self.assertEqual(rows["kmeans_cuda_atomic"]["status"], "ok")

    def test_a_gpu_that_another_process_keeps_busy(self):
        self.beside(SPIN, 0, "spinning")
        names = ["kmeans_cuda_atomic", "kmeans_cuda_wgmma", "kmeans_cuda_persistent"]
        rows = self.rows(*DATA, *(word for name in names for word in ("--variant", name)), exit_code=(0, 3, 6),
                         program=BINARY)
        for name in names:  # slow, and right
            self.assertEqual((rows[name]["status"], rows[name]["message"]), ("ok", ""), name)
        self.assertEqual(self.left_running(), [])

    def test_no_device(self):
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        rows = self.rows(*DATA, "--variant", "kmeans_cuda_atomic", "--variant", "kmeans_serial",
                        exit_code=(0, 5), program=BINARY)
        self.assertIn(rows["kmeans_cuda_atomic"]["status"], ("unavailable", "error"))
        self.assertRegex(rows["kmeans_cuda_atomic"]["message"], "(?i)device")
        self.assertEqual(rows["kmeans_serial"]["status"], "ok")


class SeveralGpus(OnGpu):
    """Of two GPUs. A rank whose other one has failed waits for 20 seconds."""

    def setUp(self):
        super().setUp()
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
        if listed.count("GPU ") < 2:
            self.skipTest("there are no two GPUs")
        if "kmeans_nvlink_faulty_none" not in self.run_program("list", program=FAULTY).stdout:
            self.skipTest("built without CUDA 9.0a")

    def row_of_fault(self, fault, exit_code=5):
        name = "kmeans_nvlink_faulty_" + fault
        row = self.rows(*DATA, "--gpus", "2", "--variant", name, "--timeout", "120", exit_code=exit_code, out=fault)[name]
        self.assertEqual(self.left_running(), [])
        return row

    def test_without_a_fault(self):
        row = self.row_of_fault("none", exit_code=(0, 3))
        self.assertEqual((row["status"], row["gpus"]), ("ok", 2), row["message"])
        self.assertEqual(row["chosen_path"].split("; ")[0], "2 ranks, sums written to peers")

    def test_a_rank_that_throws_is_named(self):
        row = self.row_of_fault("throws")
        self.assertEqual((row["status"], row["message"]), ("error", "rank 1 (GPU 1): a planted fault"))

    def test_a_rank_whose_kernel_traps_is_named(self):
        row = self.row_of_fault("traps")
        self.assertEqual(row["status"], "error")
        self.assertRegex(row["message"], r"^rank 1 \(GPU 1\): .*cudaError(LaunchFailure|IllegalInstruction)")

    def test_a_rank_that_never_comes_back_is_named(self):
        row = self.row_of_fault("never_ends")
        self.assertIn(row["status"], ("error", "crashed"))
        self.assertRegex(row["message"] + row.get("output_tail", ""), "after 20 seconds of waiting for rank 1")

    def test_a_gpu_of_two_that_another_process_fills(self):
        self.fill(1)
        row = self.rows("--data", "uniform:20000000,16,7", "--k", "3", "--iterations", "2", "--precision", "f32",
                        "--gpus", "2", "--variant", "kmeans_nvlink", exit_code=5, program=BINARY)["kmeans_nvlink"]
        self.assertEqual(row["status"], "out_of_memory")
        self.assertRegex(row["message"], "GPU 1")

    def test_a_gpu_of_two_that_another_process_keeps_busy(self):
        self.beside(SPIN, 1, "spinning")
        names = ["kmeans_nvlink", "kmeans_nvlink_persistent", "kmeans_nccl"]
        rows = self.rows(*DATA, "--gpus", "2", *(word for name in names for word in ("--variant", name)),
                         exit_code=(0, 3, 6), program=BINARY)
        for name in names:  # the other GPU waits, and all are right
            if "NCCL is needed" not in rows[name]["message"]:
                self.assertEqual((rows[name]["status"], rows[name]["message"]), ("ok", ""), name)
        self.assertEqual(self.left_running(), [])

    def test_forbidden_writes_to_peers_are_said(self):
        self.environment["CLUSTERBENCH_NO_PEER_WRITES"] = "1"
        name = "kmeans_nvlink"
        row = self.rows(*DATA, "--gpus", "2", "--variant", name, exit_code=(0, 3), program=BINARY)[name]
        self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertRegex(row["chosen_path"], "^2 ranks, sums copied by the host")


if __name__ == "__main__":
    unittest.main()
