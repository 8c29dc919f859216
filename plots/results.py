"""Reads ledgers, table definitions and published figures into cells; knows nothing of drawing.

A ledger is JSON lines: a header for every invocation, then one line for each cell and round.
Everything that is wrong with a file is a BadInput that names the file and, where there is one,
the line.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from limits import Limit, limit_per_iteration

Json = dict[str, Any]

SCHEMA = 1  # the newest version of ledgers and table definitions that is understood here


class BadInput(Exception):
    """An input cannot be used; the message names the file and line."""


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
    status: str  # ok, or what the first round that failed says
    n: int = 0
    d: int = 0
    k: int = 0
    rounds: int = 0
    iterations: int = 0
    ms: float = 0.0  # a whole run [ms]
    ms_per_iteration: float = 0.0
    by_round: dict[int, float] = field(default_factory=dict)  # ms per iteration of each round
    limit: Limit | None = None  # what the machine needs at least [ms per iteration]
    machine: str = ""  # the processor's name and its threads, or the GPU's name
    phases_ms: dict[str, float] = field(default_factory=dict)  # of one recorded run [ms]
    loss: tuple[float, ...] = ()  # objective of every recorded pass
    inertia: tuple[float, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the cell has a verified time."""
        return self.status == "ok"


@dataclass(frozen=True)
class Campaigns:
    """What a number of ledgers hold together."""

    cells: list[Cell]
    probes: dict[str, Json]  # machine -> the probe's figures of that device

    def of_table(self, table: str) -> list[Cell]:
        """The cells of one table, in the order in which the ledgers name them first."""
        return [cell for cell in self.cells if cell.table == table]


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


def ledgers_in(path: Path) -> list[Path]:
    """The ledger itself, or all ledgers below a folder in the order of their names."""
    if path.is_dir():
        found = sorted(path.rglob("ledger*.jsonl"))
        if not found:
            raise BadInput(f"{path}: holds no ledger.jsonl")
        return found
    return [path]


