"""The pages: lines fit, links lead somewhere, every page is in the index and short, commands and named files
exist, and words that only this project ever used are gone. Every rule is also tried on a text that breaks it."""

import functools
import json
import os
import pathlib
import posixpath
import re
import subprocess
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
BINARY = os.environ["CLUSTERBENCH_BINARY"]

WIDEST = 100
# Lines of a page, generated tables apart.
LONGEST = 200
LONGEST_OF = {r"README\.md": 150, r"docs/ladder/.*": 150}

# A pattern, and what to write instead. Names of variants and files are not words.
PRIVATE = {
    r"rungs?": "step, variant",
    r"half[- ]rows?": "float16 rows",
    r"kept sums|sums that stay|kept_sums": "incremental sums",
    r"words? that (?:carry|carries) their pass|words with stamps": "tagged values",
    r"words that count": "counted sums",
    r"lonely blocks?": "blocks without a neighbour",
    r"teams?|crews?": "group of warps, threads",
    r"(?:percent|%|per cent) of the limit": "% of the model bound",
    r"(?:machine's limit|limit of the machine|limit of a pass)": "model bound",
    r"(?:is|are|were|be) settled": "is compared again",
    r"open rows?|rows? left open": "undecided rows",
    r"programs? that only times?": "timing-only program",
}
PRIVATE_WORD = re.compile(r"(?<![\w`/.-])(?:" + "|".join(f"(?:{word})" for word in PRIVATE) + r")(?![\w-])",
                          re.IGNORECASE)


# ---- what a page consists of

def without(pattern, text):
    """The text with what a pattern matches blanked out, line by line, so that lines keep their numbers."""
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", "", found.group(0)), text)


CODE = r"(?ms)^ *```.*?^ *```$"
GENERATED = r"(?ms)^<!-- ([\w -]+) begin -->$.*?^<!-- \1 end -->$"


def prose(text):
    """A page without its code, in blocks and in lines, and without what scripts put there."""
    return without(r"`[^`\n]+`", without(GENERATED, without(CODE, text)))


def headings(text):
    return re.findall(r"^#+ (.+?)\s*$", without(CODE, text), re.MULTILINE)


def anchors(text):
    """The anchors that GitHub gives a page's headings."""
    found = set()
    for heading in headings(text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w -]", "", plain.lower()).replace(" ", "-")
        number = next(i for i in range(len(found) + 1) if (f"{slug}-{i}" if i else slug) not in found)
        found.add(f"{slug}-{number}" if number else slug)
    return found


def links(text):
    """Targets of a page's links and pictures."""
    return re.findall(r"\]\(\s*([^)\s]+)\s*\)", without(r"`[^`\n]+`", without(CODE, text)))


# ---- the rules: each takes a path and a text, and what else it needs; and returns complaints

def complaints_about_width(path, text):
    lines = without(GENERATED, without(CODE, text)).splitlines()
    return [f"{path}: line {number} has {len(line)} columns" for number, line in enumerate(lines, 1)
            if len(line) > WIDEST and not re.match(r"\s*(?:\||!\[[^]]*\]\([^)]*\)$)", line)]


def complaints_about_links(path, text, files):
    """files: the text of every file by its path from the root; of one that holds no text anything."""
    found = []
    for target in links(text):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(path), place)) if place else path
        if page not in files and not any(other.startswith(page + "/") for other in files):
            found.append(f"{path} links to {target}, which is not there")
        elif anchor and anchor not in anchors(files.get(page, "")):
            found.append(f"{path} links to {target}, but that page has no such heading")
    return found


def complaints_about_length(path, text):
    most = next((lines for pattern, lines in LONGEST_OF.items() if re.fullmatch(pattern, path)), LONGEST)
    kept = re.sub(GENERATED + r"\n?", "", text)
    lines = len(kept.splitlines())
    return [f"{path} has {lines} lines, {most} are allowed"] if lines > most else []


