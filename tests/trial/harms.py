"""What goes wrong in a hostile run. A harm changes an attempt: its files, its arguments, its
environment, its limits, or what happens to it while it runs. It says which exit codes are then
right, and which words tell the user the cause."""

import os
import pathlib
import random
import re
import resource
import signal
import struct
import sys

import numpy as np

HARMS = []


def harm(function):
    HARMS.append(function)
    return function


class Attempt:
    """One run of the program, and what was done to it."""

    def __init__(self, number, folder, program, rng):
        self.number, self.folder, self.program, self.rng = number, folder, program, rng
        self.data = folder / "points.npy"
        self.points = np.round(rng.np.normal(size=(60, 3)), 3).astype(np.float32)
        self.variants = rng.sample(["kmeans_serial", "kmeans_openmp", "kmeans_simd"], rng.randint(1, 2))
        self.extra = []              # arguments of the harmed run alone
        self.environment = {}        # of the harmed run alone; None: not set
        self.limits = {}             # resource -> bytes or number
        self.streams = {}            # descriptor -> path, or None: closed
        self.while_running = []      # (seconds, function of the process)
        self.codes = {0}
        self.causes = []             # words of which the message has one, where the code says bad input
        self.what = []
        self.out = folder / "out"
        self.loses_last_line = False # the ledger's last line was torn before the run

    def good_files(self):
        if self.data.is_dir():  # another harm
            self.data.rmdir()
        np.save(self.data, self.points)

    def arguments(self):
        arguments = ["run", "--data", str(self.data), "--k", "3", "--iterations", "4"]
        for variant in self.variants:
            arguments += ["--variant", variant]
        return arguments + ["--samples", "1", "--budget", "0", "--no-probe", "--threads", "1",
                            "--timeout", "20", "--out", str(self.out), "--resume"]

    def say(self, what, codes=(), causes=()):
        self.what.append(what)
        self.codes |= set(codes)
        self.causes += [str(cause) for cause in causes]


class Random(random.Random):
    def __init__(self, seed):
        super().__init__(seed)
        self.np = np.random.default_rng(seed)


# ---- files

def npy(text, data=b""):
    header = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@harm
def damaged_npy(attempt):
    rng, good = attempt.rng, attempt.data.read_bytes()
    kind = rng.choice(["cut", "flipped", "empty", "rubbish", "folder", "missing", "claims", "nan"])
    if kind == "cut":
        attempt.data.write_bytes(good[:rng.randrange(len(good))])
    elif kind == "flipped":
        bad = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(min(len(bad), 128))] ^= 1 << rng.randrange(8)
        attempt.data.write_bytes(bad)
    elif kind == "empty":
        attempt.data.write_bytes(b"")
    elif kind == "rubbish":
        attempt.data.write_bytes(rng.randbytes(rng.randint(1, 500)))
    elif kind == "folder":
        attempt.data.unlink()
        attempt.data.mkdir()
    elif kind == "missing":
        attempt.data.unlink()
    elif kind == "claims":
        shape = rng.choice(["(4294967296, 4294967296)", "(99999999999999999999, 3)", "(-1, 3)", "(0, 3)", "(60, 0)",
                            "(1000000000, 1000)", "()", "(60, 3, 1)", "(60,"])
        attempt.data.write_bytes(npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n",
                                     attempt.points.tobytes()))
    else:
        points = attempt.points.copy()
        points[rng.randrange(60), rng.randrange(3)] = rng.choice([np.nan, np.inf, -np.inf])
        np.save(attempt.data, points)
    attempt.say(f"npy: {kind}", {5, 64}, [attempt.data.name])


@harm
def damaged_csv(attempt):
    rng = attempt.rng
    attempt.data = attempt.folder / rng.choice(["points.csv", "Points.CSV", "with space.csv", "päth.csv"])
    good = "\n".join(",".join(f"{value:.3f}" for value in row) for row in attempt.points) + "\n"
    bad = rng.choice([
        good.replace(".", ",", 3), good.replace("\n", ";\n", 1), good[:-rng.randint(2, 40)] + "x",
        good.replace("\n", ",,\n", 2), "\x00" + good, good.replace("0", "\x00", 1), good.replace("1", "1e999", 1),
        good.replace("\n", "\n\n\n"), "a,b,c\n" + good, good.replace(",", ""), "," * 100000, "nan,inf,1\n" + good])
    raw = rng.choice([bad.encode(), bad.encode("utf-16"), b"\xef\xbb\xbf" + bad.encode(), bad.encode()[::-1]])

    def good_files():
        attempt.data.write_text(good)
    attempt.good_files = good_files
    attempt.data.write_bytes(raw)
    attempt.say("csv", {5, 64}, [attempt.data.name])


# ---- arguments

NUMBERS = ["0", "-1", "1e3", "x", "", " ", "99999999999999999999999", "1.5", "nan", "0x10", "３", "1 2", "+", "--"]


