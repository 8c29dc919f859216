"""Ledgers with damaged lines: what is told of them, and what `clusterbench ledger repair` keeps."""

import json
import os
import shutil
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

import ledgers
from program import QUICK, SOURCE, Program

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]


class Damaged(Program):
    """What is damaged is told line by line, and what is sound can be kept."""

    def write(self, *damage, lines=None):
        """A ledger of two machines; damage: (line from 1, the bytes in its place)."""
        lines = lines or [ledgers.header(), ledgers.row("kmeans_a", [1.0, 2.0]),
                          ledgers.row("kmeans_b", [1.0, 2.0]), ledgers.header("another"),
                          ledgers.row("kmeans_c", [1.0, 2.0]), ledgers.row("kmeans_d", [1.0, 2.0])]
        self.lines = ledgers.chained(lines).encode().splitlines(keepends=True)
        for number, text in damage:
            self.lines[number - 1] = text
        (self.folder / "out").mkdir(exist_ok=True)
        path = self.folder / "out" / "ledger.jsonl"
        path.write_bytes(b"".join(self.lines))
        return path

    def cut(self, number):
        """A line of the ledger without its second half."""
        line = self.lines[number - 1]
        return (number, line[:len(line) // 2] + b"\n")

    def check(self, exit_code=4):
        return self.run_program("ledger", "check", "out", exit_code=exit_code).stdout.splitlines()

    def repaired(self):
        """What repair wrote: all lines of the new ledger, and of the damaged ones."""
        self.run_program("ledger", "repair", "out", "--out", "new/ledger.jsonl")
        return ((self.folder / "new" / "ledger.jsonl").read_bytes().splitlines(keepends=True),
                (self.folder / "new" / "ledger.jsonl.damaged").read_bytes())

    def copy(self, folder):
        """compare takes no ledger twice."""
        shutil.copytree(self.folder / folder, self.folder / "copy")

    def test_a_sound_one(self):
        path = self.write()
        self.assertEqual(self.check(exit_code=0), ["out/ledger.jsonl: sound: 4 rows"])
        done = self.run_program("ledger", "repair", "out", "--out", "new.jsonl")
        self.assertIn("no line is damaged; nothing is written", done.stdout)
        self.assertFalse((self.folder / "new.jsonl").exists())
        self.run_program("ledger", "check", "nosuch", exit_code=64)
        path.write_text(path.read_text().replace('"round":1', '"round":2'))
        self.assertRegex(self.check()[0], "edited: line 2")

    def test_every_damaged_line_is_told(self):
        self.write()
        self.write(self.cut(2), (3, b'{"type": "cell", "schema": 2}\n'), (5, b"\xff\0\n"),
                   (6, b'{"torn":'))
        found = self.check()
        self.assertRegex(found[0], r"^out/ledger\.jsonl: line 2 is not JSON \(byte \d+\)$")
        self.assertRegex(found[1], r"^out/ledger\.jsonl: line 3 has no table$")
        self.assertRegex(found[2], r"^out/ledger\.jsonl: line 5 is not JSON \(byte 1\)$")
        self.assertRegex(found[3], r"^out/ledger\.jsonl: line 6 is torn")
        self.assertEqual(len(found), 4)

    def test_other_commands_name_the_line_and_advise(self):
        self.write()
        path = self.write(self.cut(3))
        content = path.read_bytes()
        quick = [*PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out", "out"]
        self.copy("out")
        for command in (["table", "article004", "--from", "out"], ["compare", "out", "copy"],
                        ["ledger", "out"], ["run", *quick], ["run", *quick, "--resume"]):
            with self.subTest(command[0]):
                done = self.run_program(*command, exit_code=64)
                self.assertRegex(done.stderr, r"out/ledger\.jsonl: line 3 is not JSON \(byte \d+\); "
                                              r"`clusterbench ledger check out")
        self.assertEqual(path.read_bytes(), content)

    def test_repair_keeps_what_is_sound_and_says_what_it_left_out(self):
        self.write()
        path = self.write(self.cut(2))
        content = path.read_bytes()
        lines, damaged = self.repaired()
        self.assertEqual(lines[:-1], [self.lines[0], *self.lines[2:]])
        self.assertEqual(damaged, self.lines[1])
        self.assertEqual(path.read_bytes(), content)
        last = json.loads(lines[-1])
        self.assertEqual((last["type"], last["left_out"][0]["line"]), ("repair", 2))
        self.assertEqual(last["left_out"][0]["next_chain"], json.loads(self.lines[2])["chain"])
        if jsonschema is not None:
            schema = json.loads((SOURCE / "results" / "schema.json").read_text())
            self.assertTrue(jsonschema.Draft7Validator(schema).is_valid(last))
        self.copy("new")
        for command in (["ledger", "new"], ["ledger", "check", "new"], ["compare", "new", "copy", "--across"]):
            done = self.run_program(*command, exit_code=4)
            self.assertIn("new/ledger.jsonl: repaired: 1 damaged line was left out", done.stdout)
            self.assertNotIn("edited", done.stdout)

    def test_a_repaired_one_still_tells_an_edit_and_goes_on(self):
        self.write()
        self.write(self.cut(2))
        lines, _ = self.repaired()
        new = self.folder / "new" / "ledger.jsonl"
        self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out", "new",
                         "--resume")
        self.assertNotIn("edited", self.run_program("ledger", "new", exit_code=4).stdout)
        new.write_bytes(new.read_bytes().replace(b'"kmeans_d"', b'"kmeans_e"'))
        self.assertIn("repaired: 1 damaged line was left out; new/ledger.jsonl: edited: line 5",
                      self.run_program("ledger", "new", exit_code=4).stdout)

    def test_rows_never_get_another_machines_header(self):
        self.write()
        self.write(self.cut(4))
        self.assertRegex("\n".join(self.check()[1:]), "line 5 is a cell whose header may be a "
                         "damaged line\n.*line 6 is a cell whose")
        lines, damaged = self.repaired()
        self.assertEqual(lines[:-1], self.lines[:3])
        self.assertEqual(damaged, b"".join(self.lines[3:]))

    def test_without_a_header_nothing_is_resumed_or_compared(self):
        self.write()
        path = self.write((1, b"\n"), (4, b"\n"))
        self.copy("out")
        for command in (["compare", "out", "copy"], ["ledger", "out"],
                        ["run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out", "out",
                         "--resume"]):
            done = self.run_program(*command, exit_code=64)
            self.assertIn("out/ledger.jsonl: line 2 is a cell before any header", done.stderr)
        self.assertEqual(len(self.check()), 4)
        done = self.run_program("ledger", "repair", "out", "--out", "new.jsonl", exit_code=64)
        self.assertIn("no row of it is sound", done.stderr)
        self.assertEqual(sorted(each.name for each in self.folder.iterdir()), ["copy", "out"])
        path.write_text("")  # no cells: nothing is missing in it but what the other one has
        self.run_program("ledger", "out")
        self.assertEqual(self.check(exit_code=0), ["out/ledger.jsonl: sound: 0 rows"])

    def test_nothing_is_overwritten(self):
        self.write()
        self.write(self.cut(3))
        for name in ("new.jsonl", "new.jsonl.damaged"):
            (self.folder / name).write_text("mine")
            done = self.run_program("ledger", "repair", "out", "--out", "new.jsonl", exit_code=74)
            self.assertIn(f"{name}: it is there already", done.stderr)
            self.assertEqual((self.folder / name).read_text(), "mine")
            (self.folder / name).unlink()
        self.run_program("ledger", "repair", "out", "--out", "out", exit_code=74)
        self.run_program("ledger", "repair", "out", "--out", "/proc/new.jsonl", exit_code=74)
        self.assertEqual(sorted(each.name for each in self.folder.iterdir()), ["out"])

    def test_what_is_no_file_is_not_written(self):
        (self.folder / "out").mkdir()
        for name in ("ledger.jsonl", "lock"):
            path = self.folder / "out" / name
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out", "out",
                                    exit_code=74)
            self.assertIn(f"out/{name}: not a regular file", done.stderr)
            path.unlink()

    def test_help_has_two_examples(self):
        for command in (["ledger"], ["ledger", "check"], ["ledger", "repair"]):
            done = self.run_program(*command, "--help")
            self.assertEqual(done.stdout.count("  clusterbench ledger "), 2, done.stdout)


if __name__ == "__main__":
    unittest.main()