def complaints_about_reach(pages):
    """Who begins at docs/README.md and follows links comes to every page of docs."""
    seen, todo = set(), ["docs/README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page not in pages:
            continue
        seen.add(page)
        todo += [posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
                 for target in links(pages[page])]
    return [f"{page} cannot be reached from docs/README.md" for page in sorted(pages)
            if page.startswith("docs/") and page not in seen]


def complaints_about_index(pages):
    """The map lists pages of docs itself, the ladder's page lists its chapters and their notes."""
    found = []
    for index, under in (("docs/README.md", r"docs/[^/]+\.md"),
                         ("docs/ladder.md", r"docs/(?:ladder|notes)/[^/]+\.md")):
        named = {posixpath.normpath(posixpath.join("docs", target)) for target in links(pages[index])}
        found += [f"{index} does not list {page}" for page in sorted(pages)
                  if re.fullmatch(under, page) and page not in named | {"docs/README.md"}]
    return found


def commands(text):
    """Calls of the program: lines of code blocks, and code within sentences. Each as its words."""
    lines = [line for block in re.findall(CODE, text) for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", without(CODE, text))
    for line in lines:
        line = re.sub(r"(^|\s)#.*", "", line)
        call = re.match(r"\s*(?:- run: |\$ )?(?:[\w./]*/)?clusterbench((?: +\S+)+)", line)
        if call:
            yield call.group(1).split()


def scripts(text):
    """Scripts that code calls by their path."""
    blocks = "\n".join(re.findall(CODE, text) + re.findall(r"`([^`\n]+)`", without(CODE, text)))
    return set(re.findall(r"(?<![\w/.])(?:\./)?(scripts/[\w.]+|run_all\.sh|run_tests\.sh)", blocks))


def complaints_about_commands(path, text, help_of):
    """help_of(subcommands): what the program says of them, or None if there are no such."""
    found = []
    for words in commands(text):
        said = help_of(())
        depth = 0
        while depth < len(words) and re.fullmatch(r"[a-z_]+", words[depth]) and (
                "ubcommands:" in said or "SUBCOMMAND" in said):
            said = help_of(tuple(words[:depth + 1]))
            depth += 1
            if said is None:
                break
        call = "clusterbench " + " ".join(words)
        if said is None or (depth == 0 and not words[0].startswith("-")):
            found.append(f"{path}: `{call}`: there is no such command")
            continue
        options = set(re.findall(r"--[a-z][a-z0-9-]*", said))
        found += [f"{path}: `{call}` has no {option}"
                  for option in re.findall(r"(?:^|\s)(--[a-z][a-z0-9-]*)", " ".join(words))
                  if option not in options]
    return found


def complaints_about_scripts(path, text, files):
    return [f"{path} calls {script}, which is not there" for script in sorted(scripts(text))
            if script not in files and not any(file.startswith(script + "/") for file in files)]


# Files that pages name and that are not of this tree: made by the program, or of an article.
MADE = {"gbench.json", "gate.json", "benchmark.json", "NAME.json", "report.html", "cuda_kernels.cuh"}


def named_files(text):
    """Source files and scripts that code within sentences names."""
    code = re.findall(r"`([^`\n]+)`", without(CODE, text))
    return {name.removeprefix("./") for name in code if re.fullmatch(r"[\w./-]+\.(?:cpp|hpp|cu|cuh|py|sh|json|html)", name)}


def complaints_about_files(path, text, files):
    """A name is that of a file, or the end of its path."""
    return [f"{path} names {name}, which is not there" for name in sorted(named_files(text))
            if name.split("/")[-1] not in MADE
            and name not in files and not any(file.endswith("/" + name) for file in files)]


# A time, a rate, or how many times as fast: what somebody has measured.
MEASURED = re.compile(r"(?<![\w.])\d[\d.,]*\s*(?:(?:ns|µs|us|ms|s|sec|seconds?|minutes?)\b|[GTM](?:B|FLOP)/s"
                      r"|(?:times|×|x)\s+(?:as|faster|slower)\b|×|-fold\b)"
                      r"|\b(?:twice|two|three|four|five|six|seven|eight|nine|ten)(?:\s+times)?\s+as\s+(?:fast|slow)\b")


def complaints_about_figures(path, text, written):
    """Measured figures stand in blocks that a script writes, and nowhere else. written: the names of those."""
    blocks = set(re.findall(r"(?m)^<!-- ([\w -]+) begin -->$", text))
    found = [f"{path}: no script writes its block '{name}'" for name in sorted(blocks - written)]
    for number, line in enumerate(without(GENERATED, without(CODE, text)).splitlines(), 1):
        found += [f"{path}: line {number} says '{figure.strip()}', which no script has put there"
                  for figure in MEASURED.findall(line)]
    return found


def blocks_of(scripts):
    """The names of the blocks that scripts write, by their marks."""
    return {name for text in scripts for name in re.findall(r'"<!-- ([\w -]+) begin -->', text)}


def complaints_about_words(path, text):
    found = []
    for number, line in enumerate(prose(text).splitlines(), 1):
        line = re.sub(r"\]\([^)]*\)", "]", line)
        line = re.sub(r"\b(?:kmeans|fcm)_\w+", "", line)
        found += [f"{path}: line {number} says '{word}'" for word in PRIVATE_WORD.findall(line)]
    return found


# ---- the pages

def tracked():
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True)
    if listed.returncode == 0:
        paths = [path for path in listed.stdout.decode().split("\0") if path]
    else:  # unpacked from an archive
        paths = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")
                 if path.relative_to(SOURCE).parts[0] != "build"]
    return {path: (SOURCE / path).read_text(errors="replace") if path.endswith(".md") else ""
            for path in paths if (SOURCE / path).is_file()}


