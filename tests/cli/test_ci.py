"""The workflows and the scripts behind them: valid YAML that calls scripts which exist, the converter
for github-action-benchmark, and the calibration's figures."""

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import ledgers
from program import BINARY, SOURCE, Program

try:
    import yaml
except ImportError:
    yaml = None

sys.dont_write_bytecode = True  # nothing is to be left beside the scripts
sys.path.append(str(SOURCE / "scripts"))  # as for a script that is run


def script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(SOURCE / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


@unittest.skipIf(yaml is None, "python3-yaml is not installed")
class Workflows(unittest.TestCase):
    def commands(self, text):
        for job in yaml.safe_load(text)["jobs"].values():
            self.assertIn("runs-on", job)
            for step in job["steps"]:
                self.assertEqual(len({"run", "uses"} & set(step)), 1, step)
                yield step.get("run", "")

    def check(self, text):
        called = [path for command in self.commands(text)
                  for path in re.findall(r"(?:\./|scripts/)[\w./]+", command)]
        self.assertTrue(called)
        for path in called:
            self.assertTrue(os.access(SOURCE / path, os.X_OK), path)

    def test_files(self):
        files = sorted((SOURCE / ".github" / "workflows").glob("*.yml"))
        self.assertEqual([file.name for file in files], ["ci.yml", "perf.yml"])
        for file in files:
            self.check(file.read_text())

    def test_the_example_of_the_page(self):
        example = re.search(r"```yaml\n(.*?)```", (SOURCE / "docs" / "ci.md").read_text(), re.S)
        self.check(example[1])


class Scripts(Program):
    def github_action_benchmark(self, *words, exit_code=0):
        done = subprocess.run([SOURCE / "scripts" / "github_action_benchmark", *words],
                              cwd=self.folder, env=dict(self.environment, CLUSTERBENCH=BINARY),
                              capture_output=True)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.assertNotIn(b"Traceback", done.stderr)
        return done

    def test_github_action_benchmark(self):
        rounds = [ledgers.row(samples=[ms] * 9, round_number=number)
                  for number, ms in ((1, 4.0), (2, 2.0), (3, 3.0))]
        wrong = ledgers.row("kmeans_openmp", status="wrong")
        ledgers.write(self.folder / "out", [ledgers.header(), *rounds, wrong])
        entry, = json.loads(self.github_action_benchmark("out").stdout)
        self.assertEqual(entry, {"name": "t/p/kmeans_serial/f32", "unit": "ms", "value": 3.0,
                                 "range": "± 1", "extra": "3 rounds"})
        path = self.folder / "out" / "ledger.jsonl"
        whole = path.read_text()
        path.write_text(whole.replace("4.0,", "1.0,", 1))
        self.github_action_benchmark("out", exit_code=4)
        path.write_text(whole + "no JSON\n")
        self.assertIn(b"ledger.jsonl: line 6", self.github_action_benchmark("out", exit_code=64).stderr)
        for words in (["nowhere"], []):
            self.github_action_benchmark(*words, exit_code=64)

    def test_gate_against_nothing(self):
        for arguments in ([], ["no-such-commit"]):
            done = subprocess.run([SOURCE / "scripts" / "gate_against", *arguments],
                                  capture_output=True)
            self.assertEqual(done.returncode, 64, done.stderr)

    def repository(self, cmake=None):
        """A repository of two commits that holds the script, and nothing that can be built."""
        home = self.folder / "home"
        (home / "scripts").mkdir(parents=True)
        shutil.copy(SOURCE / "scripts" / "gate_against", home / "scripts")
        (home / ".gitignore").write_text("/build/\n")
        (home / "page").write_text("before\n")
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "one")
        (home / "page").write_text("after\n")
        self.git("commit", "--quiet", "--all", "--message", "two")
        if cmake is not None:
            tools = self.folder / "tools"
            tools.mkdir()
            (tools / "cmake").write_text("#!/bin/sh\n" + cmake)
            (tools / "cmake").chmod(0o755)
            self.environment["PATH"] = f"{tools}:{self.environment['PATH']}"
        return home

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test", *arguments],
                       cwd=self.folder / "home", env=self.environment, check=True,
                       capture_output=True)

    def gate_against(self, *arguments):
        done = subprocess.run(["scripts/gate_against", *arguments], cwd=self.folder / "home",
                              env=self.environment, capture_output=True)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_gate_against_a_base_that_cannot_be_built(self):
        self.repository()  # no CMakePresets.json
        code, _, errors = self.gate_against("HEAD~1")
        self.assertEqual(code, 64, errors)
        self.assertIn("build/gate-base cannot be configured", errors)

    def test_gate_against_with_a_build_that_fails(self):
        self.repository(cmake='[ "$1" != --build ]\n')
        code, _, errors = self.gate_against("HEAD~1")
        self.assertEqual(code, 64, errors)
        self.assertIn("build/gate-base cannot be built", errors)

    def test_gate_against(self):
        home = self.repository(cmake="exit 0\n")
        program = home / "build" / "release" / "clusterbench"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "$@"; exit 1\n')
        program.chmod(0o755)
        code, output, errors = self.gate_against("HEAD~1", "article002", "--full")
        self.assertEqual(code, 1, errors)  # what the gate itself says
        self.assertEqual(output, "gate --base build/gate-base/build/release --new build/release "
                                 "--out results/gate article002 --full\n")
        self.assertEqual((home / "build/gate-base/page").read_text(), "before\n")
        (home / "build/gate-base/page").write_text("changed\n")
        code, _, errors = self.gate_against("HEAD")
        self.assertEqual(code, 64, errors)
        self.assertIn("build/gate-base cannot be set to HEAD", errors)

    def test_calibration_report(self):
        calibration = script("gate_calibration")
        # R: prop.test(57, 60, correct = FALSE)
        self.assertEqual(calibration.rate_line("it", 57, 60), "| it | 57 of 60 | 95.0 % | 86.3 .. 98.3 % |")
        cells = [(f"t/p/v{i}/f32", f"v{i}") for i in range(9)]
        gates = calibration.plan(calibration.PLANS, cells, 5, 1)
        self.assertEqual(len(gates), 380)
        self.assertEqual(gates, calibration.plan(calibration.PLANS, cells, 5, 1))
        for gate in gates:
            self.assertEqual(len(set(gate["cells"])), 5)
            self.assertEqual(sum(f"/{gate['variant']}/" in cell for cell in gate["cells"]), 1)
        done = [{**gate, "exit_code": int(gate["kind"] != "0 %"), "seconds": 2.0,
                 "verdicts": {gate["planted"]: "slower"}} for gate in gates]
        text = calibration.report(done, calibration.PLANS, 5)
        self.assertIn("| gates of five cells |", text)
        self.assertIn("| no slowdown: alarm (exit 1) | 0 of 200 | 0.0 % | 0.0 .. 1.9 % |", text)
        self.assertIn("| 5 % planted: found | 60 of 60 | 100.0 % | 94.0 .. 100.0 % |", text)
        cells = [(cell, cell.split("/")[2]) for cell in calibration.GPU_CELLS]
        gates = calibration.plan(calibration.GPU_PLANS, cells, 3, 1)
        self.assertEqual(len(gates), 160)
        self.assertEqual({frozenset(gate["cells"]) for gate in gates}, {frozenset(calibration.GPU_CELLS)})
        self.assertIn("| gates of three cells |", calibration.report([], calibration.GPU_PLANS, 3))
        done = [{**gate, "exit_code": 0} for gate in gates[3:40]]
        self.assertEqual(calibration.left_of(gates, []), gates)
        left = calibration.left_of(gates, done)
        for kind in calibration.GPU_PLANS:
            self.assertEqual(sum(gate["kind"] == kind for gate in [*left, *done]), calibration.GPU_PLANS[kind][1])
        self.assertEqual(calibration.left_of(gates, [{**gate, "exit_code": 0} for gate in gates]), [])
        page = self.folder / "page.md"
        page.write_text("a\n<!-- it begin -->\n<!-- it end -->\nb\n")
        calibration.splice(page, "it", text)
        calibration.splice(page, "it", text)
        self.assertEqual(page.read_text().count("5 % planted"), 1)
        self.assertTrue(page.read_text().endswith("\nb\n"))

    def test_calibration_of_compare(self):
        calibration = script("compare_calibration")
        rows = [(f"article00{t}", {"variant": f"v{i}", "precisions": ["f32", "f64"][:1 + i % 2],
                                   "problems": ["p", "q", "r"][:1 + i % 3]}) for t in range(4) for i in range(9)]
        groups = calibration.plan(rows, 1)
        self.assertEqual(len(groups), 14)
        self.assertEqual(groups, calibration.plan(rows, 1))
        for group in groups:
            self.assertIn(len(set(group["cells"])), range(8, 13))
            self.assertIn(group["planted"], group["cells"])
            self.assertIn(f"/{group['variant']}/", group["planted"])
        def comparison(kind, code, group, verdict):
            other = next(name for name in group["cells"] if name.split("/")[2] != group["variant"])
            return {"kind": kind, "exit_code": code, "q": {other: 1e-9},
                    "verdicts": {group["planted"]: verdict, other: "slower" if kind == "5 %" else "same"},
                    "ratios": {group["planted"]: 1.01, other: 2.0}}
        done = [{**group, "campaign_seconds": [3.0] * 8,
                 "comparisons": [comparison("0 %", 3 if i == 0 else 0, group, "same") for i in range(15)]
                 + [comparison("5 %", 1, group, "inconclusive"), comparison("10 %", 1, group, "slower")]}
                for group in groups]
        text = calibration.report(done)
        self.assertIn("| no slowdown: alarm (exit 1) | 0 of 210 | 0.0 % | 0.0 .. 1.8 % |", text)
        self.assertIn("| no slowdown: inconclusive (exit 3) | 14 of 210 |", text)
        self.assertIn("| a slowdown planted: another variant called slower | 14 of 28 |", text)
        self.assertIn("| the same, computed again by the present rule | 14 of 28 |", text)
        self.assertIn("| 5 % planted: alarm for that variant | 0 of 14 |", text)
        self.assertIn("| 10 % planted: alarm for that variant | 14 of 14 |", text)
        self.assertRegex(text, r"\| v\d \| more points \| \d+ \| (1.0|69.3|49.0) % \| (1|69) % \|")
        self.assertIn("| 5 % planted: found in the cell that was drawn | 0 of 14 |", text)
        self.assertIn("| 10 % planted: found in the cell that was drawn | 14 of 14 |", text)


if __name__ == "__main__":
    unittest.main()
