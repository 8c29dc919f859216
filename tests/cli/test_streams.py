"""Standard streams that are closed or full, and names of files with what a terminal obeys."""

import shutil
import subprocess
import unittest

from program import BINARY, GOOD, QUICK, Program, ledger

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]


class Streams(Program):
    """What cannot be said costs no row; what was asked for on stdout and cannot be printed is 74."""

    def end_of(self, redirections):
        arguments = " ".join(map(str, ["run", *PROBLEM, "--variant", "kmeans_serial", "--variant",
                                       "kmeans_simd", *QUICK, "--out", "out"]))
        done = subprocess.run(["bash", "-c", f"exec '{BINARY}' {arguments} {redirections}"],
                              cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual([row["status"] for row in rows], ["ok", "ok"])
        shutil.rmtree(self.folder / "out")
        return done.returncode

    def test_messages_that_cannot_be_written_are_ignored(self):
        self.assertEqual(self.end_of("2>/dev/full"), 0)

    def test_closed_streams(self):
        for redirections in ("2>&-", "<&-", "<&- 2>&-"):
            with self.subTest(redirections):
                self.assertEqual(self.end_of(redirections), 0)
        self.assertEqual(self.end_of(">&-"), 0)  # as with >/dev/null

    def test_tables_that_cannot_be_printed(self):
        self.assertEqual(self.end_of(">/dev/full"), 74)


class NamesOfFiles(Program):
    """What a terminal obeys in the name of a file becomes visible, and a command that is proposed
    still names that file."""

    NAME = "a\x1b[31m 'b\\"

    def test_of_a_campaign(self):
        said = self.run_program("run", *GOOD, *QUICK, "--out", self.NAME).stdout
        self.assertIn("ledger: a\\x1b[31m 'b\\/ledger.jsonl", said)
        self.assertNotIn("\x1b", said)
        command = next(line.removeprefix("next: clusterbench ") for line in said.splitlines()
                       if line.startswith("next: clusterbench report"))
        words = subprocess.run(["bash", "-c", "printf '%s\\n' " + command.split("    ")[0]],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(words, ["report", self.NAME, "--out", "report.html"])

    def test_of_data_and_of_ledgers(self):
        (self.folder / self.NAME).mkdir()
        for words in (["data", "uniform:9,2,1", "--out", f"{self.NAME}/x.npy"],
                      ["run", *GOOD, *QUICK, "--out", self.NAME],
                      ["ledger", "check", self.NAME],
                      ["ledger", "repair", self.NAME, "--out", "y.jsonl"]):
            said = self.run_program(*words).stdout
            self.assertIn("a\\x1b[31m 'b\\/", said)
            self.assertNotIn("\x1b", said)


if __name__ == "__main__":
    unittest.main()