@harm
def bad_argument(attempt):
    rng = attempt.rng
    option = rng.choice(["--k", "--iterations", "--threads", "--samples", "--rounds", "--take", "--budget", "--timeout",
                         "--target", "--fuzzifier", "--seed", "--starts", "--max-iterations", "--min-time"])
    attempt.extra += [option, rng.choice(NUMBERS)]
    attempt.say(f"{' '.join(attempt.extra)!r}", {5, 64}, [option, "argument", "required"])


@harm
def bad_word(attempt):
    rng = attempt.rng
    option, words = rng.choice([
        ("--init", ["first:", "rows:", "rows:1,2", "rows:99,1,2", "random:", "kmeans++:x", "file:/nonexistent.npy",
                    "memberships:1", "rows:1,1,1", "r\x1bnd"]),
        ("--stop", ["loss:", "loss:-1", "labels:1", "shift:nan", "never", "loss:1e999"]),
        ("--variant", ["kmeans_none", "[", "", "*fcm*", "kmeans_serial\n", "../../x"]),
        ("--family", ["k", "", "fuzzy"]), ("--precision", ["f16", "", "F32"]),
        ("--peer", ["/nonexistent", "/dev/null", "/etc", ""]), ("--save", ["/dev/null/x", ""]),
        ("--data", ["", "uniform:", "uniform:1,1,1,1,1", "mixture:10,2", "uniform:99999999999,9999,1", "blobs\x00"[:5]])])
    attempt.extra += [option, rng.choice(words)]
    attempt.say(f"{attempt.extra!r}", {0, 2, 3, 5, 64, 74},
                [option, attempt.extra[-1].split(":", 1)[-1].strip() or option, option.strip("-")])


@harm
def unknown_argument(attempt):
    attempt.extra += [attempt.rng.choice(["--nothing", "-x", "no_such_table", "article004x", "--k=3=3", "-", "\x1b[31m"])]
    attempt.say(f"{attempt.extra!r}", {64}, [attempt.extra[-1].replace("\x1b", ""), "table", "argument", "--k"])


# ---- environment

@harm
def odd_environment(attempt):
    rng = attempt.rng
    name, values = rng.choice([
        ("HOME", [None, "/nonexistent", "/dev/null", ""]), ("CLUSTERBENCH_CACHE", ["/proc/none", "/dev/null", "", "/dev/full"]),
        ("TMPDIR", ["/nonexistent", "/dev/null", ""]), ("TERM", ["dumb", None, ""]), ("LANG", ["tr_TR.UTF-8", "xx"]),
        ("LC_ALL", ["de_DE.UTF-8", "C", ""]), ("PATH", [None, "", "/nonexistent"]), ("OMP_NUM_THREADS", ["0", "x", "100000"]),
        ("OMP_PROC_BIND", ["maybe"]), ("PYTHONPATH", ["/nonexistent"]), ("MALLOC_PERTURB_", ["165"]),
        ("CLUSTERBENCH_TABLES", ["/nonexistent", "/dev/null"])])
    value = rng.choice(values)
    attempt.environment[name] = value
    attempt.say(f"{name}={value}", {0, 64, 74} if name == "CLUSTERBENCH_TABLES" else {0}, [name, str(value)])


@harm
def odd_streams(attempt):
    for descriptor in attempt.rng.sample([0, 1, 2], attempt.rng.randint(1, 3)):
        attempt.streams[descriptor] = attempt.rng.choice([None, "/dev/null"] if descriptor == 0 else [None, "/dev/full"])
    attempt.say(f"streams {attempt.streams}", {74}, ["standard output"])


@harm
def limits(attempt):
    rng = attempt.rng
    name, most = rng.choice([("AS", rng.randint(20, 400) << 20), ("FSIZE", rng.choice([0, 100, 4000, 20000, 1 << 20])),
                             ("NOFILE", rng.randint(4, 40)), ("STACK", rng.randint(64, 1024) << 10),
                             ("CORE", 0), ("DATA", rng.randint(5, 200) << 20)])
    attempt.limits[getattr(resource, "RLIMIT_" + name)] = most
    attempt.say(f"limit {name} {most}", {2, 5, 64, 74}, ["memory", "file", "open", "allocat", "limit", "thread", "space", "write", "large",
                                                         "start", "stack", "Cannot", "cannot"])


# ---- what happens meanwhile

def minds(process, which):
    """Whether it does something of its own about a signal, or ignores it."""
    try:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    except FileNotFoundError:
        return True  # it has ended
    masks = re.findall(r"Sig(?:Cgt|Ign):\s+(\w+)", status)
    return any(int(mask, 16) >> which - 1 & 1 for mask in masks)


@harm
def signals(attempt):
    rng = attempt.rng
    interrupts = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM]
    which = rng.choice([*interrupts, signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ])
    when = rng.random() ** 2 * 0.8

    def send(process):
        # Before main() has begun nobody can handle a signal; the last of them is none of Python's.
        if which not in (signal.SIGSTOP, signal.SIGKILL) and process.poll() is None and not (
                minds(process, which) and minds(process, signal.SIGUSR1)):
            attempt.codes.add(-which)
        process.send_signal(which)
    attempt.while_running.append((when, send))
    if which == signal.SIGSTOP:
        attempt.while_running.append((when + rng.random() * 0.5, lambda process: process.send_signal(signal.SIGCONT)))
    codes = dict.fromkeys(interrupts, {130}) | {signal.SIGKILL: {-9}, signal.SIGSTOP: {5}}
    attempt.say(f"{which.name} after {when:.3f} s", codes.get(which, set()))


