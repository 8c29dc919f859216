"""A program that holds a right variant and faulty ones, without any library: what tests of the
peer protocol talk to. What follows kmeans_fake in a variant's name is its fault; it strikes in
problems of more than 1500 points, which is beyond the qualification, or when the variant is loaded
or prepared."""

import array
import json
import os
import signal
import sys
import threading
import time

LARGE = 1500
FAULTS = ["dies", "exits", "hangs", "prints_rubbish", "lies", "claims_nothing",
          "claims_a_nanosecond", "boasts", "answers_wrong", "writes_too_little", "shrinks_files",
          "raises", "refuses", "says_nothing", "long_line", "wrong_reply", "replies_twice",
          "unavailable", "closes", "no_numbers", "leaves_a_process", "floods_errors",
          "floods_output", "starts_a_thread", "computes_late", "says_nan", "endless_phase",
          "negative_phase", "endless_context"]


def describe():
    return {"protocol": 2, "variants": [
        {"name": "kmeans_fake" + (f"_{fault}" if fault else ""), "idea": "a test's program",
         "source": "tests", "precisions": ["f64"], "gives_entering": True}
        for fault in ["", *FAULTS]]}


def read(path, width):
    values = array.array("d")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return [values[i:i + width].tolist() for i in range(0, len(values), width)]


def write(path, code, values):
    with open(path, "r+b") as file:
        array.array(code, values).tofile(file)


class Fake:
    def __init__(self):
        self.fault = ""
        self.runs = 0

    def strikes(self, fault):
        return self.fault == fault and len(self.rows) > LARGE

    def load(self, request):
        self.fault = request["variant"].removeprefix("kmeans_fake").removeprefix("_")
        if self.fault == "unavailable":
            return {"reply": "unavailable", "reason": "planted: no library"}
        if os.path.exists(os.path.join(os.path.dirname(__file__), "gone")):  # a test made it
            return {"reply": "unavailable", "reason": "planted: gone"}
        if self.fault == "endless_context":
            return {"context_s": 1e308}
        return {"versions": {"fake": "1"}}

    def points(self, request):
        rows = read(request["points"], request["d"])
        self.rows = rows[request["rotate"]:] + rows[:request["rotate"]]
        self.files = request
        self.passes = request["stop"]["max_iterations"]
        return {}

    def prepare(self, _):
        if self.fault == "refuses":
            return {"reply": "refused", "reason": "planted: not today"}
        return {"seconds": 1e-6}

    def run(self, request):
        self.runs += request["request"] == "run"
        if self.strikes("starts_a_thread") and self.runs == 3:  # for ever
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        centroids = read(self.files["start"], len(self.rows[0]))
        begin = time.perf_counter()
        if len(self.rows) > LARGE:
            reply = self.strike()
            if reply is not None:
                return reply
        for _ in range(self.passes):
            self.entering = centroids
            self.labels = [min(range(len(centroids)), key=lambda j: sum(
                (a - b) ** 2 for a, b in zip(x, centroids[j]))) for x in self.rows]
            sums = [[0.0] * len(centroids[0]) + [0] for _ in centroids]
            for x, label in zip(self.rows, self.labels):
                for f, value in enumerate(x):
                    sums[label][f] += value
                sums[label][-1] += 1
            centroids = [[value / row[-1] for value in row[:-1]] if row[-1] else before
                         for row, before in zip(sums, centroids)]
        self.centroids = centroids
        seconds = time.perf_counter() - begin
        if self.strikes("lies"):
            time.sleep(0.05)
            seconds = 1e-6
        elif self.strikes("claims_nothing"):  # longer than waiting for a processor may explain
            time.sleep(0.05)
            seconds = 0.0
        elif self.strikes("claims_a_nanosecond"):
            seconds = 1e-9
        elif self.strikes("boasts"):
            seconds += 10.0
        elif self.strikes("answers_wrong"):
            self.labels[7] = (self.labels[7] + 1) % len(centroids)
        elif self.strikes("no_numbers"):
            return {"seconds": "none", "iterations": "many"}
        elif self.strikes("says_nan"):
            seconds = float("nan")
        elif self.strikes("endless_phase"):  # a number, and none in milliseconds
            return {"seconds": seconds, "iterations": self.passes, "phases": {"assign": 1.5e306}}
        elif self.strikes("negative_phase"):
            return {"seconds": seconds, "iterations": self.passes, "phases": {"assign": -1}}
        return {"seconds": seconds, "iterations": self.passes}

    def whole(self, request):
        prepared = self.prepare(request)
        ran = self.run(request) if "reply" not in prepared else prepared
        if "reply" not in ran:
            ran |= {"prepare_s": 0.0, "run_s": ran["seconds"], "download_s": 0.0}
        return ran

    def strike(self):
        if self.fault == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif self.fault == "exits":
            os._exit(3)
        elif self.fault == "hangs":
            time.sleep(1000)
        elif self.fault == "prints_rubbish":
            print("planted: Lloyd's algorithm, pass 1\n{\"seconds\": 0}\n[1]\nnull\n\x00\xff")
        elif self.fault == "raises":
            return {"reply": "error", "message": "planted: the device is on fire"}
        elif self.fault == "long_line":
            print("x" * (3 << 20), end="")
        elif self.fault == "floods_errors":
            while True:
                os.write(2, b"planted\n" * (1 << 17))
        elif self.fault == "floods_output":
            while True:
                print("planted")
        elif self.fault == "wrong_reply":
            return {"reply": "take"}
        elif self.fault == "closes":
            sys.stdout.flush()
            os.closerange(0, 2)
            time.sleep(1000)
        elif self.fault == "leaves_a_process" and os.fork() == 0:
            os.setsid()
            os.closerange(0, 3)
            time.sleep(1000)
            os._exit(0)
        return None

    def take(self, _):
        if self.strikes("computes_late"):  # after its run, where no clock of its own counts
            time.sleep(0.5)
        files = self.files["answer"]
        centroids = [value for row in self.centroids for value in row]
        if self.strikes("writes_too_little"):
            centroids.pop()
        write(files["labels"], "i", self.labels)
        write(files["centroids"], "d", centroids)
        write(files["entering"], "d", [value for row in self.entering for value in row])
        if self.strikes("shrinks_files"):
            os.truncate(files["labels"], 4)
        return {"seconds": 1e-6}


fake = Fake()
for line in sys.stdin:
    asked = json.loads(line)
    name = asked["request"]
    if name == "describe":
        answer = describe()
    elif name == "ping":
        answer = {}
    elif fake.fault == "says_nothing":
        sys.exit(0)
    else:
        answer = getattr(fake, name)(asked)
    reply = json.dumps({"reply": name, **answer})
    twice = name in ("run", "whole") and fake.strikes("replies_twice")
    print(reply, *([reply] if twice else []), sep="\n", flush=True)
