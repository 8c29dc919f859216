#!/usr/bin/env python3
"""Writes the table of docs/ladder/any_shape.md: the fastest variant of each shape at a million points,
kmeans_cuda_auto aside, from a ledger of the table gpu_shapes.

usage: any_shape.py LEDGER PAGE"""

import json
import pathlib
import re
import sys

HEAD = "| d | k | fastest | ms | model bound | what | % of it |\n| --- | --- | --- | --- | --- | --- | --- |\n"


def fastest(cells):
    """(d, k) -> the newest row of the fastest variant, of those that are right."""
    newest = {(cell["name"], cell["variant"]): cell for cell in cells if cell["type"] == "cell"}
    found = {}
    for (name, variant), cell in newest.items():
        shape = re.search(r"/n=1M d=(\d+) k=(\d+)/", name)
        if shape and cell["status"] == "ok" and variant != "kmeans_cuda_auto":
            key = tuple(map(int, shape.groups()))
            found[key] = min(found.get(key, cell), cell, key=lambda one: one["ms_per_iteration"])
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ledger, page = map(pathlib.Path, sys.argv[1:])
    cells = fastest(json.loads(line) for line in ledger.read_text().splitlines())
    text = page.read_text()
    shapes = [tuple(map(int, shape)) for shape in re.findall(r"^\| (\d+) \| (\d+) \| kmeans_", text, re.MULTILINE)]
    rows = "".join(
        f'| {d} | {k} | {cell["variant"]} | {cell["ms_per_iteration"]:.4f} | {cell["limit_ms_per_iteration"]:.4f} '
        f'| {cell["limit"]} | {cell["percent_of_limit"]:.0f} |\n'
        for (d, k), cell in ((shape, cells[shape]) for shape in shapes))
    table = re.compile(re.escape(HEAD) + r"(?:\|.*\n)+")
    page.write_text(table.sub(lambda _: HEAD + rows, text, count=1))


if __name__ == "__main__":
    main()
