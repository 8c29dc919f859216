"""The scripts that run several programs: one exit code of many, and whose options win."""

import os
import re
import shutil
import subprocess
import unittest

from program import SOURCE, Program

ORDER = [64, 74, 130, 2, 5, 4, 1, 3, 6, 0]


class Graver(unittest.TestCase):
    def graver(self, *codes):
        done = subprocess.run(["bash", "-c", '. "$0"; graver "$@"', SOURCE / "scripts/exit_codes.sh",
                               *map(str, codes)], capture_output=True, text=True, check=True)
        return int(done.stdout)

    def test_the_order_is_the_programs(self):
        header = (SOURCE / "harness/system/exit_codes.hpp").read_text()
        values = {name: int(value) for name, value in re.findall(r"^  (\w+) = (\d+)", header, re.M)}
        listed = re.search(r"kByGravity = \{(.*?)\};", header, re.S)[1]
        self.assertEqual([values[name] for name in re.findall(r"ExitCode::(\w+)", listed)], ORDER)
        readme = (SOURCE / "README.md").read_text()
        self.assertIn("the first of " + ", ".join(map(str, ORDER[:-1])), readme)

    def test_the_first_of_the_order_applies(self):
        for place, code in enumerate(ORDER):
            for other in ORDER[place:]:
                self.assertEqual(self.graver(code, other), code)
                self.assertEqual(self.graver(other, code), code)

    def test_a_code_of_no_program_hides_behind_none(self):
        self.assertEqual(self.graver(2, 139), 139)
        self.assertEqual(self.graver(137, 0), 137)


class Fuzzing(unittest.TestCase):
    def test_usage(self):
        for arguments in ([], ["0"], ["many"], ["10", "nosuch"]):
            done = subprocess.run([SOURCE / "scripts/fuzz.sh", *arguments], capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual(done.returncode, 64, arguments)
        self.assertIn("no target nosuch; there are: bin", done.stderr)

    def test_every_corpus_has_a_target(self):
        targets = {path.stem[len("fuzz_"):] for path in (SOURCE / "tests/fuzz").glob("fuzz_*.cpp")}
        self.assertEqual({path.name for path in (SOURCE / "tests/fuzz/corpus").iterdir()}, targets)


# Notes how it was called, and ends with the code of the first word of $CODES ("word:code ...") that is
# among its own.
NOTES = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
for each in $CODES; do
  case " $* " in *" ${each%%:*} "*) exit "${each##*:}" ;; esac
done
"""


class WithNotes(Program):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        for folder in ("scripts", "results/tables", "build/release", "plots", "tools"):
            (self.tree / folder).mkdir(parents=True)
        for name in ("run_all.sh", "scripts/exit_codes.sh", "scripts/thread_scaling.sh"):
            shutil.copy(SOURCE / name, self.tree / name)
        (self.tree / "results/tables/article009.json").write_text("{}")
        (self.tree / "plots/make.py").write_text(
            "import os, subprocess, sys\n"
            "sys.exit(subprocess.run([os.environ['NOTER'], 'plots', *sys.argv[1:]]).returncode)\n")
        for name in ("scripts/setup.sh", "build/release/clusterbench", "tools/cmake"):
            (self.tree / name).write_text(NOTES)
            (self.tree / name).chmod(0o755)
        (self.tree / "tools/nproc").write_text("#!/bin/sh\necho 2\n")
        (self.tree / "tools/nproc").chmod(0o755)

    def script(self, name, *options, codes="", exit_code=0):
        """What the script's programs were called with, and what it printed."""
        calls = self.folder / "calls"
        calls.write_text("")
        environment = dict(self.environment, CALLS=str(calls), CODES=codes,
                           NOTER=str(self.tree / "tools/cmake"),
                           PATH=f"{self.tree}/tools:{os.environ['PATH']}")
        environment.pop("CLUSTERBENCH", None)
        done = subprocess.run([self.tree / name, *options], cwd=self.folder, env=environment,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        return calls.read_text().splitlines(), done.stdout


class RunAll(WithNotes):
    def campaign(self, *options, **kwargs):
        """The options of the one campaign of the articles' tables."""
        calls, _ = self.script("run_all.sh", *options, **kwargs)
        found, = [call for call in calls if call.startswith("clusterbench run article009")]
        return found.split()[3:]

    def test_options_of_the_user_win(self):
        self.assertEqual(self.campaign("--quick"),
                         "--out results/runs/quick --resume --quick --budget 0.2 --rounds 1".split())
        for given in (["--budget", "1"], ["--budget=1"], ["--rounds", "3"], ["--rounds=3"]):
            self.assertEqual(self.campaign("--quick", *given),
                             ["--out", "results/runs/quick", "--resume", "--quick", *given])
        for given in (["--out", "mine"], ["--out=mine"]):
            self.assertEqual(self.campaign(*given), ["--out", str(self.folder / "mine"), "--resume"])
        self.script("run_all.sh", "--out", exit_code=64)

    def test_help_builds_nothing(self):
        for word in ("--help", "-h"):
            calls, said = self.script("run_all.sh", "--quick", word)
            self.assertEqual(calls, [])
            self.assertIn("./run_all.sh --quick", said)
            self.assertNotIn("pipefail", said)

    def test_the_gravest_code_is_the_exit_code(self):
        for codes, exit_code in (("article009:5 threads:2", 2), ("article009:2 threads:5", 2),
                                 ("article009:5 plots:74", 74), ("threads:5 plots:64", 64),
                                 ("article009:0 threads:1", 1), ("article009:64", 64)):
            with self.subTest(codes):
                self.script("run_all.sh", codes=codes, exit_code=exit_code)

    def test_an_interruption_ends_it(self):
        calls, _ = self.script("run_all.sh", codes="threads:130", exit_code=130)
        self.assertEqual([call for call in calls if " plots" in call], [])


class ThreadScaling(WithNotes):
    def test_the_gravest_code_is_the_exit_code(self):
        for codes in ("threads-1:2 threads-2:5", "threads-1:5 threads-2:2"):
            codes = codes.replace("threads-", f"{self.folder}/out/threads-")
            with self.subTest(codes):
                calls, _ = self.script("scripts/thread_scaling.sh", "out", codes=codes, exit_code=2)
                self.assertEqual(len(calls), 2 * 3)


if __name__ == "__main__":
    unittest.main()
