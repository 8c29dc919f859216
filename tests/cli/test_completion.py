"""Completion of the command line: what a shell offers after some words."""

import json
import shutil
import subprocess
import unittest

from program import BINARY, Program


class Completion(Program):
    def offered(self, *words):
        """By bash, for the last of the words."""
        script = self.run_program("completion", "bash").stdout
        quoted = " ".join(f"'{word}'" for word in (BINARY, *words))
        asks = (f"{script}\nCOMP_WORDS=({quoted})\nCOMP_CWORD={len(words)}\n_clusterbench\n"
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-euc", asks], env=self.environment, cwd=self.folder, text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.offered("comp"), ["compare", "completion"])
        self.assertIn("gate", self.offered(""))

    def test_options_of_the_command(self):
        self.assertEqual(self.offered("run", "article004", "--it"), ["--iterations"])
        self.assertEqual(self.offered("compare", "a", "b", "--it"), [])
        self.assertIn("--min-effect", self.offered("compare", "a", "b", "--"))

    def test_names_that_the_program_knows(self):
        listed = json.loads(self.run_program("list", "--json").stdout)
        self.assertEqual(sorted(self.offered("run", "--variant", "")),
                         sorted(variant["name"] for variant in listed["variants"]))
        self.assertEqual(self.offered("run", "article00"), [f"article00{i}" for i in range(5)])
        self.assertEqual(self.offered("explain", "kmeans_serial_p"), ["kmeans_serial_points"])
        self.assertEqual(self.offered("compare", ""), [])  # files: bash's own
        self.assertEqual(self.offered("completion", ""), ["bash", "zsh"])
        self.assertEqual(self.offered("ledger", "r"), ["repair"])

    def test_values_of_options(self):
        self.assertEqual(self.offered("run", "--precision", ""), ["f32", "f64"])
        self.assertEqual(self.offered("run", "--family", "f"), ["fcm"])
        # bash reads --option=value as three words
        self.assertEqual(self.offered("run", "--precision", "="), ["f32", "f64"])
        self.assertEqual(self.offered("run", "--variant", "=", "kmeans_serial_p"), ["kmeans_serial_points"])
        # these take several words
        self.assertEqual(self.offered("run", "--variant", "a", "kmeans_serial_p"), ["kmeans_serial_points"])
        self.assertEqual(self.offered("run", "--data", ""), [])  # a file: bash's own

    def test_operands_after_options(self):
        self.assertEqual(self.offered("run", "--quick", "article00"), [f"article00{i}" for i in range(5)])
        self.assertEqual(self.offered("run", "--k", "3", "article001"), ["article001"])
        self.assertEqual(self.offered("explain", "--no-diff", "kmeans_serial_p"), ["kmeans_serial_points"])
        self.assertEqual(self.offered("ledger", "check", ""), [])
        self.assertEqual(self.offered("completion", "bash", ""), [])

    def test_zsh(self):
        script = self.run_program("completion", "zsh").stdout
        self.assertTrue(script.startswith("#compdef clusterbench\n"))
        self.assertIn("--min-effect:Changes below", script)
        if shutil.which("zsh") is None:
            self.skipTest("there is no zsh to read the script")
        subprocess.run(["zsh", "-n"], input=script, text=True, check=True)

    def test_another_shell(self):
        self.assertIn("fish", self.run_program("completion", "fish", exit_code=64).stderr)


if __name__ == "__main__":
    unittest.main()
