"""The program as a user meets it: runs it, keeps its folders apart, reads what it wrote."""

import array
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import time
import unittest
import uuid

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
BINARY = os.environ["CLUSTERBENCH_BINARY"]
FAULTY = os.environ["CLUSTERBENCH_FAULTY"]

# Seconds that a program may take. It ends what hangs; slow machines are slow, and busy ones slower.
PATIENCE = 1200
# One sample of everything, and no probe: what is tested here is not how fast it is.
QUICK = ["--samples", "1", "--budget", "0", "--no-probe", "--threads", "1"]
# A run that nothing is wrong with.
GOOD = ["--data", "uniform:50,2,1", "--k", 3, "--iterations", 2, "--variant", "kmeans_serial"]


def replaced(*changes):
    """GOOD with some options set to other values, or to None: left out."""
    options = dict(zip(GOOD[::2], GOOD[1::2]))
    options.update(zip(changes[::2], changes[1::2]))
    return [word for item in options.items() if item[1] is not None for word in item]


def ledger(folder):
    """The header lines and the cell lines of a campaign's ledger; every line must be whole."""
    text = (pathlib.Path(folder) / "ledger.jsonl").read_bytes()
    assert text.endswith(b"\n"), "torn last line"
    lines = [json.loads(line) for line in text.decode("utf-8").splitlines()]
    return ([line for line in lines if line["type"] == "header"],
            [line for line in lines if line["type"] == "cell"])


def write_fbin(path, values, cols, times=1):
    """`values`, floats of whole rows, so many times."""
    block = array.array("f", values).tobytes()
    rows = len(values) // cols * times
    with open(path, "wb") as file:
        file.write(struct.pack("<II", rows, cols))
        for _ in range(times):
            file.write(block)


def clouds(rows, cols, seed=1):
    drawn = random.Random(seed)
    return [drawn.gauss(i % 5 * 3, 1) for i in range(rows) for _ in range(cols)]


def too_late(rows):
    """Whether a --timeout was too short for this machine: it ended what does not hang, or what
    does so in its qualification. It is the limit of a whole process."""
    def in_time(row):
        return (row["status"] != "timed_out" or row["variant"].endswith("_hangs_early")
                or row["variant"].endswith("_hangs") and row["message"].startswith("killed"))
    return not all(map(in_time, rows))


class Program(unittest.TestCase):
    """Every test has a folder of its own, in which the program runs; a class shares a cache."""

    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.mkdtemp(prefix="clusterbench-cache-")
        cls.addClassCleanup(shutil.rmtree, cls.cache, ignore_errors=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="clusterbench-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # Children inherit the mark, so that whatever is left running can be found.
        self.mark = "clusterbench-test-" + uuid.uuid4().hex
        self.environment = dict(os.environ, CLUSTERBENCH_CACHE=self.cache, TEST_MARK=self.mark,
                                CLUSTERBENCH_TABLES=str(SOURCE / "results" / "tables"),
                                # Under AddressSanitizer a crash is to be a crash, too.
                                ASAN_OPTIONS="handle_segv=0:handle_abort=0:detect_leaks=0")
        # A program finds its modules beside itself.
        self.environment.pop("CLUSTERBENCH_FOLDER", None)

    def start(self, *arguments, program=BINARY):
        """The program, running; its output is read by communicate()."""
        return subprocess.Popen([program, *map(str, arguments)], cwd=self.folder,
                                env=self.environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_program(self, *arguments, exit_code=0, program=BINARY, timeout=PATIENCE):
        """The program, run to its end, which must be `exit_code`, or one of several; output as
        text."""
        done = subprocess.run([program, *map(str, arguments)], cwd=self.folder,
                              env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout)
        done.stdout = done.stdout.decode("utf-8")
        done.stderr = done.stderr.decode("utf-8")
        if "this machine has no whole sandbox" in done.stderr:  # judge runs no stranger's file then
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertIn(done.returncode, exit_code if isinstance(exit_code, tuple) else (exit_code,),
                      f"{' '.join(map(str, arguments))}\n{done.stdout}\n{done.stderr}")
        return done

    def campaign(self, *arguments, exit_code=0, program=BINARY, out="out"):
        """A quick campaign into the folder `out`; returns its cell lines."""
        self.run_program("run", *arguments, *QUICK, "--out", out, exit_code=exit_code,
                         program=program)
        return ledger(self.folder / out)[1]

    def campaign_during(self, act, *arguments, lines, undo=lambda: None, program=BINARY):
        """A quick campaign into the folder `out`, and act(process) when its ledger has so many
        lines; returns its exit code and what it said. Again where this test was given no processor
        until the campaign was all but over."""
        path = self.folder / "out" / "ledger.jsonl"

        def written():
            return path.read_bytes().count(b"\n") if path.exists() else 0

        for attempt in range(5):
            if attempt > 0:
                shutil.rmtree(path.parent)
                undo()
            process = self.start("run", *arguments, *QUICK, "--out", "out", program=program)
            while written() < lines and process.poll() is None:
                time.sleep(0.002)
            act(process)
            before = written()
            errors = process.communicate(timeout=PATIENCE)[1].decode()
            if process.returncode != 0 or written() > before + 1:
                break
        return process.returncode, errors

    def wait_until_none_is_left(self):
        deadline = time.monotonic() + 30  # a child learns of its parent's death from the kernel
        while self.left_running() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.left_running(), [])

    def left_running(self):
        """Processes that this test's program has left behind."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes()
                state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except (OSError, IndexError):
                continue  # it ended meanwhile, or it is not ours
            if self.mark.encode() in environment and state != "Z":
                found.append(int(process.name))
        return found
