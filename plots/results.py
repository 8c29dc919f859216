"""Reads what ledgers say, table definitions and published figures into cells; knows nothing of drawing.

`clusterbench ledger --json` tells which rows of ledgers count and pools their rounds; its output is what
is read here. Everything that is wrong with a file is a BadInput that names it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SCHEMA = 2  # the version of the program's reports that is understood here


class BadInput(Exception):
    """An input cannot be used; the message names the file and line."""


@dataclass(frozen=True)
class Limit:
    """The least time of one iteration [ms], and what sets it."""

    ms: float
    name: str  # read bandwidth, or whose rate


@dataclass(frozen=True)
class Cell:
    """One cell of a table, its rounds pooled: times are medians over the rounds' medians."""

    table: str
    problem: str  # the problem's id within the table
    variant: str
    precision: str  # f32 or f64
    threads: int
    device: str
    algorithm: str  # kmeans or fcm
    status: str  # ok; approximate, unsandboxed: no time that others stand beside; or why there is none
    n: int = 0
    d: int = 0
    k: int = 0
    own_ms: float = 0.0  # a run from the problem's own start [ms], which is the article's
    own_ms_per_iteration: float = 0.0  # of that run
    ms_per_iteration: float = 0.0  # of all samples; an approximate cell has this figure alone
    by_round: dict[int, float] = field(default_factory=dict)  # ms per iteration of each round
    limit: Limit | None = None  # what the machine needs at least [ms per iteration]
    gflops: float = 0.0  # of the algorithm's minimum
    intensity: float = 0.0  # arithmetic intensity of the algorithm's minimum [FLOP/byte]
    machine: str = ""  # the processor's name and its threads, or the GPU's name
    phases_ms: dict[str, float] = field(default_factory=dict)  # of one recorded run [ms]
    loss: tuple[float, ...] = ()  # objective of every pass from the problem's own start
    inertia: tuple[float, ...] = ()
    shown: bool = True  # of several machines and numbers of threads: the one that is shown

    @property
    def right(self) -> bool:
        """Whether the cell has a verified time."""
        return self.status == "ok"


@dataclass(frozen=True)
class Campaigns:
    """What a number of ledgers hold together."""

    cells: list[Cell]
    probes: dict[str, Json]  # machine -> the probe's figures of that device

    def of_table(self, table: str, all_threads: bool = False) -> list[Cell]:
        """The cells of one table, in the order of the ledgers; of those that were measured on
        several machines or with several numbers of threads the one that is shown, or all."""
        return [cell for cell in self.cells
                if cell.table == table and (all_threads or cell.shown)]


def read_json(path: Path) -> Json:
    """A file with one JSON object; BadInput where it is missing, torn, or no object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}:{error.lineno}: {error.msg}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path}: an object is expected")
    return content


def machine_of(machine: Json, device: str, threads: int) -> str:
    """Short name of the device that a cell was measured on: `Intel Xeon, 2 threads`."""
    if device == "gpu":
        gpu = machine["limits"].get("gpu") or {}
        return str(gpu.get("name") or machine.get("gpu", "GPU").split(", ")[0])
    model = machine.get("cpu", "CPU").replace("(R)", "").replace(" Processor", "").strip()
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"


def probe_of(machine: Json, device: str, threads: int) -> Json | None:
    """The probe's figures of the device; none of a processor that others had most of the time."""
    limits = machine["limits"]
    if device == "gpu":
        gpu = limits.get("gpu")
        return gpu if isinstance(gpu, dict) else None
    for cpu in limits.get("cpu", []):
        if cpu["threads"] == threads and cpu.get("cpu_share", 1.0) >= 0.5:
            return dict(cpu)
    return None


