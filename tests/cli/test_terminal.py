"""What a person at a terminal sees: colours, one line of progress, tables of 100 columns, and a summary."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import unittest

import ledgers
from program import BINARY, FAULTY, QUICK, SOURCE, Program

COLOUR = re.compile(r"\x1b\[[\d;]*m")
ERASED = "\x1b[K"
PROBLEM = ["--data", "uniform:2000,3,7", "--k", 4, "--iterations", 2]
LONGEST_SUMMARY = 15


class Terminal(Program):
    """A program whose standard output and errors are a terminal, or only one of them."""

    def on_a_terminal(self, *arguments, program=BINARY, columns=100, exit_code=0, output=True, errors=True,
                      **variables):
        """What the program wrote to the terminal, as text."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environment = {**self.environment, "TERM": "xterm", **variables}
        environment = {name: value for name, value in environment.items() if value is not None}
        process = subprocess.Popen([program, *map(str, arguments)], cwd=self.folder, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=theirs if output else subprocess.DEVNULL,
                                   stderr=theirs if errors else subprocess.DEVNULL)
        os.close(theirs)
        text = b""
        while select.select([ours], [], [], 120)[0]:
            try:
                read = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not read:
                break
            text += read
        os.close(ours)
        self.assertEqual(process.wait(120), exit_code, text.decode())
        return text.decode().replace("\r\n", "\n")

    def shown(self, text):
        """The lines that stay: what a terminal shows after all erasing, without colours."""
        lines = []
        for line in COLOUR.sub("", text).split("\n"):
            shown = ""
            for piece in line.split("\r"):
                erased = piece.startswith(ERASED) or piece.endswith(ERASED)
                shown = piece.replace(ERASED, "") if erased else piece + shown[len(piece):]
            lines.append(shown)
        return lines

    def colours_of(self, text, words):
        """The colours of the lines that hold the words."""
        return {match[0] for line in text.split("\n") if words in line
                for match in COLOUR.finditer(line)} - {"\x1b[0m"}


