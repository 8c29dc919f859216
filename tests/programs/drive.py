"""The harness's side of the peer protocol (docs/peers.md), for tests: starts a program, shares
memory with it, asks it, and reads its answers."""

import dataclasses
import fcntl
import json
import os
import select
import subprocess
import sys
import time

import numpy as np

ARRAYS = ("points", "weights", "start", "labels", "centroids", "entering", "memberships", "record")
DTYPES = {"f32": np.float32, "f64": np.float64}
POISON = b"\xff"  # every label becomes -1 and every number NaN
SIZE_IS_FIXED = 0x2 | 0x4  # F_SEAL_SHRINK, F_SEAL_GROW
READ_ONLY = SIZE_IS_FIXED | 0x10  # F_SEAL_FUTURE_WRITE


class Failure(Exception):
    """A reply of another name than the request's: refused, unavailable, error, out_of_memory; or
    `ended` and `silent`, where there is none."""

    def __init__(self, kind, message=""):
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


@dataclasses.dataclass
class Answer:
    labels: np.ndarray  # [n] int32
    centroids: np.ndarray  # [k, d]
    entering: np.ndarray  # [k, d], or None
    memberships: np.ndarray  # [n, k], or None
    recorded: np.ndarray  # [passes, k, d]; empty but after a recording run


class Program:
    """A running program. Its memory is inherited when it starts and gets another size with every
    problem. `sealed`, as the harness's memory is, it can be given once."""

    def __init__(self, *command, timeout=60.0, environment=()):
        self.files = {name: os.memfd_create(name, os.MFD_ALLOW_SEALING) for name in ARRAYS}
        self.timeout = timeout
        self.unread = b""
        self.noise = []  # lines that are no replies
        threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS")}
        if str(command[0]).endswith(".py"):
            command = (sys.executable, "-B", *command)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            pass_fds=list(self.files.values()), env={**os.environ, **threads, **dict(environment)})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # what it has not read is of no interest
        for file in self.files.values():
            os.close(file)

    def end(self):
        """Closes its standard input; its exit code."""
        self.process.stdin.close()
        return self.process.wait(self.timeout)

    # ---- requests

    def ask(self, request, **fields):
        """One request and its reply. Raises Failure."""
        line = json.dumps({"request": request, **fields}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure("ended") from None
        deadline = time.monotonic() + self.timeout
        while True:
            line = self.read_line(deadline)
            try:
                reply = json.loads(line)
            except ValueError:
                reply = None
            if not isinstance(reply, dict) or "reply" not in reply:
                self.noise.append(line)
                continue
            if reply["reply"] != request:
                raise Failure(reply["reply"], reply.get("reason", reply.get("message", "")))
            return reply

    def read_line(self, deadline):
        while b"\n" not in self.unread:
            output = self.process.stdout
            if not select.select([output], [], [], max(0, deadline - time.monotonic()))[0]:
                raise Failure("silent")
            got = os.read(output.fileno(), 1 << 16)
            if not got:
                raise Failure("ended")
            self.unread += got
        line, self.unread = self.unread.split(b"\n", 1)
        return line

    def describe(self):
        """Its variants, by name."""
        return {variant["name"]: variant for variant in self.ask("describe")["variants"]}

    def load(self, variant, threads=1):
        self.variant = self.describe()[variant]
        return self.ask("load", variant=variant, threads=threads)

    def points(self, points, k, precision="f64", rule="iterations", threshold=0.0, max_iterations=5,
               fuzzifier=2.0, start_from="centroids", rotate=0, sealed=False, weights=None):
        """Hands over points [n, d], their weights [n] or none, and the rest of a problem."""
        n, d = points.shape
        self.shape, self.dtype, self.start_from = (n, d, k), DTYPES[precision], start_from
        sizes = {"labels": 4 * n, "centroids": k * d * self.dtype().itemsize}
        if self.variant.get("gives_entering"):
            sizes["entering"] = sizes["centroids"]
        if self.variant.get("family") == "fcm":
            sizes["memberships"] = n * k * self.dtype().itemsize
        self.sizes = sizes
        self.fill("points", np.ascontiguousarray(points, self.dtype).tobytes())
        if weights is not None:
            self.fill("weights", np.ascontiguousarray(weights, self.dtype).tobytes())
        for name in ("labels", "centroids", "entering", "memberships"):
            self.fill(name, POISON * sizes.get(name, 0))
            if sealed:
                fcntl.fcntl(self.files[name], fcntl.F_ADD_SEALS, SIZE_IS_FIXED)
        if sealed:
            fcntl.fcntl(self.files["points"], fcntl.F_ADD_SEALS, READ_ONLY)
        return self.ask(
            "points", precision=precision, n=n, d=d, k=k, fuzzifier=fuzzifier, rotate=rotate,
            stop={"rule": rule, "threshold": threshold, "max_iterations": max_iterations},
            points=self.path("points"), weights=None if weights is None else self.path("weights"),
            start=self.path("start"), record=self.path("record"),
            answer={name: self.path(name) if name in sizes else None
                    for name in ("labels", "centroids", "entering", "memberships")},
            **{"from": start_from})

    def prepare(self):
        return self.ask("prepare")

    def run(self, start, record=False):
        """From a start, [k, d] or [n, k]."""
        self.place(start)
        return self.ask("run", record=record)

    def whole(self, start):
        self.place(start)
        return self.ask("whole")

    def take(self):
        """Its reply, and the Answer as it lies in the files."""
        reply = self.ask("take")
        n, d, k = self.shape
        shapes = {"labels": (n,), "centroids": (k, d), "entering": (k, d), "memberships": (n, k)}
        arrays = {name: self.read(name, np.int32 if name == "labels" else self.dtype, shape)
                  if name in self.sizes else None for name, shape in shapes.items()}
        return reply, Answer(**arrays, recorded=self.read("record", self.dtype, (-1, k, d)))

    # ---- memory

    def path(self, name):
        return f"/proc/self/fd/{self.files[name]}"

    def place(self, start):
        self.fill("start", np.ascontiguousarray(start, self.dtype).tobytes())
        self.fill("record", b"")
        for name, size in self.sizes.items():
            self.fill(name, POISON * size)

    def fill(self, name, content):
        os.ftruncate(self.files[name], len(content))
        written = 0
        while written < len(content):
            written += os.pwrite(self.files[name], content[written:], written)

    def read(self, name, dtype, shape):
        content = os.pread(self.files[name], os.fstat(self.files[name]).st_size, 0)
        return np.frombuffer(content, dtype).reshape(shape)
