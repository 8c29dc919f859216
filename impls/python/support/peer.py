"""The peer protocol for programs in Python: one JSON line per request on standard input, one per
reply on standard output; docs/peers.md describes it. Importing this module imports nothing heavy."""

import dataclasses
import json
import os
import sys
import time

PROTOCOL = 2


class Refused(Exception):
    """The variant cannot take this problem; the message says why."""


@dataclasses.dataclass
class Module:
    """A module that must be importable, by name, the distribution that brings it, and the oldest
    version that will do."""
    module: str
    distribution: str
    at_least: str = ""


@dataclasses.dataclass
class Variant:
    """One registration: what the harness must know, and the class that does the work.

    `make(problem)` prepares from points and sizes, may raise Refused, and returns an object with

    - run(start, record) -> passes executed. The timed part: from `start` to the stop rule. Every
      call brings a start of its own. On a GPU it ends with a synchronisation of the device.
      `record` is None, or a list to which the centroids of every pass are appended (only if
      `records`).
    - fetch() -> labels [n], centroids [k, d] and memberships [n, k] (None for k-means) of the last
      run, as NumPy arrays.
    """
    name: str
    idea: str
    source: str
    make: type
    family: str = "kmeans"
    device: str = "cpu"
    precisions: tuple = ("f32", "f64")
    arithmetic: str = "as data"
    distance: str = "difference"  # or "expanded"
    labels: str = "before update"  # or "after update"
    deterministic: bool = True
    reseeds_empty: bool = False
    centres_points: bool = False
    stops: tuple = ("iterations",)
    starts: tuple = ("centroids",)
    records: bool = False
    modules: tuple = ()

    def describe(self):
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields.pop("make")
        fields["modules"] = [dataclasses.asdict(module) for module in self.modules]
        return fields


@dataclasses.dataclass
class Problem:
    """What is known before a start is; the points are this process's own copy."""
    n: int
    d: int
    k: int
    points: "numpy.ndarray"  # [n, d]
    rule: str  # of the stop: iterations, loss, labels, shift
    threshold: float
    max_iterations: int
    fuzzifier: float
    threads: int


@dataclasses.dataclass
class Start:
    """What a run starts from: this run's own copies, read before its clock starts."""
    centroids: "numpy.ndarray"  # [k, d], or None
    memberships: "numpy.ndarray"  # [n, k], or None


def serve(variants, load):
    """Answers requests until standard input ends. `load(threads)` imports what the variants need
    and returns the versions of it, by name; an ImportError makes the variant unavailable."""
    Server(variants, load).serve()


class Server:
    def __init__(self, variants, load):
        self.variants = {variant.name: variant for variant in variants}
        self.load_modules = load
        # Whatever a library prints goes to standard error: the real standard output is ours alone.
        self.replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.variant = None
        self.threads = 1
        self.problem = None
        self.prepared = None

    def serve(self):
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = getattr(self, "answer_" + request["request"])(request)
            except Refused as refusal:
                reply = {"reply": "refused", "reason": str(refusal)}
            except MemoryError as error:
                reply = {"reply": "out_of_memory", "message": str(error) or "an allocation failed"}
            except Exception as error:  # a library's, which is the cell's end and not ours
                reply = {"reply": "error", "message": f"{type(error).__name__}: {error}"}
            self.replies.write(json.dumps({"reply": request["request"], **reply}) + "\n")
            self.replies.flush()

    def answer_describe(self, _):
        return {"protocol": PROTOCOL,
                "variants": [variant.describe() for variant in self.variants.values()]}

    def answer_load(self, request):
        self.variant = self.variants[request["variant"]]
        self.threads = request["threads"]
        try:
            import numpy
            versions = self.load_modules(self.threads)
        except ImportError as error:
            return {"reply": "unavailable", "reason": str(error)}
        return {"versions": {"numpy": numpy.__version__, **versions}}

    def answer_ping(self, _):
        return {}

    def answer_prepare(self, request):
        import numpy
        # What an earlier problem held is free before the next is read.
        self.problem = self.prepared = None
        dtype = {"f32": numpy.float32, "f64": numpy.float64}[request["precision"]]
        n, d, k, stop = request["n"], request["d"], request["k"], request["stop"]
        self.problem = Problem(n, d, k, read(request["points"], dtype, n, d), stop["rule"],
                               stop["threshold"], stop["max_iterations"], request["fuzzifier"],
                               self.threads)
        self.prepared = self.variant.make(self.problem)
        return {}

    def answer_run(self, request):
        problem = self.problem
        dtype = problem.points.dtype
        start = Start(read(request.get("centroids"), dtype, problem.k, problem.d),
                      read(request.get("memberships"), dtype, problem.n, problem.k))
        record = [] if request.get("record") else None
        begin = time.perf_counter()
        iterations = self.prepared.run(start, record)
        seconds = time.perf_counter() - begin
        if record is not None:
            with open(request["record"], "wb") as file:
                for centroids in record:
                    file.write(centroids.tobytes())
        return {"seconds": seconds, "iterations": int(iterations)}

    def answer_fetch(self, request):
        import numpy
        arrays = dict(zip(("labels", "centroids", "memberships"), self.prepared.fetch()))
        arrays["labels"] = numpy.asarray(arrays["labels"], numpy.int32)
        for name, array in arrays.items():
            if array is not None and request.get(name):
                with open(request[name], "wb") as file:
                    file.write(numpy.ascontiguousarray(array).data)
        return {}


def read(path, dtype, rows, columns):
    """A copy of the matrix in a file, or None without a path."""
    import numpy
    return numpy.fromfile(path, dtype, rows * columns).reshape(rows, columns) if path else None