class Run(Terminal):
    def run_cells(self, *variants, **more):
        names = [word for variant in variants for word in ("--variant", variant)]
        return self.on_a_terminal("run", *PROBLEM, *names, *QUICK, "--out", "out", **more)

    def test_progress_is_one_line_that_leaves_nothing(self):
        text = self.run_cells("kmeans_serial", "kmeans_openmp", "kmeans_serial_points", columns=80)
        drawn = re.findall(r"\r(\[\d/3\][^\r\n]*?)\x1b\[K", text)
        self.assertEqual([line[:5] for line in drawn], ["[1/3]", "[2/3]", "[3/3]"])
        self.assertNotIn("left", drawn[0])  # nothing is known yet
        for line in drawn[1:]:
            self.assertRegex(line, r"about (\d+ s|\d+ min|\d+ h \d+ min) left")
        for line in drawn:
            self.assertLess(len(line), 80)
        shown = self.shown(text)
        self.assertFalse([line for line in shown if re.match(r"\[\d/3\]", line)], shown)

    def test_a_narrow_terminal_shortens_the_line(self):
        text = self.run_cells("kmeans_serial", "kmeans_openmp", columns=30)
        drawn = re.findall(r"\r(\[\d/2\][^\r\n]*?)\x1b\[K", text)
        self.assertEqual(len(drawn), 2)
        for line in drawn:
            self.assertLess(len(line), 30)
            self.assertIn("…", line)

    def test_without_a_terminal_every_cell_has_a_line(self):
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", "--variant", "kmeans_serial_points",
                                *QUICK, "--out", "out")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertRegex(done.stderr, r"\[\d/2\] adhoc/uniform:2000,3,7/kmeans_serial/f32: ok [\d.e-]+ ms/iteration")
        self.assertRegex(done.stderr, r"\[\d/2\] .*/kmeans_serial_points/f32: refused\n")
        self.assertNotIn("\x1b", done.stderr + done.stdout)

    def test_colours(self):
        text = self.run_cells("kmeans_serial", "kmeans_faulty_drops_tail", "kmeans_faulty_refuses",
                              program=FAULTY, exit_code=2)
        self.assertIn("\x1b[1;32m", self.colours_of(text, "kmeans_serial "))
        self.assertIn("\x1b[1;31m", self.colours_of(text, "kmeans_faulty_drops_tail"))
        self.assertIn("\x1b[33m", self.colours_of(text, "kmeans_faulty_refuses"))

    def test_no_colours_where_they_are_not_wanted(self):
        for name, more in (("NO_COLOR", {"NO_COLOR": "1"}), ("dumb", {"TERM": "dumb"}), ("none", {"TERM": None}),
                           ("piped", {"output": False})):
            with self.subTest(name):
                self.assertFalse(COLOUR.findall(self.run_cells("kmeans_serial", **more)))
        text = self.run_cells("kmeans_serial", NO_COLOR="")  # empty is as good as not set
        self.assertTrue(COLOUR.findall(text))

    def test_a_dumb_terminal_has_lines(self):
        text = self.run_cells("kmeans_serial", TERM="dumb")
        self.assertNotIn("\r", text)
        self.assertRegex(text, r"(?m)^\[1/1\] .*: ok ")

    def test_why_a_cell_failed_is_said_once(self):
        for shown in (True, False):
            with self.subTest(terminal=shown):
                if shown:
                    text = self.run_cells("kmeans_faulty_refuses", "kmeans_serial", program=FAULTY)
                else:
                    done = self.run_program("run", *PROBLEM, "--variant", "kmeans_faulty_refuses", "--variant",
                                            "kmeans_serial", *QUICK, "--out", "out", program=FAULTY)
                    text = done.stdout + done.stderr
                self.assertEqual(text.count("planted: not today"), 1, text)

    def summary(self, text):
        lines = self.shown(text)
        first = next(i for i, line in enumerate(lines) if re.match(r"\d+ cells?: ", line))
        return [line for line in lines[first:] if line]

    def test_a_terminal_that_erases_nothing_gets_no_escapes(self):
        for terminal, escapes in (("dumb", False), (None, False), ("xterm", True)):
            with self.subTest(terminal):
                text = self.run_cells("kmeans_serial", TERM=terminal)
                self.assertIn("kmeans_serial", text)
                self.assertEqual("\x1b" in text, escapes)

    def test_summary(self):
        lines = self.summary(self.run_cells("kmeans_serial", "kmeans_faulty_drops_tail", "kmeans_faulty_refuses",
                                            program=FAULTY, exit_code=2))
        text = "\n".join(lines)
        self.assertLessEqual(len(lines), LONGEST_SUMMARY)
        self.assertEqual(lines[0], "3 cells: 1 right, 1 wrong, 1 refused.")
        self.assertIn("  wrong: kmeans_faulty_drops_tail f32", lines)
        self.assertRegex(text, r"uniform:2000,3,7 +f32 +kmeans_serial +[\d.]+ +[\d.]+")
        self.assertRegex(text, r"ledger: out/ledger\.jsonl, after \d+ s")
        self.assertIn("next: clusterbench report out --out report.html", text)

    def test_summary_of_many_cells_is_as_short(self):
        tables = ["article002", "article003", "article004"]
        text = self.on_a_terminal("run", *tables, "--quick", "--variant", "kmeans_serial*", *QUICK, "--out", "a folder")
        lines = self.summary(text)
        self.assertLessEqual(len(lines), LONGEST_SUMMARY)
        self.assertTrue(any(re.match(r"  and \d+ more problems? above", line) for line in lines), lines)
        self.assertIn("--from 'a folder' --quick --wide", "\n".join(lines))
        for line in self.shown(text):
            self.assertLessEqual(len(line), 100, line)

    def test_what_crashed_can_be_resumed(self):
        text = self.run_cells("kmeans_faulty_segfaults", program=FAULTY, exit_code=5)
        self.assertIn("  crashed: kmeans_faulty_segfaults f32", self.summary(text))
        self.assertIn("--out out --resume", text)