def read_lines(path: Path) -> Iterator[tuple[int, Json]]:
    """The numbered lines of one ledger, each an object of a schema that is understood; without a
    torn last one, whose writer was killed."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    without_end = len(lines)
    if not lines[-1]:
        lines.pop()
    for number, text in enumerate(lines, 1):
        try:
            line = json.loads(text.decode("utf-8"))
        except ValueError as error:
            if number == without_end:
                return
            what = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8 text"
            raise BadInput(f"{path}:{number}: {what}") from error
        if not isinstance(line, dict) or line.get("type") not in ("header", "cell"):
            raise BadInput(f"{path}:{number}: neither a header nor a cell")
        version = line.get("schema")
        if not isinstance(version, int) or version > SCHEMA:
            raise BadInput(
                f"{path}:{number}: the line is of schema {version}, this program reads {SCHEMA}"
            )
        yield number, line


def machine_of(header: Json, device: str, threads: int) -> str:
    """Short name of the device that a row was measured on: `Intel Xeon, 2 threads`."""
    if device == "gpu":
        gpu = header["limits"].get("gpu") or {}
        names = [each.get("name", "") for each in header["provenance"]["gpu"]["devices"]]
        return str(gpu.get("name") or (names[0] if names else "GPU"))
    model = str(header["provenance"]["cpu"]["model"] or "CPU")
    model = model.replace("(R)", "").replace(" Processor", "").strip()
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"


def probe_of(header: Json, device: str, threads: int) -> Json | None:
    """The probe's figures that bound a row, by the harness's own rule: a processor that others
    had most of the time gives no limits."""
    limits = header["limits"]
    if device == "gpu":
        gpu = limits.get("gpu")
        return gpu if isinstance(gpu, dict) else None
    for cpu in limits.get("cpu", []):
        if cpu["threads"] == threads and cpu.get("cpu_share", 1.0) >= 0.5:
            return dict(cpu)
    return None


def _pooled(rounds: list[tuple[Json, Json]]) -> Cell:
    """One cell from the (row, header) of all its rounds; a round that failed speaks for all."""
    failed = [pair for pair in rounds if pair[0]["status"] != "ok"]
    row, header = (failed or rounds)[-1 if not failed else 0]
    problem = row["problem"]
    known: Json = {
        "table": row["table"],
        "problem": problem.get("id", ""),
        "variant": row["variant"],
        "precision": row["precision"],
        "threads": row["threads"],
        "device": row["device"],
        "algorithm": problem["family"],
        "status": row["status"],
        "n": problem.get("n", 0),
        "d": problem.get("d", 0),
        "k": problem["k"],
    }
    if failed:
        return Cell(**known)
    trace = row.get("trace", {})
    probe = probe_of(header, row["device"], row["threads"])
    by_round = {each["round"]: median(each["samples_ms"]) / max(each["iterations"], 1)
                for each, _ in rounds}
    return Cell(
        **known,
        rounds=len(rounds),
        iterations=row["iterations"],
        ms=median(median(each["samples_ms"]) for each, _ in rounds),
        ms_per_iteration=median(by_round.values()),
        by_round=by_round,
        limit=None
        if probe is None
        else limit_per_iteration(
            probe, problem["family"], row["precision"], problem["n"], problem["d"], problem["k"],
            row.get("multiplier", "fma"),
        ),
        machine=machine_of(header, row["device"], row["threads"]),
        phases_ms=row.get("phases_ms", {}),
        loss=tuple(trace.get("loss", ())),
        inertia=tuple(trace.get("inertia", ())),
    )


def read_campaigns(paths: Iterable[Path], by_threads: bool = False) -> Campaigns:
    """All cells of some ledgers or folders of ledgers, later ledgers overriding earlier ones.

    A row that says `unavailable` overrides nothing: another machine may have what this one
    lacks. `by_threads` keeps equal cells with different numbers of threads apart.
    """
    newest: dict[tuple[Any, ...], dict[int, tuple[Json, Json]]] = {}
    probes: dict[str, Json] = {}
    for path in (ledger for each in paths for ledger in ledgers_in(each)):
        header: Json | None = None
        for number, line in read_lines(path):
            if line["type"] == "header":
                header = line
                continue
            if header is None:
                raise BadInput(f"{path}:{number}: a cell before the first header")
            try:
                key = (line["table"], line["problem"].get("id", ""), line["variant"],
                       line["precision"], line["threads"] if by_threads else 0)
                rounds = newest.setdefault(key, {})
                if line["status"] != "unavailable" or line["round"] not in rounds:
                    rounds[line["round"]] = (line, header)
                probe = probe_of(header, line["device"], line["threads"])
                if probe is not None and line["status"] == "ok":
                    probes[machine_of(header, line["device"], line["threads"])] = probe
            except (KeyError, TypeError, AttributeError) as error:
                raise BadInput(f"{path}:{number}: the field {error} is missing or odd") from error
    try:
        cells = [_pooled([rounds[each] for each in sorted(rounds)]) for rounds in newest.values()]
    except (KeyError, TypeError) as error:
        raise BadInput(f"a cell lacks the field {error}") from error
    return Campaigns(cells, probes)


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
    """The published figures by table name: `article004` is the file that begins with 004_."""
    articles = read_json(path).get("articles")
    if not isinstance(articles, dict):
        raise BadInput(f"{path}: holds no articles")
    return {f"article{name.split('_')[0]}": article for name, article in articles.items()}


def read_quality(path: Path) -> Json:
    """A report of `clusterbench quality --json`."""
    report = read_json(path)
    if report.get("type") != "quality" or "profiles" not in report:
        raise BadInput(f"{path}: no report of `clusterbench quality`")
    if not isinstance(report.get("schema"), int) or report["schema"] > SCHEMA:
        raise BadInput(f"{path}: of schema {report.get('schema')}, this program reads {SCHEMA}")
    return report


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