@functools.cache
def help_of(subcommands):
    done = subprocess.run([BINARY, *subcommands, "--help"], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = tracked()
        cls.pages = {path: text for path, text in cls.files.items() if path.endswith(".md")}

    def check(self, rule, *more):
        self.assertGreater(len(self.pages), 20)
        found = [complaint for path, text in sorted(self.pages.items())
                 for complaint in rule(path, text, *more)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_lines_fit(self):
        self.check(complaints_about_width)

    def test_links_lead_somewhere(self):
        self.check(complaints_about_links, self.files)

    def test_pages_are_short(self):
        self.check(complaints_about_length)

    def test_every_page_is_in_an_index(self):
        self.assertEqual(complaints_about_index(self.pages), [])
        self.assertEqual(complaints_about_reach(self.pages), [])

    def test_commands_exist(self):
        self.assertGreater(sum(len(list(commands(text))) for text in self.pages.values()), 30)
        self.check(complaints_about_commands, help_of)
        self.check(complaints_about_scripts, self.files)

    def test_named_files_exist(self):
        self.assertGreater(sum(len(named_files(text)) for text in self.pages.values()), 30)
        self.check(complaints_about_files, self.files)

    def test_figures_of_the_first_page_come_by_script(self):
        written = blocks_of((SOURCE / "scripts" / name).read_text() for name in ("headline.py", "verdicts.py"))
        self.assertEqual(written, {"headline", "verdicts"})
        self.assertEqual(complaints_about_figures("README.md", self.pages["README.md"], written), [])

    def test_figures_of_the_model_come_by_script(self):
        written = blocks_of([(SOURCE / "scripts/scaling_model.py").read_text()])
        self.assertEqual(written, {f"model {name}" for name in ("inputs", "predictions", "limits", "compared")})
        page = "docs/scaling_model.md"
        self.assertEqual(complaints_about_figures(page, self.pages[page], written), [])

    def test_rates_of_steps_are_those_of_the_simulation(self):
        def percent(rate):
            share = 100 * rate["told"] / rate["series"]
            return "less than 0.1 %" if share < 0.05 else f"{share:.{0 if share >= 9.95 else 1}f} %"

        rates = json.loads((SOURCE / "results" / "step_rates.json").read_text())
        page = " ".join((SOURCE / "docs" / "history.md").read_text().split())
        for correlation, name in ((0.0, "none"), (0.5, "0.5"), (0.8, "0.8")):
            row = [percent(rate) for rate in rates if rate["correlation"] == correlation and not rate["step"]]
            self.assertEqual(len(row), 3)
            self.assertIn(f"| {name} | {' | '.join(row)} |", page)
        found = {(rate["cells"], rate["campaigns"], rate["step"]): round(100 * rate["told"] / rate["series"])
                 for rate in rates if rate["step"]}
        self.assertIn(f"{found[1, 24, 0.03]} % of steps of 3 % were marked", page)
        self.assertIn(f"{found[1, 24, 0.05]} % of steps of 5 % where", page)
        self.assertIn(f"a hundred cells, {found[100, 24, 0.03]} and {found[100, 24, 0.05]} %.", page)
        self.assertIn(f"{found[100, 40, 0.05]} % of steps of 5 % were, of a hundred cells, too", page)

    def test_words_are_the_fields(self):
        self.check(complaints_about_words)


class RulesCanFail(unittest.TestCase):
    """A rule that nothing can break is no rule."""

    def test_width(self):
        wide = "x" * (WIDEST + 1)
        self.assertEqual(len(complaints_about_width("a.md", f"one\n{wide}\n")), 1)
        self.assertIn("line 2", complaints_about_width("a.md", f"one\n{wide}\n")[0])
        self.assertEqual(len(complaints_about_width("a.md", f"- {wide}\n# {wide}\n")), 2)
        self.assertEqual(complaints_about_width("a.md", f"| {wide} |\n```\n{wide}\n```\n{wide[1:]}\n"), [])

    def test_links(self):
        files = {"README.md": "# Top\n", "docs/a.md": "# One thing: *twice*\n## Same\n## Same\n", "docs/x.svg": ""}
        good = ("[up](../README.md#top) [here](#first) [a](a.md#one-thing-twice) [b](a.md#same-1) [f](../docs)\n"
                "![x](x.svg) [web](https://example.org/x) `[no](gone.md)`\n\n## First\n```\n[no](gone.md)\n```\n")
        self.assertEqual(complaints_about_links("docs/b.md", good, {**files, "docs/b.md": good}), [])
        for bad in ("[x](gone.md)", "![x](gone.svg)", "[x](README.md)", "[x](a.md#gone)", "[x](#gone)",
                    "[x](a.md#same-2)", "[over\nlines](gone.md)"):
            with self.subTest(bad):
                text = good + bad + "\n"
                self.assertEqual(len(complaints_about_links("docs/b.md", text, {**files, "docs/b.md": text})), 1)

    def test_length(self):
        for path, most in (("docs/a.md", LONGEST), ("README.md", 150), ("docs/ladder/a.md", 150)):
            self.assertEqual(complaints_about_length(path, "line\n" * most), [])
            self.assertEqual(len(complaints_about_length(path, "line\n" * (most + 1))), 1)
            table = "<!-- table x begin -->\n" + "| 1 |\n" * most + "<!-- table x end -->\n"
            self.assertEqual(complaints_about_length(path, table + "line\n" * most), [])
        self.assertEqual(len(complaints_about_length("docs/a.md", "<!-- x begin -->\n" * (LONGEST + 1))), 1)

    def test_index(self):
        pages = {"docs/README.md": "[a](a.md) [ladder](ladder.md) [top](../README.md)", "docs/a.md": "",
                 "docs/ladder.md": "[b](ladder/b.md) [notes](notes/b.md)", "docs/ladder/b.md": "",
                 "docs/notes/b.md": "", "README.md": "[docs](docs/README.md)"}
        for rule in (complaints_about_index, complaints_about_reach):
            self.assertEqual(rule(pages), [])
            for path in ("docs/c.md", "docs/ladder/c.md", "docs/notes/c.md"):
                self.assertEqual(len(rule({**pages, path: ""})), 1, path)
        linked = {**pages, "docs/c.md": "", "docs/a.md": "[c](c.md)"}  # reached, but by a side way
        self.assertEqual(complaints_about_reach(linked), [])
        self.assertEqual(len(complaints_about_index(linked)), 1)

    def test_commands(self):
        said = {(): "Subcommands:\n  run\n  ledger", ("run",): "Options:\n  --data FILE\n  --k N",
                ("ledger",): "Subcommands:\n  check\n  --json", ("ledger", "check"): "--strict"}
        good = ("`clusterbench run --data x.npy` `clusterbench ledger check a --strict` `clusterbench ledger . --json`\n"
                "```\nbuild/release/clusterbench run table --k 3   # --comment\nother --x\n$ clusterbench run\n```\n"
                "`clusterbench-runner --x` `clusterbench`\n")
        self.assertEqual(len(list(commands(good))), 5)
        self.assertEqual(complaints_about_commands("a.md", good, said.get), [])
        for bad in ("clusterbench walk", "clusterbench run --speed", "clusterbench ledger check --json",
                    "build/release/clusterbench gate --base x"):
            with self.subTest(bad):
                self.assertEqual(len(complaints_about_commands("a.md", f"```\n{bad}\n```\n", said.get)), 1)
                self.assertEqual(len(complaints_about_commands("a.md", f"so `{bad}` does\n", said.get)), 1)
        calls = "`scripts/x.sh --all` and\n```\n./run_all.sh\n```\n"
        self.assertEqual(complaints_about_scripts("a.md", calls, {"scripts/x.sh", "run_all.sh"}), [])
        self.assertEqual(len(complaints_about_scripts("a.md", calls, {})), 2)

    def test_figures(self):
        block = "<!-- headline begin -->\n| 15.3 ms, 3 times as fast |\n<!-- headline end -->\n"
        good = (block + "```\nrun --budget 3 s\n```\nAt 50 % of 16 clusters, version 2.0 has 5 sizes; 3 samples. Twice.\n"
                "The 1st, some 30 times.\n")
        self.assertEqual(complaints_about_figures("a.md", good, {"headline"}), [])
        for bad in ("in 15.3 ms", "`2 µs`", "1,000 s", "65 times as fast", "4.6 times faster", "a 23× speed-up", "3x faster",
                    "twice as fast", "at 22 GB/s", "three times as slow", "a tenth in 16 minutes", "a 5-fold gain"):
            with self.subTest(bad):
                complaint, = complaints_about_figures("a.md", f"{block}It runs {bad}.\n", {"headline"})
                self.assertIn("line 4", complaint)
        self.assertEqual(len(complaints_about_figures("a.md", block, {"verdicts"})), 1)
        unclosed = block.replace("headline end", "other end")
        self.assertEqual(len(complaints_about_figures("a.md", unclosed, {"headline"})), 2)
        self.assertEqual(blocks_of(['BEGIN = "<!-- a b begin -->\\n"', "<!-- c begin -->"]), {"a b"})

    def test_named_files(self):
        files = {"impls/cuda/common/check.hpp", "scripts/house.py"}
        good = "`check.hpp` `common/check.hpp` `scripts/house.py` `gbench.json` gone.hpp\n```\n`gone.hpp`\n```\n"
        self.assertEqual(complaints_about_files("a.md", good, files), [])
        for bad in ("gone.hpp", "scripts/check.hpp", "eck.hpp"):
            self.assertEqual(len(complaints_about_files("a.md", good + f"`{bad}`\n", files)), 1, bad)

    def test_the_program_answers(self):
        self.assertIn("--data", help_of(("run",)))
        self.assertIsNone(help_of(("walk",)))

    def test_words(self):
        for bad in ("a rung", "The Rungs", "half rows", "sums that stay", "words that count", "two teams",
                    "80 % of the limit", "the machine's limit", "open rows", "[rung](a.md)", "| rung |"):
            self.assertEqual(len(complaints_about_words("a.md", f"one\n{bad} of it\n")), 1, bad)
        for good in ("a step", "`rung`", "kmeans_cuda_half_rows", "wrung", "steam", "[step](rung.md)",
                     "```\nrung\n```", "<!-- table x begin -->\n| rung |\n<!-- table x end -->"):
            self.assertEqual(complaints_about_words("a.md", f"{good}\n"), [], good)


if __name__ == "__main__":
    unittest.main()