class Width(Terminal):
    LONG = "kmeans_" + "x" * 200

    def test_tables_fit_and_wide_ones_need_not(self):
        rows = [ledgers.row(variant, [1.0 + place + 0.01 * i for i in range(9)], table="article004",
                            words=ledgers.problem({"id": "n=100", "data": "article004-100", "k": 5, "init": "first",
                                                   "stop": "iterations", "max_iterations": 300}))
                for place, variant in enumerate(("kmeans_serial", "kmeans_cuda_atomic", "kmeans_openmp"))]
        rows += [ledgers.row("kmeans_simd", None, "wrong", "article004", rows[0]["problem"],
                             message="labels: " + "word " * 60)]
        ledgers.write(self.folder / "out", [ledgers.header(), *rows])
        narrow = self.on_a_terminal("table", "article004", "--from", "out")
        for line in self.shown(narrow):
            self.assertLessEqual(len(line), 100, line)
        wide = self.on_a_terminal("table", "article004", "--from", "out", "--wide")
        self.assertGreater(max(map(len, self.shown(wide))), 100)


    def campaign_of(self, name, factor, status="ok"):
        variants = ("kmeans_serial", "kmeans_cuda_persistent_with_a_name_that_is_much_longer", "kmeans_openmp")
        times = [10.0 + 0.001 * i for i in range(20)]
        rows = []
        for round_number in range(1, 9):
            rows += [ledgers.row(variant, [factor ** place * each for each in times], round_number=round_number,
                                 name=f"article004/n=100k/{variant}/f32")
                     for place, variant in enumerate(variants)]
            rows.append(ledgers.row("kmeans_simd", None if status != "ok" else times, status,
                                    round_number=round_number, name="article004/n=100k/kmeans_simd/f32",
                                    message="why " * 60))
        ledgers.write(self.folder / name, [ledgers.header(), *rows])

    def fits(self, text):
        for line in self.shown(text):
            self.assertLessEqual(len(line), 100, line)

    def test_compare(self):
        self.campaign_of("base", 1.0)
        self.campaign_of("new", 1.5, "wrong")
        text = self.on_a_terminal("compare", "base", "new", exit_code=2)
        self.fits(text)
        lines = self.shown(text)
        self.assertIn("4 cells: 1 wrong, 2 slower, 1 same; geometric mean of the ratios ", " ".join(lines))
        self.assertEqual(self.colours_of(text, "kmeans_cuda_persis"), {"\x1b[1;31m"})
        self.assertIn("next: two builds turn by turn, which tells smaller changes", lines)
        self.assertIn("  clusterbench gate --base BUILD --new BUILD --full", text)
        self.campaign_of("again", 1.0)
        faster = self.on_a_terminal("compare", "base", "again")
        self.assertEqual(COLOUR.findall(faster), [])  # nothing to be told
        self.assertNotIn("\x1b", self.run_program("compare", "base", "new", exit_code=2).stdout)

    def test_history(self):
        self.campaign_of("base", 1.0)
        self.campaign_of("new", 1.5)
        text = self.on_a_terminal("history", "base", "new")
        self.fits(text)
        self.assertIn("4 cells, 2 changes (>)", text)
        self.assertIn("\x1b[1;31m", self.colours_of(text, "slower at new: times 1.5"))

    def test_list_and_explain(self):
        text = self.on_a_terminal("list")
        self.fits(text)
        self.assertRegex(text, r"\d+ variants can run here, \d+ cannot")
        self.campaign_of("base", 1.0)
        text = self.on_a_terminal("explain", "kmeans_serial", "kmeans_openmp", "--from", "base", "--source", SOURCE)
        self.assertIn("\x1b[1;32m", {match[0] for match in COLOUR.finditer(text)})  # lines that came in
        self.assertRegex(text, r"kmeans_openmp against kmeans_serial, per iteration: .*on 1 of 1 cell")


class Digits(Terminal):
    def shown_ms(self, samples):
        row = ledgers.row("kmeans_serial", samples, table="article004", passes=10,
                          words=ledgers.problem({"id": "n=100", "data": "article004-100", "k": 5, "init": "rows:1,3,6,8",
                                                 "stop": "iterations", "max_iterations": 300}))
        ledgers.write(self.folder / "out", [ledgers.header(), row])
        text = self.run_program("table", "article004", "--from", "out").stdout
        return re.search(r"kmeans_serial +([\d.]+)", text.split("ms/iteration")[1])[1]

    def test_as_many_as_the_interval_bears_out(self):
        spread = [-1, -0.8, -0.5, -0.2, 0, 0.2, 0.5, 0.8, 1]
        for percent, digits in ((20, "12"), (0.05, "12.35")):
            with self.subTest(percent):
                samples = [123.456 * (1 + each * percent / 100) for each in spread]
                self.assertEqual(self.shown_ms(samples), digits)


if __name__ == "__main__":
    unittest.main()