def cell_of(entry: Json, machine: Json) -> Cell:
    """A cell of the report; KeyError where it lacks a field."""
    problem = entry["problem"]
    apart = [word for word in ("unsandboxed", "approximate") if word in entry]
    known: Json = {
        "table": entry["table"],
        "problem": problem["id"],
        "variant": entry["variant"],
        "precision": entry["precision"],
        "threads": entry["threads"],
        "device": entry.get("device", ""),
        "algorithm": problem["family"],
        "status": apart[0] if apart and entry["status"] == "ok" else entry["status"],
        "n": problem.get("n", 0),
        "d": problem.get("d", 0),
        "k": problem["k"],
        "shown": entry["shown_first"],
    }
    if known["status"] == "approximate":
        return Cell(**known, ms_per_iteration=entry.get("ms_per_iteration", 0.0))
    if known["status"] != "ok":
        return Cell(**known)
    trace = entry["trace"] or {}
    limit = entry.get("limit_ms_per_iteration")
    return Cell(
        **known,
        own_ms=entry.get("own_start_ms", 0.0),
        own_ms_per_iteration=entry.get("own_start_ms_per_iteration", 0.0),
        ms_per_iteration=entry["ms_per_iteration"],
        by_round={int(number): ms for number, ms in entry["by_round"].items()},
        limit=None if limit is None else Limit(limit, entry["limit"]),
        gflops=entry.get("gflop_per_second", 0.0),
        intensity=entry.get("gflop_per_second", 0.0) / entry.get("gb_per_second", 1.0),
        machine=machine_of(machine, known["device"], known["threads"]),
        phases_ms=entry.get("phases_ms", {}),
        loss=tuple(trace.get("loss", ())),
        inertia=tuple(trace.get("inertia", ())),
    )


def campaigns_of(report: Json) -> Campaigns:
    """The cells of a report of `clusterbench ledger --json`; KeyError where it lacks a field."""
    machines = {machine["id"]: machine for machine in report["machines"]}
    cells, probes = [], {}
    for entry in report["cells"]:
        machine = machines[entry["machine"]]
        cell = cell_of(entry, machine)
        cells.append(cell)
        probe = probe_of(machine, cell.device, cell.threads)
        if cell.right and probe is not None:
            probes[cell.machine] = probe
    return Campaigns(cells, probes)


def read_campaigns(path: Path) -> Campaigns:
    """The cells of a file that `clusterbench ledger --json` has written."""
    report = read_report(path, "ledgers", "`clusterbench ledger --json`")
    try:
        return campaigns_of(report)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"{path}: the field {error} is missing or odd") from error


def read_report(path: Path, kind: str, made_by: str) -> Json:
    """A report of the program, of the kind and version that are understood."""
    report = read_json(path)
    if report.get("type") != kind:
        raise BadInput(f"{path}: no report of {made_by}")
    if report.get("schema") != SCHEMA:
        raise BadInput(f"{path}: of schema {report.get('schema')}, this program reads {SCHEMA}")
    return report


def read_definitions(folder: Path) -> dict[str, Json]:
    """The table definitions of a folder by name."""
    tables = {}
    for path in sorted(folder.glob("*.json")):
        table = read_json(path)
        if "name" not in table or "rows" not in table or "problems" not in table:
            raise BadInput(f"{path}: no table: name, problems or rows are missing")
        tables[table["name"]] = table
    if not tables:
        raise BadInput(f"{folder}: holds no table definition")
    return tables


def read_published(path: Path) -> dict[str, Json]:
    """The published figures by table name, such as `article004`."""
    articles = read_json(path).get("articles")
    if not isinstance(articles, dict):
        raise BadInput(f"{path}: holds no articles")
    return articles


def read_claims(path: Path) -> dict[str, Json]:
    """What each article's speed-up rests on, by table."""
    claims = read_json(path).get("claims")
    if not isinstance(claims, list) or not all(isinstance(claim, dict) and "table" in claim and "problem" in claim
                                               for claim in claims):
        raise BadInput(f"{path}: holds no claims")
    return {claim["table"]: claim for claim in claims}


def read_quality(path: Path) -> Json:
    """A report of `clusterbench quality --json`."""
    return read_report(path, "quality", "`clusterbench quality`")


def read_model(path: Path) -> Json:
    """What `scripts/scaling_model.py ... --json` has printed."""
    return read_report(path, "scaling_model", "`scripts/scaling_model.py ... --json`")


def cell_order(definition: Json) -> dict[tuple[str, str], int]:
    """Place of every (variant, precision) in the printed table."""
    order: dict[tuple[str, str], int] = {}
    for row in definition["rows"]:
        for precision in row.get("precisions", ()):
            order.setdefault((row["variant"], precision), len(order))
    return order


def excluded(cells: Iterable[Cell]) -> list[str]:
    """One sentence for each kind of cell that has no verified time, such as
    `kmeans_x: wrong (n=100, n=100k)`."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if not cell.right:
            places = reasons.setdefault((cell.variant, cell.status), [])
            if cell.problem not in places:
                places.append(cell.problem)
    return [f"{variant}: {status} ({', '.join(places)})"
            for (variant, status), places in reasons.items()]
