"""The peer protocol for programs in Python: one JSON line per request on standard input, one per
reply on standard output; docs/peers.md describes it. Importing this module imports nothing heavy.

A program registers a `Variant` for each class that it derives from `Solver`:

    class Mine(Solver):
        def __init__(self, problem):
            ...
        def run(self, start, record):
            ...
            return Answer(iterations, labels, centroids)

    serve([Variant(name="kmeans_mine", idea="...", source="...", make=Mine)], load)
"""

import dataclasses
import gc
import json
import os
import re
import sys
import time

PROTOCOL = 2


class Refused(Exception):
    """The variant cannot take this problem; the message says why."""


@dataclasses.dataclass
class Problem:
    """What is known before a start is. The points are this process's own copy, in host memory."""
    n: int
    d: int
    k: int
    points: "numpy.ndarray"  # [n, d], float32 or float64; not to be written to
    rule: str  # of the stop: iterations, loss, labels, shift
    threshold: float  # of the loss; of the sum of the squared shifts of all centroids
    max_iterations: int
    fuzzifier: float
    from_memberships: bool
    threads: int
    weights: "numpy.ndarray" = None  # [n] of the points; None: all are 1


@dataclasses.dataclass
class Start:
    """What a run starts from: this run's own copies in host memory, of the points' type."""
    centroids: "numpy.ndarray"  # [k, d], or None
    memberships: "numpy.ndarray"  # [n, k], or None


@dataclasses.dataclass
class Answer:
    """What a run ends with: arrays wherever the variant computes, of any type that converts."""
    iterations: int  # passes executed
    labels: object  # [n], integers
    centroids: object  # [k, d] after the last pass
    entering: object = None  # [k, d], those that entered the last pass, if the variant gives them
    memberships: object = None  # [n, k], of fuzzy c-means


class Solver:
    """One problem, prepared. Every call of these four is timed, in seconds of a steady clock."""

    def __init__(self, problem):
        """What depends on the points alone: memory, layouts, the way to a GPU. May raise Refused."""

    def run(self, start, record):
        """From `start` to the stop rule; returns an Answer. Called any number of times, each with
        another start. `record` is None, or a list to which the centroids [k, d] of every pass are
        appended (only if the variant `records`)."""
        raise NotImplementedError

    def wait(self):
        """On a GPU: returns when the device has done all that it was told to."""

    def to_host(self, array):
        """On a GPU: an array of the answer as a NumPy array."""
        return array


@dataclasses.dataclass
class Module:
    """A module that must be importable, by name, the distribution that brings it, and the oldest
    version that will do."""
    module: str
    distribution: str
    at_least: str = ""


