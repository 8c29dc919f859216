"""What scripts/reference_run.sh runs, with which options, and how it ends: with a program that only notes how
it was called, and a stand-in for nvidia-smi."""

import json
import os
import subprocess
import unittest

from program import PATIENCE, SOURCE, Program

NOTES = """#!/bin/sh
echo "$@" >> "$CALLS"
for each in $FAILING; do
  case " $* " in *" ${each%%:*} "*) exit "${each##*:}" ;; esac
done
"""
ARTICLES = sorted(path.stem for path in (SOURCE / "results" / "tables").glob("article*.json"))
STUDIES = ["scaling", "bounds", "cpu_map", "large_k", "large_k_gpu", "gpu_shapes", "gpu_borders",
           "gpu_map", "gpu_fcm"]


class ReferenceRun(Program):
    def setUp(self):
        super().setUp()
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        self.write("clusterbench", NOTES)

    def write(self, name, text):
        (self.tools / name).write_text(text)
        (self.tools / name).chmod(0o755)

    def reference_run(self, *options, device=True, failing="", exit_code=0):
        """The lines that the program was called with."""
        self.write("nvidia-smi", f"#!/bin/sh\nexit {0 if device else 1}\n")
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        done = subprocess.run(
            [SOURCE / "scripts" / "reference_run.sh", *options], cwd=self.folder, timeout=PATIENCE,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env=dict(self.environment, PATH=f"{self.tools}:{os.environ['PATH']}", ROUNDS="1",
                     CLUSTERBENCH=str(self.tools / "clusterbench"), CALLS=str(calls),
                     FAILING=failing))
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return calls.read_text().splitlines() if calls.exists() else done.stderr.splitlines()

    def studies(self, calls):
        return [words[1] for words in map(str.split, calls) if words[0] == "run"][1:]

    def test_everything(self):
        calls = self.reference_run("out")
        self.assertEqual(calls[0], f"run {' '.join(ARTICLES)} --out {self.folder}/out --resume")
        studies = self.studies(calls)
        self.assertEqual(studies[:11], [*STUDIES, "cpu_shapes", "cpu_shapes"])
        self.assertEqual(set(studies[11:]), {"threads"})
        for call in calls:
            words = call.split()
            self.assertIn("--resume", words)
            out = words[words.index("--out") + 1]
            self.assertTrue(out.startswith(f"{self.folder}/out"), call)
            if words[0] == "run" and words[1] in STUDIES:
                self.assertEqual(out, f"{self.folder}/out/{words[1]}")
        self.assertEqual([call.split()[0] for call in calls].count("quality"), 1)

    def test_without_a_device(self):
        self.assertEqual(self.studies(self.reference_run("out", device=False))[:5],
                         ["scaling", "bounds", "cpu_map", "large_k", "cpu_shapes"])

    def test_only_studies_with_rows_of_the_variants(self):
        for pattern in ("kmeans_simd_amx", "*cuda_wgmma", "kmeans_openmp*", "fcm_*"):
            with self.subTest(pattern):
                calls = self.reference_run("out", "--variant", pattern)
                for call in calls:
                    self.assertIn(f"--variant {pattern} ", call)
                self.assertEqual(self.studies(calls), [name for name in STUDIES if any(
                    self.fits(row["variant"], pattern) for row in json.loads(
                        (SOURCE / "results" / "tables" / f"{name}.json").read_text())["rows"])])

    def fits(self, name, pattern):
        if pattern.startswith("*"):
            return name.endswith(pattern[1:])
        return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern

    def test_two_patterns(self):
        calls = self.reference_run("out", "--variant", "kmeans_simd_amx", "--variant", "*certified")
        self.assertEqual(self.studies(calls), ["large_k", "large_k_gpu", "gpu_shapes"])

    def test_the_gravest_failure_is_the_exit_code_and_ends_nothing(self):
        whole = self.reference_run("out")
        for failing, code in (("bounds:4", 4), ("bounds:5 large_k:2", 2), ("bounds:2 threads:5", 2)):
            self.assertEqual(self.reference_run("out", failing=failing, exit_code=code), whole)

    def test_an_interruption_ends_it(self):
        calls = self.reference_run("out", failing="bounds:130", exit_code=130)
        self.assertEqual(self.studies(calls), ["scaling", "bounds"])
        calls = self.reference_run("out", failing="quality:130", exit_code=130)
        self.assertTrue(calls[-1].startswith("quality "))

    def test_usage(self):
        self.assertIn("reference_run.sh OUT", "\n".join(self.reference_run(exit_code=64)))


if __name__ == "__main__":
    unittest.main()