@harm
def kills_a_child(attempt):
    when = attempt.rng.random() * 0.6
    which = attempt.rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP, signal.SIGTERM])

    def send(process):
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            for child in children.read_text().split():
                # One that is still the program itself, stopped before it becomes the runner, stops its parent
                # in posix_spawn(), too: nobody can help then.
                if b"clusterbench-runner" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), which)
        except OSError:
            pass
    attempt.while_running.append((when, send))
    attempt.say(f"{which.name} to its children after {when:.3f} s", {5, 2})


@harm
def data_change(attempt):
    rng = attempt.rng
    when = rng.random() * 0.5
    attempt.points = np.round(rng.np.normal(size=(20000, 3)), 3).astype(np.float32)
    attempt.good_files()
    kind = rng.choice(["cut", "emptied", "removed", "overwritten"])

    def change(_):
        try:
            if kind in ("cut", "emptied"):
                os.truncate(attempt.data, 0 if kind == "emptied" else 1000)
            elif kind == "removed":
                attempt.data.unlink()
            else:
                with open(attempt.data, "r+b") as file:
                    file.seek(128)
                    file.write(rng.randbytes(4000))
        except OSError:
            pass
    attempt.while_running.append((when, change))
    attempt.say(f"data {kind} after {when:.3f} s", {2, 5, 64}, [attempt.data.name, "chang"])


# ---- the ledger of earlier runs

@harm
def odd_out(attempt):
    rng = attempt.rng
    kind = rng.choice(["file", "torn", "odd name", "lock", "no ledger"])
    if kind == "file":
        attempt.out = attempt.folder / "a file"
        attempt.out.write_text("mine")
        attempt.say("out is a file", {64, 74}, [attempt.out.name])
    elif kind == "torn":
        ledger = attempt.out / "ledger.jsonl"
        text = ledger.read_bytes()
        ledger.write_bytes(text + text.splitlines(True)[-1][:rng.randrange(1, 200)])
        attempt.loses_last_line = True
        attempt.say("torn line")
    elif kind == "odd name":
        attempt.out = attempt.folder / rng.choice(["with space", "quo'te\"", "-o", "ünïcode", "new\nline"])
        attempt.say(f"out {attempt.out.name!r}", {64}, ["out"])
    elif kind == "lock":
        (attempt.out / "lock").write_text("12345")
        attempt.say("a lock file is there")
    else:
        (attempt.out / "ledger.jsonl").unlink()
        attempt.say("no ledger")


# ---- peers that misbehave

PEERS = ["import time; time.sleep(600)", "print('rubbish')", "import sys; sys.exit(3)", "print('{}')", "print('[' * 100000)",
         "import os; os.kill(os.getpid(), 11)", "print('{\"reply\": \"describe\"}')",
         "import sys; sys.stdout.buffer.write(bytes(range(256)) * 100)",
         "print('{\"protocol\": 2, \"variants\": [{\"name\": \"kmeans_\\u001b[31m\", \"idea\": \"x\", \"precisions\": [\"f32\"]}]}')",
         "print('{\"protocol\": 99, \"variants\": []}')", "while True: print('y')"]


@harm
def bad_peer(attempt):
    peer = attempt.folder / "peer.py"
    peer.write_text(f"#!{sys.executable}\n{attempt.rng.choice(PEERS)}\n")
    peer.chmod(0o755)
    attempt.extra += ["--peer", str(peer)]
    attempt.say(f"peer: {peer.read_text().splitlines()[1][:60]}", {5, 64}, [peer.name])


# ---- variants that misbehave

FAULTS = ["segfaults", "segfaults_early", "aborts", "killed", "fills_memory", "asks_for_too_much", "throws", "throws_garbage",
          "throws_number", "exits_early", "exits_with_code", "prints_garbage", "prints_and_crashes", "leaves_a_process",
          "leaves_a_daemon", "writes_a_report", "refuses", "drops_tail", "wrong_once", "labels_off_by_one", "not_a_number"]


@harm
def faulty_variant(attempt):
    if "CLUSTERBENCH_FAULTY" not in os.environ:
        attempt.say("no faulty variants are here")
        return
    attempt.program = os.environ["CLUSTERBENCH_FAULTY"]  # the same program beside faulty modules
    attempt.points = np.round(attempt.rng.np.normal(size=(1600, 3)), 3).astype(np.float32)
    attempt.good_files()
    attempt.variants = ["kmeans_serial"]
    attempt.extra += ["--variant", "kmeans_faulty_" + attempt.rng.choice(FAULTS)]
    attempt.say(attempt.extra[-1], {0, 2, 5})
