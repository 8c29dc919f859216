"""What scripts/count_gpu.py makes of what Nsight Compute prints, by a stand-in for it, and of counters on a page."""

import json
import os
import subprocess
import sys
import unittest

from program import SOURCE, Program

# Four launches: two of a qualification, which take as long as the two of the cell and do less; FAILING as it looks
# when a launch could not be counted, and STATUS as the program leaves it in its ledger.
NCU = """#!/usr/bin/env python3
import json, os, sys
args = sys.argv[1:]
option = lambda name: args[args.index(name) + 1]
assert os.environ["CLUSTERBENCH_COUNTED"] == "1" and option("--target-processes") == "all"
assert option("--family") == option("--variant").split("_")[0] and option("--data") and int(option("--k")) > 0
with open(option("--out") + "/ledger.jsonl", "w") as ledger:
    for row in ({"type": "header", "provenance": {"build": "this"}},
                {"type": "cell", "status": os.environ.get("STATUS", "ok")}):
        print(json.dumps(row), file=ledger)
metrics = option("--metrics").split(",")
launches = [10.0, 20.0, 3000.0, 2000.0]
if "--launch-skip" in args:
    launches = launches[int(option("--launch-skip")):][:int(option("--launch-count"))]
row = lambda cells: print(",".join(f'"{cell}"' for cell in cells))
print("==PROF== Connected to process 1")
row(["ID"] + metrics)
row([""] + ["x"] * len(metrics))
for i, done in enumerate(launches):
    row([str(i)] + [os.environ.get("FAILING", "3,000" if "cycles_elapsed" in name else f"{done:,}")
                    for name in metrics])
"""
MARKS = ("<!-- counters begin -->\n", "<!-- counters end -->")


class CountGpu(Program):
    def count_gpu(self, *arguments, exit_code=0, ncu=True, **environment):
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "ncu").write_text(NCU)
        (tools / "ncu").chmod(0o755)
        alone = self.folder / "python"  # and nothing else
        alone.mkdir(exist_ok=True)
        (alone / "python3").unlink(missing_ok=True)
        (alone / "python3").symlink_to(sys.executable)
        path = f"{tools}:{os.environ['PATH']}" if ncu else str(alone)
        done = subprocess.run(
            [SOURCE / "scripts" / "count_gpu.py", *arguments], cwd=self.folder, timeout=120, capture_output=True,
            text=True, stdin=subprocess.DEVNULL, env=dict(self.environment, PATH=path, **environment))
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return done.stderr

    def test_the_first_large_launch_is_counted(self):
        self.count_gpu("collect", "counters.json")
        found = json.loads((self.folder / "counters.json").read_text())
        self.assertEqual(found["provenance"], {"build": "this"})
        rows = found["rows"]
        self.assertGreater(len(rows), 10)
        self.assertEqual({row["instructions"] for row in rows}, {3000.0})

    def test_what_cannot_be_counted_leaves_nothing(self):
        said = self.count_gpu("collect", "counters.json", exit_code=5, FAILING="nan")
        self.assertIn("kmeans_cuda_persistent on article004-100k, k=5: no counters", said)
        self.assertFalse((self.folder / "counters.json").exists())

    def test_a_run_that_is_not_right_is_not_counted(self):
        said = self.count_gpu("collect", "counters.json", exit_code=5, STATUS="wrong")
        self.assertIn("kmeans_cuda_persistent on article004-100k, k=5: not a right run", said)
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

    def test_some_variants_and_several_files(self):
        for name in ("kmeans_cuda_fused", "fcm_cuda_split"):
            self.count_gpu("collect", f"{name}.json", name)
            rows = json.loads((self.folder / f"{name}.json").read_text())["rows"]
            self.assertEqual({row["variant"] for row in rows}, {name})
        page = self.folder / "page.md"
        page.write_text("".join(MARKS))
        self.count_gpu("table", "kmeans_cuda_fused.json", "fcm_cuda_split.json", "page.md")
        self.assertIn("| kmeans_cuda_fused |", page.read_text())
        self.assertIn("| fcm_cuda_split |", page.read_text())
        self.assertIn("no cell of kmeans_serial",
                      self.count_gpu("collect", "counters.json", "kmeans_serial", exit_code=64))

    def test_bad_input(self):
        self.assertIn("Exit codes: 64", self.count_gpu(exit_code=64))
        self.assertIn("ncu, Nsight Compute, is not in PATH",
                      self.count_gpu("collect", "counters.json", exit_code=64, ncu=False))
        self.assertIn("none/counters.json: cannot be written",
                      self.count_gpu("collect", "none/counters.json", exit_code=74))
        page = self.folder / "page.md"
        page.write_text(MARKS[1])
        for text in ("[]", '{"rows": []}', '{"rows": [{"work": "1M×2"}]}', "no JSON"):
            (self.folder / "bad.json").write_text(text)
            self.assertIn("bad.json: no", self.count_gpu("table", "bad.json", "page.md", exit_code=64))
        self.count_gpu("collect", "counters.json")
        said = self.count_gpu("table", "counters.json", "page.md", exit_code=64)
        self.assertIn("page.md: the mark <!-- counters begin -->", said)
        self.assertEqual(page.read_text(), MARKS[1])


if __name__ == "__main__":
    unittest.main()