@dataclasses.dataclass
class Variant:
    """One registration: what the harness must know (docs/peers.md), and the Solver."""
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
    approximate_within: float = 0.0
    reseeds_empty: bool = False
    takes_weights: bool = False
    centres_points: bool = False
    stops: tuple = ("iterations",)
    starts: tuple = ("centroids",)
    records: bool = False
    gives_entering: bool = False
    modules: tuple = ()

    def describe(self):
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields.pop("make")
        fields["modules"] = [dataclasses.asdict(module) for module in self.modules]
        return fields


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
        self.variant = self.files = None
        self.threads = 1
        self.problem = self.prepared = self.answer = None
        self.on_host = None  # the last answer, once it has been downloaded

    def serve(self):
        for line in sys.stdin:
            request = json.loads(line)
            try:
                reply = getattr(self, "answer_" + request["request"])(request)
            except Refused as refusal:
                reply = {"reply": "refused", "reason": str(refusal)}
            except Exception as error:  # a library's, which is the cell's end and not ours
                reply = failure(error, request["request"])
            self.replies.write(json.dumps({"reply": request["request"], **reply}) + "\n")
            self.replies.flush()

    def answer_describe(self, _):
        return {"protocol": PROTOCOL,
                "variants": [variant.describe() for variant in self.variants.values()]}

    def answer_load(self, request):
        import numpy
        self.variant = self.variants[request["variant"]]
        self.threads = request["threads"]
        return {"versions": {"numpy": numpy.__version__, **self.load_modules(self.threads)}}

    def answer_ping(self, _):
        return {}

    def answer_points(self, request):
        import numpy
        self.forget()
        dtype = {"f32": numpy.float32, "f64": numpy.float64}[request["precision"]]
        n, d, k, stop = request["n"], request["d"], request["k"], request["stop"]
        # Made while the earlier copy is still there, so that its address is new. The pages come
        # when they are written to: there are never two copies in memory.
        points = numpy.empty((n, d), dtype)
        weights = numpy.empty(n, dtype) if request.get("weights") else None
        self.problem = None
        first = n - request["rotate"] % n  # row i is row (i + rotate) mod n of the file
        for path, array in ((request["points"], points), (request.get("weights"), weights)):
            if array is not None:
                with open(path, "rb") as file:
                    read_into(array[first:], file)
                    read_into(array[:first], file)
        self.files = request
        self.problem = Problem(n, d, k, points, stop["rule"], stop["threshold"],
                               stop["max_iterations"], request["fuzzifier"],
                               request["from"] == "memberships", self.threads, weights)
        return {}

    def answer_prepare(self, _):
        self.forget()
        begin = time.perf_counter()
        self.prepared = self.variant.make(self.problem)
        self.prepared.wait()
        return {"seconds": time.perf_counter() - begin}

    def answer_run(self, request):
        start = self.read_start()
        record = [] if request["record"] else None
        begin = time.perf_counter()
        self.answer = self.prepared.run(start, record)
        self.prepared.wait()
        seconds = time.perf_counter() - begin
        if record is not None:
            with open(self.files["record"], "wb") as file:
                for centroids in record:
                    file.write(self.as_stored(self.to_host(centroids)).data)
        return {"seconds": seconds, "iterations": int(self.answer.iterations)}

    def answer_whole(self, _):
        self.prepared = None
        start = self.read_start()
        begin = time.perf_counter()
        self.prepared = self.variant.make(self.problem)
        self.prepared.wait()
        prepared = time.perf_counter()
        self.answer = self.prepared.run(start, None)
        self.prepared.wait()
        ran = time.perf_counter()
        self.on_host = self.download()
        end = time.perf_counter()
        return {"seconds": end - begin, "prepare_s": prepared - begin, "run_s": ran - prepared,
                "download_s": end - ran, "iterations": int(self.answer.iterations)}

    def answer_take(self, _):
        begin = time.perf_counter()
        on_host = self.on_host or self.download()
        seconds = time.perf_counter() - begin
        n, d, k = self.problem.n, self.problem.d, self.problem.k
        shapes = {"labels": (n,), "centroids": (k, d), "entering": (k, d), "memberships": (n, k)}
        for name, shape in shapes.items():
            path, array = self.files["answer"][name], on_host[name]
            if path is None or array is None and name == "entering":
                continue  # of which the harness knows, or will notice
            array = self.as_stored(array, "int32" if name == "labels" else None)
            if array.shape != shape:
                raise ValueError(f"{name} are {list(array.shape)}, and not {list(shape)}")
            with open(path, "r+b") as file:
                file.write(array.data)
        return {"seconds": seconds}

    def forget(self):
        """Frees what an earlier request prepared, and its answer."""
        self.prepared = self.answer = self.on_host = None
        gc.collect()

    def read_start(self):
        import numpy
        self.answer = self.on_host = None
        problem = self.problem
        shape = (problem.n, problem.k) if problem.from_memberships else (problem.k, problem.d)
        values = numpy.empty(shape, problem.points.dtype)
        with open(self.files["start"], "rb") as file:
            read_into(values, file)
        return Start(None, values) if problem.from_memberships else Start(values, None)

    def download(self):
        return {field.name: self.to_host(getattr(self.answer, field.name))
                for field in dataclasses.fields(Answer) if field.name != "iterations"}

    def to_host(self, array):
        return None if array is None else self.prepared.to_host(array)

    def as_stored(self, array, dtype=None):
        import numpy
        return numpy.ascontiguousarray(array, dtype or self.problem.points.dtype)


def read_into(array, file):
    """Fills a contiguous array with the file's next bytes."""
    if array.size and file.readinto(array.data) != array.nbytes:
        raise ValueError(f"{file.name} is too short")


def failure(error, request):
    """The reply that says so. A library that cannot be imported is not here, unless it could not be
    mapped into memory."""
    if no_memory(error):
        return {"reply": "out_of_memory", "message": f"{type(error).__name__}: {error}"}
    if isinstance(error, ImportError) and request == "load":
        return {"reply": "unavailable", "reason": str(error)}
    return {"reply": "error", "message": f"{type(error).__name__}: {error}"}


def no_memory(error):
    """NumPy, CuPy and RMM derive their errors from MemoryError; PyTorch does not. An import says it
    in words of the dynamic linker's, mostly within another error."""
    while error is not None:
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return True
        if isinstance(error, (ImportError, OSError)) and re.search(
                "failed to map segment|[Cc]annot allocate memory|cannot create shared object", str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False
