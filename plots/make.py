#!/usr/bin/env python3
"""Draws the pictures of campaigns: reads what their ledgers say, writes SVG and PNG.

  clusterbench ledger results/runs/full --json > measurements.json
  plots/make.py --from measurements.json --out results/runs/full/pictures

Exit codes: 0 all right, also where pictures are left out for want of cells or of matplotlib (it
says which and why); 64 bad input or usage; 74 the pictures cannot be written.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import articles
import bounds
import convergence
import fastest
import gpu_map
import model
import performance
import phases
import scaling
import shapes
import threads
from pictures import Inputs, NothingToDraw, Picture
from results import BadInput, read_campaigns, read_claims, read_definitions, read_model, read_published, read_quality
from style import digest, have_matplotlib, save

HERE = Path(__file__).resolve().parent.parent

# Each module makes pictures(inputs) and says in its docstring how they are read.
KINDS: dict[str, ModuleType] = {
    "Who is fastest": fastest,
    "Articles' tables": articles,
    "Convergence": convergence,
    "Scaling": scaling,
    "Any shape on a CPU": shapes,
    "Any shape on a GPU": gpu_map,
    "Threads": threads,
    "Several GPUs": model,
    "Phases": phases,
    "Time against its bound": bounds,
    "Performance profiles": performance,
}


class Parser(argparse.ArgumentParser):
    """The standard one ends usage errors with 2, which means a wrong result here."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong and ends with 64."""
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")


def arguments(words: list[str]) -> argparse.Namespace:
    """The command line; usage errors end with 64."""
    parser = Parser(
        prog="plots/make.py", description="Draw the pictures of campaigns from their ledgers.")
    parser.add_argument("--from", dest="measurements", type=Path, required=True, metavar="FILE",
                        help="what `clusterbench ledger LEDGER... --json` has printed")
    parser.add_argument("--out", type=Path, help="folder of the pictures; made where missing")
    parser.add_argument("--only", action="append", metavar="GLOB",
                        help="only pictures of these names, such as 'article*' (repeatable)")
    parser.add_argument("--format", action="append", choices=("svg", "png"),
                        help="svg or png (repeatable; both unless given)")
    parser.add_argument("--tables", type=Path, default=HERE / "results/tables",
                        help="folder of table definitions")
    parser.add_argument("--published", type=Path, default=HERE / "results/published.json",
                        help="the articles' figures")
    parser.add_argument("--claims", type=Path, default=HERE / "results/claims.json",
                        help="what each article's speed-up rests on")
    parser.add_argument("--quality", type=Path, metavar="FILE",
                        help="JSON of `clusterbench quality`, for the performance profiles")
    parser.add_argument("--model", type=Path, metavar="FILE",
                        help="JSON of scripts/scaling_model.py, for the picture of several GPUs")
    parser.add_argument("--page", type=Path, metavar="FILE",
                        help="also write a Markdown page beside the folder that shows them")
    parser.add_argument("--digests", action="store_true",
                        help="print each picture's name and the hash of its data, draw nothing")
    parsed = parser.parse_args(words)
    if parsed.out is None and not parsed.digests:
        parser.error("--out is required")
    return parsed


def read_inputs(parsed: argparse.Namespace) -> Inputs:
    """All files that the command line names; BadInput where one cannot be used."""
    return Inputs(
        campaigns=read_campaigns(parsed.measurements),
        definitions=read_definitions(parsed.tables),
        published=read_published(parsed.published),
        claims=read_claims(parsed.claims),
        quality=None if parsed.quality is None else read_quality(parsed.quality),
        model=None if parsed.model is None else read_model(parsed.model),
    )


def collect(
    inputs: Inputs, only: list[str] | None
) -> tuple[dict[str, list[Picture]], list[str]]:
    """The pictures of each kind that the inputs allow, and a sentence for each kind that they do
    not."""
    found: dict[str, list[Picture]] = {}
    missing: list[str] = []
    for kind, module in KINDS.items():
        try:
            found[kind] = [picture for picture in module.pictures(inputs)
                           if any(fnmatchcase(picture.name, glob) for glob in only or ["*"])]
        except NothingToDraw as reason:
            missing.append(f"{module.__name__}: not made, {reason}")
    if only and not any(found.values()):
        raise BadInput(f"--only {' '.join(only)}: no picture of these inputs has such a name")
    return found, [] if only else missing


def page(found: dict[str, list[Picture]], folder: str) -> str:
    """A Markdown page that shows all pictures of a folder and says how to read them."""
    text = ("# Pictures\n\n`scripts/update_pictures.sh` draws these from the ledgers in `results/reference/`.\n"
            "`plots/make.py` draws the same of any campaign. A colour stands for a family of variants, "
            "the same\nin every picture.\n")
    for kind, pictures in found.items():
        if pictures:
            text += f"\n## {kind}\n\n{(KINDS[kind].__doc__ or '').strip()}\n"
            for picture in pictures:
                text += f"\n![{picture.title}]({folder}/{picture.name}.svg)\n"
    return text


def draw(pictures: list[Picture], out: Path, formats: tuple[str, ...]) -> None:
    """Draws all pictures into a folder and says where they are and what they leave out."""
    out.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        save(picture.draw(picture.data), out / picture.name, picture.title, digest(picture.data),
             formats)
        suffix = formats[0] if len(formats) == 1 else f"{{{','.join(formats)}}}"
        print(f"{out / picture.name}.{suffix}")
        for note in picture.notes:
            print(f"  left out: {note}")


def main(words: list[str]) -> int:
    """Runs the command line; returns the exit code."""
    parsed = arguments(words)
    try:
        found, missing = collect(read_inputs(parsed), parsed.only)
    except BadInput as error:
        print(f"plots: {error}", file=sys.stderr)
        return 64
    pictures = [picture for each in found.values() for picture in each]
    if parsed.digests:
        for picture in pictures:
            print(f"{picture.name} {digest(picture.data)}")
        return 0
    if reason := have_matplotlib():
        print(f"plots: no pictures: {reason}")
        return 0
    try:
        draw(pictures, parsed.out, tuple(dict.fromkeys(parsed.format or ("svg", "png"))))
        if parsed.page is not None:
            parsed.page.write_text(page(found, parsed.out.name), encoding="utf-8")
    except OSError as error:
        print(f"plots: {error.filename or parsed.out}: {error.strerror}", file=sys.stderr)
        return 74
    for reason in missing:
        print(f"plots: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
