#!/usr/bin/env python3
"""Measures of the house: how much a reader opens to follow one variant, and who includes whom.

Prints one line a measure. tests/unit/test_house.py holds the bounds."""

import argparse
import pathlib
import re
import statistics
import subprocess

CODE = (".cpp", ".hpp", ".cu", ".cuh")


def sources(root):
    """All C++ and CUDA files under impls/ and harness/ that git knows or would take, with their text."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard",
                             "impls", "harness", "datasets"], capture_output=True, text=True, check=False)
    paths = listed.stdout.split() if listed.returncode == 0 else [
        str(path.relative_to(root)) for folder in ("impls", "harness", "datasets")
        for path in (root / folder).rglob("*")]
    return {path: (root / path).read_text() for path in sorted(paths)
            if path.endswith(CODE) and (root / path).is_file()}


class House:
    def __init__(self, files):
        self.files = files
        self.includes = {path: [name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.M)
                                if name in files] for path, text in files.items()}

    def lines(self, path):
        return self.files[path].count("\n")

    def closure(self, path):
        """What a reader of `path` may have to open, but for the contract, which he knows."""
        found, todo = set(), list(self.includes[path])
        while todo:
            name = todo.pop()
            if name not in found and name != "impls/contract.hpp":
                found.add(name)
                todo += self.includes[name]
        return found

    def depth(self, path):
        return max((1 + self.depth(name) for name in self.includes[path] if name != "impls/contract.hpp"),
                   default=0)

    def includers(self, header):
        return [path for path, names in self.includes.items() if header in names]

    def variants(self, folder):
        return [path for path in self.files if path.startswith(folder) and re.search(r"/(kmeans|fcm)_\w+\.(cpp|cu)$", path)]

    def measures(self):
        """name -> figure"""
        cuda = self.variants("impls/cuda/")
        closures = {path: self.closure(path) for path in cuda}
        total = {path: self.lines(path) + sum(map(self.lines, closures[path])) for path in cuda}
        published = [path for path in cuda if "/published/" in path]
        headers = [path for path in self.files if path.endswith((".hpp", ".cuh")) and path.startswith("impls/")]
        common = [path for path in headers if path.startswith("impls/cuda/common/")]

        def families(header):
            return {path.split("/")[2] for path in cuda if header in closures[path]}

        return {
            "CUDA variants": len(cuda),
            "headers that a CUDA variant opens, median": statistics.median(map(len, closures.values())),
            "headers that a CUDA variant opens, most": max(map(len, closures.values())),
            "lines that a CUDA variant opens, itself included, most": max(total.values()),
            "headers that a published variant opens, most": max(len(closures[path]) for path in published),
            "lines that a published variant opens, most": max(total[path] for path in published),
            "depth of includes of CUDA variants, most": max(map(self.depth, cuda)),
            "headers of impls/ with one includer": sum(len(self.includers(path)) == 1 for path in headers),
            "headers of impls/cuda/common": len(common),
            "lines of impls/cuda/common": sum(map(self.lines, common)),
            "headers of impls/cuda/common that serve one family": sum(len(families(path)) < 2 for path in common),
            "lines of impls/cuda": sum(self.lines(path) for path in self.files if path.startswith("impls/cuda/")),
            "lines of harness": sum(self.lines(path) for path in self.files if path.startswith("harness/")),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", action="store_true", help="one line for each CUDA variant as well")
    arguments = parser.parse_args()
    house = House(sources(pathlib.Path(__file__).resolve().parents[1]))
    for name, figure in house.measures().items():
        print(f"{figure:>8g}  {name}")
    if arguments.variants:
        print("\nheaders   lines  variant")
        for path in house.variants("impls/cuda/"):
            closure = house.closure(path)
            print(f"{len(closure):>7} {house.lines(path) + sum(map(house.lines, closure)):>7}  {path}")


if __name__ == "__main__":
    main()
