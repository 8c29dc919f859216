"""A file of kernels for one instruction set defines nothing but its own kernels: of a function that
several files emit the linker keeps one copy, perhaps the one that a machine cannot execute."""

import os
import re
import subprocess
import unittest

OBJECTS = os.environ["CLUSTERBENCH_SIMD_OBJECTS"].split(";")
BYTES = {"portable": 16, "avx2": 32, "avx512": 64}  # of the vectors that make the symbols theirs


def foreign(symbols, isa):
    """Those that do not carry the vector type of the instruction set, nor its name."""
    own = re.compile(rf"clusterbench::simd::(Vec<(float|double), {BYTES[isa]}ul?>|.*\b{isa}_kernels<)")
    return [symbol for symbol in symbols if not own.search(symbol)]


def defined(path):
    """Demangled names of what an object file defines for other files to link against."""
    listing = subprocess.run(["nm", "--extern-only", "--defined-only", "--format=posix", path],
                             check=True, capture_output=True, text=True).stdout
    names = [line.split()[0].removeprefix("__odr_asan.").removeprefix("__odr_asan_gen_")
             for line in listing.splitlines()]
    return subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True,
                          text=True).stdout.splitlines()


class EveryInstructionSet(unittest.TestCase):

    def test_only_own_symbols(self):
        for isa in BYTES:
            found = [path for path in OBJECTS if f"kernels_{isa}.cpp" in path]
            if isa == "portable":
                self.assertEqual(len(found), 1, OBJECTS)
            for path in found:
                with self.subTest(isa=isa):
                    symbols = defined(path)
                    self.assertGreater(len(symbols), 20, "nm found too little to judge by")
                    self.assertEqual(foreign(symbols, isa), [])

    def test_pairs_define_one_function_each(self):
        for isa, name in (("bf16", "sieve_pairs_avx512"), ("amx", "sieve_pairs_amx"),
                          ("vnni", "sieve_shorts_avx512")):
            for path in [path for path in OBJECTS if f"kernels_{isa}.cpp" in path]:
                own = re.compile(rf"clusterbench::simd::({name}\(|Vec<float, 64ul?>)")
                self.assertEqual([symbol for symbol in defined(path) if not own.match(symbol)], [])

    def test_a_leak_is_seen(self):
        leaks = ["float const& std::min<float>(float const&, float const&)",
                 "unsigned long clusterbench::simd::padded<float>(unsigned long)",
                 "void clusterbench::simd::collect_sums<clusterbench::simd::Vec<float, 32ul> >(int)"]
        own = ["void clusterbench::simd::collect_sums<clusterbench::simd::Vec<float, 64ul> >(int)",
               "clusterbench::simd::Kernels<float> const* clusterbench::simd::avx512_kernels<float>()"]
        self.assertEqual(foreign(leaks + own, "avx512"), leaks)


if __name__ == "__main__":
    unittest.main()
