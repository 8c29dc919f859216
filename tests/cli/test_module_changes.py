"""Modules that are replaced or removed while a campaign runs: rows that say so, and no times of one variant
under the name of another."""

import os
import pathlib
import shutil
import unittest

from program import BINARY, Program, ledger


class Modules(Program):
    """Files of modules that change while a campaign runs."""

    TWO = ("kmeans_serial", "kmeans_serial_points")
    ROUNDS = 8  # so many that a test that waits for a processor still comes before the last

    def setUp(self):
        super().setUp()
        build = pathlib.Path(BINARY).parent
        self.modules = self.folder / "build" / "modules"
        self.modules.mkdir(parents=True)
        (self.folder / "build" / "clusterbench-runner").symlink_to(build / "clusterbench-runner")
        lines = (build / "modules" / "list").read_text().splitlines()
        (self.modules / "list").write_text(
            "".join(line + "\n" for line in lines if line.split()[0] in self.TWO))
        for name in self.TWO:
            for file in (f"{name}.so", f"{name}.json"):
                shutil.copy2(build / "modules" / file, self.modules / file)
        self.module = self.modules / f"{self.TWO[1]}.so"
        self.environment["CLUSTERBENCH_FOLDER"] = str(self.folder / "build")

    def changed(self, change, exit_code):
        """The rows of all rounds, of which the first was whole when the change was made."""
        words = [word for name in self.TWO for word in ("--variant", name)]
        kept = self.module.read_bytes()
        code, errors = self.campaign_during(
            lambda _: change(), "--data", "uniform:20000,2,1", "--k", 8, "--iterations", 20, *words,
            "--rounds", self.ROUNDS, lines=3, undo=lambda: self.module.write_bytes(kept))
        self.assertEqual(code, exit_code, errors)
        rows = ledger(self.folder / "out")[1]
        self.assertEqual(len(rows), 2 * self.ROUNDS)
        self.assertEqual([row["status"] for row in rows if row["variant"] == self.TWO[0]],
                         ["ok"] * self.ROUNDS)
        mine = [row for row in rows if row["variant"] == self.TWO[1]]
        self.assertEqual(mine[0]["status"], "ok")
        return mine

    def replace_with(self, file):
        shutil.copy2(file, self.folder / "copy.so")
        os.replace(self.folder / "copy.so", self.module)

    def test_anothers_module_is_not_measured_under_its_name(self):
        for number, change in enumerate((
                lambda: self.replace_with(self.modules / f"{self.TWO[0]}.so"),
                lambda: self.module.write_bytes((self.modules / f"{self.TWO[0]}.so").read_bytes()),
                lambda: self.module.write_bytes(b""))):
            with self.subTest(number):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                kept = self.module.read_bytes()
                last = self.changed(change, 5)[-1]
                self.assertEqual(last["status"], "error", last["message"])
                self.assertIn("the module changed during the run", last["message"])
                self.assertIn(self.module.name, last["message"])
                self.module.write_bytes(kept)

    def test_the_same_bytes_again_are_no_change(self):
        rows = self.changed(lambda: self.replace_with(self.module), 0)
        self.assertEqual([row["status"] for row in rows], ["ok"] * self.ROUNDS)

    def test_one_that_goes_costs_its_own_rows(self):
        last = self.changed(self.module.unlink, 5)[-1]
        self.assertEqual(last["status"], "error")
        self.assertRegex(last["message"], r"the module changed during the run: .* is no longer there")

    def test_one_that_is_not_there_at_all(self):
        self.module.unlink()
        rows = self.campaign("--data", "uniform:200,2,1", "--k", 3, "--iterations", 3, "--variant",
                             self.TWO[0], "--variant", self.TWO[1], exit_code=5)
        self.assertEqual({row["variant"]: row["status"] for row in rows},
                         {self.TWO[0]: "ok", self.TWO[1]: "error"})

    def test_one_under_anothers_name(self):
        shutil.copy2(self.modules / f"{self.TWO[0]}.so", self.module)
        [row] = self.campaign("--data", "uniform:200,2,1", "--k", 3, "--iterations", 3, "--variant",
                              self.TWO[1], exit_code=5)
        self.assertEqual(row["status"], "error")
        self.assertIn(f"holds {self.TWO[0]}, not {self.TWO[1]}", row["message"])


if __name__ == "__main__":
    unittest.main()
