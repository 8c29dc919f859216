"""A .cu file is compiled as C++20, and a variant in it is registered under the name of its file.

CMake 3.25 takes CMAKE_CUDA_STANDARD 20 and passes nothing to nvcc, so the flag is ours to give. The
control without the flag shows that the test can tell the difference. No GPU is needed: nothing is
launched.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("CLUSTERBENCH_SOURCE", pathlib.Path(__file__).parents[2]))
NVCC = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")

PROGRAM = """
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include <cstdio>

static_assert(__cplusplus >= 202002L, "not compiled as C++20");

__global__ void twice(int* value) {
  static_assert(__cplusplus >= 202002L, "device code is not compiled as C++20");
  *value *= 2;
}

const clusterbench::Registration registration({.name = "kmeans_trivial"}, {});

int main() {
  std::printf("%s", clusterbench::registered_variants().at(0).file.c_str());
}
"""


@unittest.skipUnless(NVCC, "nvcc is neither on PATH nor in /usr/local/cuda/bin")
class CudaCompiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name) / "kmeans_trivial.cu"
        self.program = pathlib.Path(folder.name) / "trivial"
        self.source.write_text(PROGRAM, encoding="utf-8")

    def compile(self, *flags):
        command = [NVCC, *flags, f"-I{SOURCE}", "-o", self.program, self.source]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_as_cxx20_and_registered_under_its_stem(self):
        compiled = self.compile("-std=c++20")
        self.assertEqual(compiled.returncode, 0, compiled.stdout + compiled.stderr)
        ran = subprocess.run([self.program], capture_output=True, text=True, check=True)
        self.assertEqual(pathlib.Path(ran.stdout).stem, "kmeans_trivial")

    def test_not_as_cxx17(self):
        self.assertNotEqual(self.compile("-std=c++17").returncode, 0)


if __name__ == "__main__":
    unittest.main()
