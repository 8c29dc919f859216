#!/usr/bin/env python3
"""Hostile runs of the program, drawn from a seed, and what must hold after each of them:

1. it ends with a documented exit code;
2. where that says bad input or no output, its message names the cause, in plain text;
3. rows that were written before are still there, and the ledger is sound;
4. no process and no temporary file is left;
5. the same command afterwards, unharmed, gives the right answer.

Prints a line for each attempt that fails, with the seed that repeats it alone, and a count.

Attempts may be made over many runs: `--record FILE` goes on where FILE ends, and adds what was done.
A first SIGINT or SIGTERM begins no more attempts."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import harms
import record

DOCUMENTED = {0, 1, 2, 3, 4, 5, 6, 64, 74, 130}
RAW = re.compile(r"terminate called|what\(\):|^Segmentation fault|core dumped|std::|nlohmann|json\.exception|"
                 r"filesystem error|Sanitizer|\x1b|basic_string|stoul|bad_alloc", re.M)
SECONDS = 180  # after which a run counts as hanging, on any machine


class Trial:
    def __init__(self, program, tables, seed):
        self.program, self.tables, self.seed = program, tables, seed
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="clusterbench-trial-"))
        self.cache = self.root / "cache"
        self.earlier = self.root / "earlier"
        done = self.run_plainly(["run", "--data", "uniform:50,2,1", "--k", "2", "--iterations", "2", "--variant",
                                 "kmeans_serial", "--samples", "1", "--budget", "0", "--no-probe", "--threads", "1",
                                 "--out", str(self.earlier)], self.root, "first")
        if done.returncode != 0:
            sys.exit(f"a plain run fails: {done.stderr}")
        header = json.loads((self.earlier / "ledger.jsonl").read_text().splitlines()[0])
        build = header["provenance"]["build"]
        self.commit = build["git_commit"][:10] + ("+" if build["git_dirty"] else "")

    def environment(self, folder, mark):
        plain = {name: value for name, value in os.environ.items() if name != "CLUSTERBENCH_FOLDER"}
        return dict(plain, CLUSTERBENCH_CACHE=str(self.cache), CLUSTERBENCH_TABLES=self.tables, TRIAL_MARK=mark,
                    TMPDIR=str(folder / "tmp"), NO_COLOR="1", ASAN_OPTIONS="handle_segv=0:handle_abort=0:detect_leaks=0")

    def run_plainly(self, arguments, folder, mark):
        (folder / "tmp").mkdir(exist_ok=True)
        return subprocess.run([self.program, *arguments], env=self.environment(folder, mark), cwd=folder, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, capture_output=True, timeout=1200, check=False,
                              start_new_session=True)  # of a signal to the trial it gets nothing

    def run_harmed(self, attempt, mark):
        """Exit code and standard error; None where it hangs."""
        environment = self.environment(attempt.folder, mark)
        for name, value in attempt.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        (attempt.folder / "tmp").mkdir()

        def before_exec():
            for which, most in attempt.limits.items():
                resource.setrlimit(which, (most, most))
            for descriptor, path in attempt.streams.items():
                os.close(descriptor)
                if path is not None:
                    os.dup2(os.open(path, os.O_RDWR), descriptor)

        process = subprocess.Popen([attempt.program, *attempt.arguments(), *attempt.extra], env=environment,
                                   cwd=attempt.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, preexec_fn=before_exec, start_new_session=True)
        timers = [threading.Timer(when, act, [process]) for when, act in attempt.while_running]
        for timer in timers:
            timer.start()
        try:
            message = process.communicate(timeout=SECONDS)[1]
            code = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            for number in self.left_running(mark):  # whoever holds the pipe
                os.kill(number, signal.SIGKILL)
            message = process.communicate()[1]
            code = None
        for timer in timers:
            timer.cancel()
            timer.join()
        return code, message.decode(errors="replace")

    def left_running(self, mark):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark.encode() in (process / "environ").read_bytes():
                    if (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                        found.append(int(process.name))
            except (OSError, IndexError):
                continue
        return found

    def attempt(self, number):
        """What does not hold; and what was done."""
        rng = harms.Random(self.seed * 1_000_003 + number)
        folder = self.root / str(number)
        folder.mkdir()
        attempt = harms.Attempt(number, folder, self.program, rng)
        shutil.copytree(self.earlier, attempt.out)
        attempt.good_files()
        before = (attempt.out / "ledger.jsonl").read_bytes()
        first_out = attempt.out
        for harm in rng.sample(harms.HARMS, rng.choice([1, 1, 1, 2])):
            harm(attempt)
        if not (first_out / "ledger.jsonl").exists():
            before = b""
        mark = "clusterbench-trial-" + uuid.uuid4().hex
        code, message = self.run_harmed(attempt, mark)
        broken = []
        if code is None:
            broken.append(f"it does not end within {SECONDS} s")
        elif code not in DOCUMENTED | attempt.codes or code not in attempt.codes and len(attempt.what) == 1:
            broken.append(f"exit code {code}, right are {sorted(attempt.codes)}")
        if raw := RAW.search(message):
            broken.append(f"raw text in its message: {raw[0]!r}")
        if code in (64, 74) and 2 not in attempt.streams and not any(
                cause and cause in message for cause in attempt.causes):
            broken.append(f"the message names none of {attempt.causes}")
        deadline = time.monotonic() + 30
        while (left := self.left_running(mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            broken.append(f"left running: {left}")
        if code != -9 and (files := os.listdir(folder / "tmp")):
            broken.append(f"left in the folder of temporary files: {files}")
        ledger = first_out / "ledger.jsonl"
        if ledger.exists() and not ledger.read_bytes().startswith(before):
            broken.append("rows written before are gone")
        broken += self.after(attempt)
        if not broken:
            shutil.rmtree(folder, ignore_errors=True)
        return broken, attempt, message

    def after(self, attempt):
        """The same command, unharmed."""
        if attempt.out.is_file():
            attempt.out.unlink()
        attempt.good_files()
        done = self.run_plainly(attempt.arguments(), attempt.folder, "after")
        if done.returncode != 0:
            return [f"afterwards, unharmed: exit code {done.returncode}: {done.stderr[-300:]}\n{done.stdout[:900]}"]
        rows = [json.loads(line) for line in (attempt.out / "ledger.jsonl").read_text().splitlines()]
        newest = {row["variant"]: row["status"] for row in rows
                  if row["type"] == "cell" and row["variant"] in attempt.variants}
        wrong = {name: newest.get(name) for name in attempt.variants if newest.get(name) != "ok"}
        if wrong:
            return [f"afterwards, unharmed: {wrong}"]
        sound = self.run_plainly(["ledger", "check", str(attempt.out / "ledger.jsonl")], attempt.folder, "check")
        return [] if sound.returncode == 0 else [f"the ledger is damaged: {sound.stdout[-200:]}{sound.stderr[-200:]}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.environ.get("CLUSTERBENCH_BINARY", "build/release/clusterbench"))
    parser.add_argument("--tables", default=str(pathlib.Path(__file__).parents[2] / "results" / "tables"))
    parser.add_argument("--attempts", type=int, default=200)
    parser.add_argument("--first", type=int, help="number of the first attempt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="begin no attempt after so long")
    parser.add_argument("--record", help="a file of what was done, to go on after")
    arguments = parser.parse_args()
    if arguments.record and arguments.first is not None:
        parser.error("--record says where to begin, and --first as well")
    trial = Trial(str(pathlib.Path(arguments.program).resolve()), arguments.tables, arguments.seed)
    begin = time.monotonic()
    done = failed = 0
    so_far = record.Record(arguments.record, arguments.seed, trial.commit) if arguments.record else None
    enough = threading.Event()
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, lambda *_: enough.set())

    def one(number):
        if arguments.minutes and time.monotonic() - begin > 60 * arguments.minutes:
            enough.set()
        return None if enough.is_set() else trial.attempt(number)

    first = so_far.row["first"] if so_far else arguments.first or 0
    numbers = range(first, first + arguments.attempts)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(one, numbers):
            if result is None:
                continue
            broken, attempt, message = result
            done += 1
            if so_far:
                so_far.add(bool(broken))
            if broken:
                failed += 1
                print(f"attempt {attempt.number}: {'; '.join(attempt.what)}\n  " + "\n  ".join(broken)
                      + f"\n  it said: {message[-400:].strip()!r}\n  again: {sys.argv[0]} --seed {arguments.seed} "
                      f"--first {attempt.number} --attempts 1", flush=True)
    shutil.rmtree(trial.root, ignore_errors=True)
    print(f"{done} attempts with seed {arguments.seed}, {failed} failed, {time.monotonic() - begin:.0f} s")
    if so_far:
        attempts, failures = record.totals(so_far.path)
        print(f"{so_far.path}: {attempts} attempts in all, {failures} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
