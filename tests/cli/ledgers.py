"""Ledgers of made-up campaigns, written as the program writes them: nothing depends on a clock."""

import hashlib
import json
import zlib
from statistics import median

SCHEMA = 2
DIMENSIONS = {"n": 1000, "d": 2}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def chained(lines):
    """The lines as text, each with the hash over the one before and itself."""
    text, chain = "", ""
    for line in lines:
        body = canonical(line)
        chain = sha256(chain + body)
        text += f'{body[:-1]},"chain":"{chain}"}}\n'
    return text


def write(folder, lines):
    """The folder with the ledger of these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ledger.jsonl").write_text(chained(lines))
    return folder


def header(model="Intel(R) Xeon(R) Processor", seed=7, gpus=(), limits=None, samples=9, cpu=None,
           virtual=None, newer=False, **changes):
    """A header of a machine; with `changes`, of one that is not what its hash says. newer: that tells the
    limits of the same machine apart."""
    cpu = {"model": model, "cores": 2, "online": 2} | (cpu or {})
    devices = [{"name": name, "driver_version": "1"} for name in gpus]
    environment = {"cpu": cpu, "environment": {},
                   "gpus": [{"name": each["name"], "driver": "1"} for each in devices]}
    if "microcode" in cpu:
        told = ("family", "model_number", "stepping", "microcode", "flags", "caches", "sockets")
        environment["cpu"] = cpu | {key: cpu.get(key) for key in told}
        environment["system"] = {"kernel": "k", "virtual_machine": virtual, "product": None}
        for each in environment["gpus"]:
            each |= dict.fromkeys(("memory_total_bytes", "power_limit_watts", "sm_max_mhz",
                                   "memory_max_mhz"))
        if newer:
            environment["cpu"] |= {key: cpu.get(key) for key in ("allowed", "governor", "mhz_max")}
            environment["system"] |= {"hypervisor": None, "cpu_quota": None}
            for each in environment["gpus"]:
                each["mig"] = None
    else:  # as ledgers were before hosts of one name were told apart
        environment["kernel"] = "k"
    line = {"type": "header", "schema": SCHEMA, "time": "2026-11-20T00:00:00Z",
            "environment_hash": sha256(canonical(environment)), "sampling": {"samples": samples},
            "provenance": {"cpu": cpu, "environment": {},
                           "system": {"kernel": "k", "virtual_machine": virtual} |
                           ({"hypervisor": None} if newer else {}), "memory": {},
                           "gpu": {"devices": devices}},
            "limits": limits or {}}
    if seed is not None:
        line["starts_seed"] = seed
    return line | changes


def problem(words=None, **changes):
    """What a row says of its problem: the words of a table's definition, and what building told."""
    words = words or {"id": "p", "data": "x", "k": 4, "init": "first", "stop": "iterations",
                      "max_iterations": 10}
    told = {"family": "kmeans", **DIMENSIONS, "data_sha256": sha256(words["data"]),
            "hash": sha256(canonical(words))}
    kept = ("id", "family", "data", "k", "init", "stop", "max_iterations", "take", "fuzzifier")
    return told | {key: value for key, value in words.items() if key in kept} | changes


def row(variant="kmeans_serial", samples=None, status="ok", table="t", words=None, precision="f32",
        threads=2, round_number=1, passes=10, starts=None, device="cpu", **changes):
    """A row of runs that took so long [ms]; without samples, of one that has no time."""
    words = words or problem()
    line = {"type": "cell", "schema": SCHEMA, "table": table, "variant": variant,
            "name": f"{table}/{words['id']}/{variant}/{precision}", "precision": precision,
            "threads": threads, "round": round_number, "time": "2026-11-21T00:00:00Z",
            "key": sha256(f"{table} {words['id']} {variant} {precision} {round_number}"),
            "device": device, "problem": words, "status": status,
            "message": "" if status == "ok" else "why"}
    if samples is None:
        return line | changes
    samples = [float(sample) for sample in samples]
    counts = [passes] * len(samples) if isinstance(passes, int) else list(passes)
    typical = median(samples)
    seconds = median(ms / count for ms, count in zip(samples, counts)) * 1e-3
    points = words["n"] * words["d"]
    line |= {
        "gb_per_second": 4e-9 * points / seconds,
        "gflop_per_second": 2e-9 * points * words["k"] / seconds,
        "samples_ms": samples, "sample_iterations": counts,
        "sample_starts": list(range(len(samples))) if starts is None else list(starts),
        "warm_up_samples_ms": [], "cpu_ms": samples,
        "own_start": {"ms": samples[0], "iterations": counts[0]},
        "median_ms": typical, "iterations": median(counts), "recorded_passes": counts[0],
        "ms_per_iteration": seconds * 1e3,
        "interval_ms": [min(samples), max(samples)], "mad_ms": 0.0,
        "start_ms": 5.0, "upload_ms": 0.25, "prepare_ms": 0.5, "download_ms": 0.25,
        "whole_ms": typical + 1.0, "cold_ms": typical + 6.0,
        "whole": [{"ms": typical + 1.0, "run_ms": typical, "iterations": counts[0],
                   "start": 1000000 + i} for i in range(5)],
        "phases_ms": {"assign": 3.0, "update": 1.0}, "oracle": "whole run"}
    return line | changes


def rows_of_table(definition, variants=None, rounds=1):
    """A right row for every cell of a table; times differ by variant and are the same every time."""
    rows = []
    for entry in definition["rows"]:
        if variants is not None and entry["variant"] not in variants:
            continue
        for name in entry["problems"]:
            words = problem(next(each for each in definition["problems"] if each["id"] == name))
            passes = words["max_iterations"] if words["stop"] == "iterations" else 20
            base = 1.0 + zlib.crc32(f"{entry['variant']} {name}".encode()) % 900
            for precision in entry["precisions"]:
                for number in range(1, rounds + 1):
                    times = [base * (1 + 0.01 * number + 0.001 * i) for i in range(9)]
                    rows.append(row(entry["variant"], times, table=definition["name"], words=words,
                                    precision=precision, round_number=number,
                                    passes=passes,
                                    device="gpu" if "_cu" in entry["variant"] else "cpu"))
    return rows
