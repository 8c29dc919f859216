"""A campaign may be stopped at any moment: no line is lost or torn, and --resume goes on."""

import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import time
import unittest

from program import FAULTY, PATIENCE, Program, QUICK, ledger

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]
# They end a program as well, if it does nothing against them.
SELDOM = [signal.SIGIO, signal.SIGPWR, signal.SIGVTALRM, signal.SIGPROF, signal.SIGSTKFLT, signal.SIGRTMIN,
          signal.SIGRTMIN + 7, signal.SIGRTMAX]
CELLS = [*PROBLEM, "--precision", "f32", "--precision", "f64", "--variant", "kmeans_serial*",
         "--variant", "kmeans_openmp", "--rounds", 3]


def cells(rows):
    return sorted((row["name"], row["round"]) for row in rows)


def seconds_of_children():
    """The processor time of all that have ended: on a busy machine more passes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Interrupted(Program):
    def wait_for_lines(self, process, number, out="out"):
        path = self.folder / out / "ledger.jsonl"
        while not path.exists() or path.read_bytes().count(b"\n") < number:
            self.assertIsNone(process.poll(), "ended before it could be interrupted")
            time.sleep(0.005)

    def wait_for_status(self, process, field, is_enough):
        """Until what the kernel says of the process is enough."""
        while True:
            self.assertIsNone(process.poll(), "ended before it could be interrupted")
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(rf"{field}:\s+(\w+)", status)  # one that is ending has no memory
            if found and is_enough(found[1]):
                return
            time.sleep(0.005)

    def end(self, process, timeout=PATIENCE):
        _, errors = process.communicate(timeout=timeout)
        self.assertEqual(self.left_running(), [])
        return errors.decode()

    def check_signal(self, number):
        slow = [*PROBLEM, "--variant", "kmeans_faulty_slow", "--variant", "kmeans_serial*",
                "--rounds", 2]
        code, errors = self.campaign_during(lambda process: process.send_signal(number), *slow,
                                            lines=3, program=FAULTY)
        self.assertEqual(self.left_running(), [])
        self.assertEqual(code, 130)
        self.assertIn("--resume", errors)
        _, before = ledger(self.folder / "out")
        self.assertLessEqual({row["status"] for row in before}, {"ok", "refused", "interrupted"})
        finished = [row for row in before if row["status"] != "interrupted"]

        done = self.run_program("run", *slow, *QUICK, "--out", "out", "--resume", program=FAULTY)
        self.assertIn(f"re-used {len(finished)} rows", done.stderr)
        _, after = ledger(self.folder / "out")
        self.assertEqual(after[:len(before)], before)
        whole = self.campaign(*slow, program=FAULTY, out="whole")
        final = [row for row in after if row["status"] != "interrupted"]
        self.assertEqual(cells(final), cells(whole))
        names = [benchmark["name"] for benchmark in
                 json.loads((self.folder / "out" / "gbench.json").read_text())["benchmarks"]]
        self.assertEqual(set(names), {row["name"] for row in whole if row["status"] == "ok"})

    def test_sigint(self):
        self.check_signal(signal.SIGINT)

    def test_sigterm(self):
        self.check_signal(signal.SIGTERM)

    def test_sighup(self):
        self.check_signal(signal.SIGHUP)

    def test_sigusr1(self):
        self.check_signal(signal.SIGUSR1)

    def test_seldom_signals(self):
        """As an interrupt they leave nothing behind."""
        temporary = self.folder / "tmp"
        temporary.mkdir()
        self.environment["TMPDIR"] = str(temporary)
        for number in SELDOM:
            with self.subTest(signal=number):
                out = f"out{int(number)}"
                process = self.start("run", *PROBLEM, "--variant", "kmeans_faulty_hangs", *QUICK, "--out", out,
                                     program=FAULTY)
                self.wait_for_lines(process, 1, out)
                while not list(temporary.iterdir()):
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertIn("--resume", self.end(process))
                self.assertEqual(process.returncode, 130)
                self.assertEqual(list(temporary.iterdir()), [])

    def test_a_seldom_signal_that_is_ignored(self):
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" PROF; exec "$@"', "sh", FAULTY, "run", *map(str, PROBLEM), "--variant",
             "kmeans_faulty_slow", *QUICK, "--out", "out"], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.wait_for_lines(process, 1)
        process.send_signal(signal.SIGPROF)
        self.end(process)
        self.assertEqual(process.returncode, 0)

    def test_a_hangup_that_is_ignored(self):
        """As under nohup."""
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", FAULTY, "run", *map(str, PROBLEM),
             "--variant", "kmeans_faulty_slow", *QUICK, "--out", "out"], cwd=self.folder,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.wait_for_lines(process, 1)
        process.send_signal(signal.SIGHUP)
        self.end(process)
        self.assertEqual(process.returncode, 0)

    def test_commands_that_only_print(self):
        """They end at once, with the same code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
                       signal.SIGUSR2, signal.SIGALRM, signal.SIGXCPU, *SELDOM):
            process = self.start("probe", "--threads", 1)
            self.wait_for_status(process, "SigCgt", lambda mask: int(mask, 16) >> number - 1 & 1)
            time.sleep(0.3)  # at work
            process.send_signal(number)
            self.assertIn("interrupted", self.end(process))
            self.assertEqual(process.returncode, 130)

    def test_while_data_are_made(self):
        """That takes seconds, and nothing is written yet: it ends at once."""
        process = self.start("run", "--data", "uniform:40000000,4,1", "--k", 2, "--iterations", 1,
                             "--variant", "kmeans_serial", *QUICK, "--out", "out")
        self.wait_for_status(process, "VmRSS", lambda size: int(size) > 100000)  # KiB of 640 MB
        process.send_signal(signal.SIGTERM)
        errors = self.end(process)
        self.assertEqual(process.returncode, 130)
        self.assertIn("while data were made", errors)
        self.assertFalse((self.folder / "out" / "ledger.jsonl").exists())

    def test_while_a_peer_is_asked(self):
        """The peer goes with the program that asks it."""
        for text in ("sleep 100", "sleep 100 & wait"):
            peer = self.folder / "kmeans_own.sh"
            peer.write_text(f"#!/bin/sh\ntouch asked\n{text}\n")
            peer.chmod(0o755)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                with self.subTest(text, signal=number):
                    process = self.start("list", "--peer", peer)
                    while not (self.folder / "asked").exists():
                        self.assertIsNone(process.poll())
                        time.sleep(0.005)
                    process.send_signal(number)
                    errors = self.end(process)
                    self.assertEqual(process.returncode, 130)
                    self.assertIn("interrupted", errors)
                    (self.folder / "asked").unlink()

    def test_killed_while_a_peer_is_asked(self):
        peer = self.folder / "kmeans_own.sh"
        peer.write_text("#!/bin/sh\ntouch asked\nexec sleep 100\n")
        peer.chmod(0o755)
        process = self.start("list", "--peer", peer)
        while not (self.folder / "asked").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        process.kill()
        process.communicate()
        self.wait_until_none_is_left()

    def check_hanging_variant(self, variant):
        process = self.start("run", *PROBLEM, "--variant", variant, *QUICK, "--out", "out",
                             program=FAULTY)
        self.wait_for_lines(process, 1)  # the header
        time.sleep(0.3)  # long enough to hang; were it shorter, the outcome would be the same
        process.send_signal(signal.SIGINT)
        self.end(process)
        self.assertEqual(process.returncode, 130)
        _, rows = ledger(self.folder / "out")
        self.assertLessEqual({row["status"] for row in rows}, {"interrupted"})

    def test_among_a_million_samples(self):
        used = seconds_of_children()
        process = self.start("run", *PROBLEM, "--variant", "kmeans_serial", "--samples", 1000000,
                             "--budget", 0, "--no-probe", "--out", "out")
        self.wait_for_lines(process, 1)
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        self.end(process, timeout=300)
        self.assertEqual(process.returncode, 130)
        self.assertLess(seconds_of_children() - used, 10)  # all of them take half a minute

    def test_sigint_ends_a_hanging_variant_at_once(self):
        self.check_hanging_variant("kmeans_faulty_hangs")

    def test_sigint_during_the_qualification_is_no_verdict(self):
        self.check_hanging_variant("kmeans_faulty_hangs_early")

    def test_kill_at_random_moments(self):
        whole = cells(self.campaign(*CELLS, out="whole"))
        moments = random.Random(20261120)
        campaign, lines, kills = 0, b"", 0
        while kills < 50:
            out = f"out{campaign}"
            process = self.start("run", *CELLS, *QUICK, "--out", out, "--resume")
            try:
                process.communicate(timeout=moments.uniform(0.01, 0.3))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
            path = self.folder / out / "ledger.jsonl"
            now = path.read_bytes() if path.exists() else b""
            self.assertEqual(now[:len(lines)], lines)  # nothing that was whole is lost or changed
            lines = now[:now.rfind(b"\n") + 1]
            for line in lines.splitlines():
                json.loads(line)
            if process.returncode == 0:
                self.assertEqual(cells(ledger(self.folder / out)[1]), whole)
                campaign, lines = campaign + 1, b""
        self.run_program("run", *CELLS, *QUICK, "--out", f"out{campaign}", "--resume")
        self.assertEqual(cells(ledger(self.folder / f"out{campaign}")[1]), whole)
        self.wait_until_none_is_left()

    def test_killed_campaign_leaves_no_hanging_child(self):
        process = self.start("run", *PROBLEM, "--variant", "kmeans_faulty_hangs", *QUICK, "--out",
                             "out", program=FAULTY)
        self.wait_for_lines(process, 1)
        while len(self.left_running()) < 2:  # the program and its child
            time.sleep(0.01)
        process.kill()
        process.communicate()
        self.wait_until_none_is_left()

    def test_what_a_killed_campaign_left_among_temporary_files_goes_with_the_next(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        self.environment["TMPDIR"] = str(temporary)
        process = self.start("run", *PROBLEM, "--variant", "kmeans_faulty_hangs", *QUICK, "--out",
                             "out", program=FAULTY)
        self.wait_for_lines(process, 1)
        while not list(temporary.iterdir()):
            time.sleep(0.01)
        process.kill()
        process.communicate()
        self.wait_until_none_is_left()
        left = list(temporary.iterdir())
        self.assertNotEqual(left, [])
        for folder in left:
            os.utime(folder, (0, 0))
        self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        self.assertEqual(list(temporary.iterdir()), [])

    def test_torn_line_is_cut_off(self):
        first = self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        path = self.folder / "out" / "ledger.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole + b'{"type":"cell","schema":1,"status":"o')
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out",
                                "out", "--resume")
        self.assertIn("re-used 1 rows", done.stderr)
        self.assertTrue(path.read_bytes().startswith(whole))
        self.assertEqual(ledger(self.folder / "out")[1], first)

    def test_a_long_torn_line_is_cut_off_at_once(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        path = self.folder / "out" / "ledger.jsonl"
        whole = path.read_bytes()
        with path.open("ab") as file:
            for _ in range(100):
                file.write(b"x" * 1000000)
        used = seconds_of_children()
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out",
                                "out", "--resume", timeout=300)
        self.assertLess(seconds_of_children() - used, 20)
        self.assertIn("re-used 1 rows", done.stderr)
        self.assertTrue(path.read_bytes().startswith(whole))

    def test_line_without_its_end_is_run_again(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial")
        path = self.folder / "out" / "ledger.jsonl"
        path.write_bytes(path.read_bytes()[:-1])  # whole JSON, but nobody knows that it is
        done = self.run_program("run", *PROBLEM, "--variant", "kmeans_serial", *QUICK, "--out",
                                "out", "--resume")
        self.assertIn("re-used 0 rows", done.stderr)
        self.assertEqual(len(ledger(self.folder / "out")[1]), 1)


if __name__ == "__main__":
    unittest.main()
