"""What both calibrations need: CPU cells of the articles' tables, builds with a slowdown planted into a
variant, another process that loads the machine, and rates with their intervals."""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
from contextlib import contextmanager

HOME = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = HOME / "build" / "release" / "tests" / "faulty" / "clusterbench_faulty"

# Loads one core half of the time: busy and idle spells of random length, a quarter of a second each
# in the mean.
_COMPANION = """
import random, sys, time
spell = random.Random(int(sys.argv[1])).expovariate
while True:
    end = time.monotonic() + spell(4)
    while time.monotonic() < end:
        pass
    time.sleep(spell(4))
"""


@contextmanager
def companion(seed):
    process = subprocess.Popen([sys.executable, "-c", _COMPANION, str(seed)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def cpu_rows(program):
    """(table, row) of the articles' tables, for variants that are a part of a build: programs of other
    ecosystems are not."""
    listed = json.loads(subprocess.run([program, "list", "--json"], cwd=HOME, check=True,
                                       capture_output=True).stdout)
    on_cpu = {v["name"] for v in listed["variants"]
              if v["device"] == "cpu" and v["backend"] != "python"}
    return [(table["name"], row)
            for path in sorted((HOME / "results" / "tables").glob("article*.json"))
            for table in [json.loads(path.read_text())]
            for row in table["rows"] if row["variant"] in on_cpu]


def planted_build(folder, program, variant, share):
    """A build whose `variant` takes longer by that share. Where it is 0, nothing is planted in the same
    way, so that both sides allocate alike: where an array begins in its cache line may cost some percent
    by itself."""
    real = (program.parent / "clusterbench-runner").resolve()  # of the build that was tested
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "modules").mkdir(parents=True)
    stand_in = program.parent / "modules" / "kmeans_serial.so"  # the same file whatever it stands for
    for module in (program.parent / "modules").iterdir():
        (folder / "modules" / module.name).symlink_to(module)
    (folder / "modules" / f"{variant}.so").unlink()
    shutil.copy2(stand_in, folder / "modules" / f"{variant}.so")
    runner = folder / "clusterbench-runner"
    runner.write_text(f"#!/bin/sh\nexport CLUSTERBENCH_PLANT='{variant}={share:.2f}'\n"
                      f"export CLUSTERBENCH_REAL_MODULES='{real.parent / 'modules'}'\n"
                      f"exec '{real}' \"$@\"\n")
    runner.chmod(0o755)
    return folder


def save(path, result):
    """Whole or not at all: the script may be interrupted at any time."""
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(partial, path)


def wilson(hits, count):
    """The 95 % interval of a share (Wilson 1927)."""
    if count == 0:
        return 0.0, 1.0
    z, share = 1.959964, hits / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count
                                                + z * z / (4 * count * count))
    return max(0.0, centre - reach), min(1.0, centre + reach)


def rate_line(what, hits, count):
    low, high = wilson(hits, count)
    return (f"| {what} | {hits} of {count} | {100 * hits / count:.1f} % "
            f"| {100 * low:.1f} .. {100 * high:.1f} % |")


def splice(path, name, text):
    """Puts the text between the markers of that name."""
    begin_marker, end_marker = f"<!-- {name} begin -->\n", f"<!-- {name} end -->"
    content = path.read_text()
    begin, end = content.find(begin_marker), content.find(end_marker)
    if begin < 0 or end < begin:
        raise SystemExit(f"{path}: the markers {begin_marker.strip()} ... {end_marker} are missing")
    path.write_text(content[:begin] + begin_marker + text + content[end:])
