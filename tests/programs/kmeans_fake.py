"""A program that holds right variants and faulty ones, without any library: what tests of the peer
protocol talk to. What follows kmeans_fake in a variant's name is its fault; it strikes in problems of
more than 1500 points, which is beyond the qualification, or when the variant is loaded or prepared."""

import array
import json
import os
import signal
import sys
import time

LARGE = 1500
FAULTS = ["dies", "exits", "hangs", "prints_rubbish", "lies", "claims_nothing", "boasts",
          "answers_wrong", "writes_too_little", "raises", "refuses", "says_nothing", "long_line",
          "wrong_reply", "unavailable", "closes", "no_numbers"]


def describe():
    return {"protocol": 2, "variants": [
        {"name": "kmeans_fake" + (f"_{fault}" if fault else ""), "idea": "a test's program",
         "source": "tests", "precisions": ["f64"]} for fault in ["", *FAULTS]]}


def read(path, width):
    values = array.array("d")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return [values[i:i + width].tolist() for i in range(0, len(values), width)]


def write(path, code, values):
    with open(path, "wb") as file:
        array.array(code, values).tofile(file)


class Fake:
    def __init__(self):
        self.fault = ""

    def load(self, request):
        self.fault = request["variant"].removeprefix("kmeans_fake").removeprefix("_")
        if self.fault == "unavailable":
            return {"reply": "unavailable", "reason": "planted: no library"}
        return {"versions": {"fake": "1"}}

    def prepare(self, request):
        if self.fault == "refuses":
            return {"reply": "refused", "reason": "planted: not today"}
        self.points = read(request["points"], request["d"])
        self.passes = request["stop"]["max_iterations"]
        return {}

    def run(self, request):
        centroids = read(request["centroids"], len(self.points[0]))
        begin = time.perf_counter()
        if len(self.points) > LARGE:
            reply = self.strike()
            if reply is not None:
                return reply
        for _ in range(self.passes):
            self.labels = [min(range(len(centroids)), key=lambda j: sum(
                (a - b) ** 2 for a, b in zip(x, centroids[j]))) for x in self.points]
            sums = [[0.0] * len(centroids[0]) + [0] for _ in centroids]
            for x, label in zip(self.points, self.labels):
                for f, value in enumerate(x):
                    sums[label][f] += value
                sums[label][-1] += 1
            centroids = [[value / row[-1] for value in row[:-1]] if row[-1] else before
                         for row, before in zip(sums, centroids)]
        self.centroids = centroids
        seconds = time.perf_counter() - begin
        if len(self.points) > LARGE:
            if self.fault == "lies":
                time.sleep(0.05)
                seconds = 1e-6
            elif self.fault == "claims_nothing":
                seconds = 0.0
            elif self.fault == "boasts":
                seconds += 10.0
            elif self.fault == "answers_wrong":
                self.labels[7] = (self.labels[7] + 1) % len(centroids)
            elif self.fault == "no_numbers":
                return {"iterations": "many"}
        return {"seconds": seconds, "iterations": self.passes}

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
        elif self.fault == "wrong_reply":
            return {"reply": "fetch"}
        elif self.fault == "closes":
            sys.stdout.flush()
            os.close(1)
            time.sleep(1000)
        return None

    def fetch(self, request):
        centroids = [value for row in self.centroids for value in row]
        if self.fault == "writes_too_little" and len(self.points) > LARGE:
            centroids.pop()
        write(request["labels"], "i", self.labels)
        write(request["centroids"], "d", centroids)
        return {}


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
    print(json.dumps({"reply": name, **answer}), flush=True)
