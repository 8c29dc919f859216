"""What scripts/count_gpu.py makes of what Nsight Compute prints, by a stand-in for it, and of counters on a page."""

import json
import os
import subprocess
import unittest

from program import SOURCE, Program

# Four launches: two of a qualification, two of the cell; FAILING as it looks when a launch could not be counted.
NCU = """#!/usr/bin/env python3
import os, sys
args = sys.argv[1:]
option = lambda name: args[args.index(name) + 1]
assert os.environ["CLUSTERBENCH_COUNTED"] == "1" and option("--target-processes") == "all"
metrics = option("--metrics").split(",")
launches = [10.0, 20.0, 3000.0, 2000.0]
if "--launch-skip" in args:
    launches = launches[int(option("--launch-skip")):][:int(option("--launch-count"))]
row = lambda cells: print(",".join(f'"{cell}"' for cell in cells))
print("==PROF== Connected to process 1")
row(["ID"] + metrics)
row([""] + ["x"] * len(metrics))
for i, cycles in enumerate(launches):
    row([str(i)] + [os.environ.get("FAILING", f"{cycles:,}")] * len(metrics))
"""
MARKS = ("<!-- counters begin -->\n", "<!-- counters end -->")


class CountGpu(Program):
    def count_gpu(self, *arguments, exit_code=0, **environment):
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "ncu").write_text(NCU)
        (tools / "ncu").chmod(0o755)
        done = subprocess.run(
            [SOURCE / "scripts" / "count_gpu.py", *arguments], cwd=self.folder, timeout=120, capture_output=True,
            text=True, stdin=subprocess.DEVNULL,
            env=dict(self.environment, PATH=f"{tools}:{os.environ['PATH']}", **environment))
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return done.stderr

    def test_the_first_large_launch_is_counted(self):
        self.count_gpu("collect", "counters.json")
        rows = json.loads((self.folder / "counters.json").read_text())["rows"]
        self.assertGreater(len(rows), 10)
        self.assertEqual({row["instructions"] for row in rows}, {3000.0})

    def test_what_cannot_be_counted_leaves_nothing(self):
        said = self.count_gpu("collect", "counters.json", exit_code=5, FAILING="nan")
        self.assertIn("kmeans_cuda_persistent on article004-100k, k=5: no counters", said)
        self.assertFalse((self.folder / "counters.json").exists())

    def test_a_page_gets_the_table(self):
        self.count_gpu("collect", "counters.json")
        page = self.folder / "page.md"
        page.write_text("before\n" + "old\n".join(MARKS) + "\nafter\n")
        self.count_gpu("table", "counters.json", "page.md")
        text = page.read_text()
        self.assertIn("| 100k×2, k=5 | kmeans_cuda_persistent | 1.00 | 0.0001 |", text)  # 3000 / 300 / 100,000
        self.assertNotIn("old", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n"))

    def test_bad_input(self):
        self.assertIn("Exit codes: 64", self.count_gpu(exit_code=64))
        (self.folder / "page.md").write_text("no marks\n")
        self.assertIn("page.md", self.count_gpu("table", "missing.json", "page.md", exit_code=64))


if __name__ == "__main__":
    unittest.main()
