"""Writes docs/verdicts.md, and the verdicts in README.md: what is left of each article's speed-up, step by
step, from results/claims.json, results/published.json (through the tables) and the reference ledgers.

    clusterbench table NAME --from LEDGER... --json >> reports
    scripts/verdicts.py results/claims.json reports docs/verdicts.md README.md

A step whose cell no ledger has says "not measured". No figure is written by hand.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from headline import reports

BEGIN, END = "<!-- verdicts begin -->\n", "<!-- verdicts end -->"
NOT_MEASURED = "not measured"
PRECISIONS = {"f32": "float32", "f64": "float64"}


def figure(value):
    """A speed-up with the digits that it deserves: 5.7, 16, 420."""
    if value >= 100:
        return f"{float(f'{value:.2g}'):.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def times(value):
    return f"{figure(value)} times"


@dataclass
class Step:
    """One link of the chain: a question, its figure or None, the cells that it comes from, a sentence."""

    question: str
    value: float | None
    cells: str
    sentence: str

    def line(self):
        shown = NOT_MEASURED if self.value is None else f"{figure(self.value)} ×"
        return f"| {self.question} | {shown} | {self.cells} | {self.sentence} |\n"


class Article:
    """One article's claim beside the cells of its table."""

    def __init__(self, claim, report):
        self.claim, self.report = claim, report
        self.problem = next(each for each in report["problems"] if each["id"] == claim["problem"])
        printed = {row["key"]: row for row in report["beside"] if row["problem"] == claim["problem"]}
        self.row = printed.get(claim.get("row"))
        self.over = printed.get(claim.get("over"))
        variant = self.row["variant"] if self.row else claim["variant"]
        precision = self.row["precision"] if self.row else claim["precision"]
        self.kernel = self.cell(variant, precision)

    def right(self, cell):
        return cell["status"] == "ok" and cell["verified"].startswith("right")

    def same_data(self):
        """Problems on the same data and clusters: they differ in their rule, and a pass is a pass."""
        return {each["id"] for each in self.report["problems"]
                if all(each[key] == self.problem[key] for key in ("data", "k", "family"))}

    def cell(self, variant, precision):
        """The cell of the claim's problem that short forms show, or None."""
        for cell in self.report["cells"]:
            if (cell["problem"], cell["variant"], cell["precision"]) == (
                    self.problem["id"], variant, precision) and cell["shown_first"] and self.right(cell):
                return cell
        return None

    def best(self, fits, measure, problems, rank):
        """The fastest right, exact cell in the kernel's precision that fits, or None."""
        cells = [cell for cell in self.report["cells"]
                 if cell["problem"] in problems and self.right(cell) and rank in cell
                 and cell["precision"] == self.kernel["precision"] and fits(cell)]
        return min(cells, key=lambda cell: cell[measure], default=None)

    def is_baseline(self, cell):
        return cell["variant"].startswith(f"{self.problem['family']}_{self.claim['baseline_kind']}")

    def name(self, cell):
        return (f"`{self.report['name']}/{cell['problem']}/{cell['variant']}/{cell['precision']}` "
                f"({cell['machine']})")

    def names(self, slow, fast):
        return f"{self.name(slow)} over {self.name(fast)}"

    def own(self, cell):
        """From the article's own start [ms per iteration]."""
        return cell.get("own_start_ms_per_iteration", cell["ms_per_iteration"])

    def printed_steps(self):
        row, over = self.row, self.over
        printed = over["published_ms"] / row["published_ms"]
        lines = f"lines {over['line']} and {row['line']} of the article"
        steps = [Step("printed, per run", printed, lines,
                      f"{over['label']} {over['published_ms']:.5g} ms, {row['label']} "
                      f"{row['published_ms']:.5g} ms.")]
        question = "printed, per pass"
        if "published_iterations" in row and "published_iterations" in over:
            steps.append(Step(question, over["published_ms_per_iteration"] / row["published_ms_per_iteration"],
                              lines, f"The runs made {over['published_iterations']:.0f} and "
                              f"{row['published_iterations']:.0f} passes."))
        elif self.problem["stop"] == "iterations":
            steps.append(Step(question, printed, lines,
                              f"Both runs make {self.problem['max_iterations']} passes."))
        else:
            steps.append(Step(question, None, lines, "The article does not print how many passes were made."))
        return steps

    def steps(self):
        steps = self.printed_steps() if self.row else []
        kernel = self.kernel
        if kernel is None:
            return steps + [Step("right answers only", None, "", "No reference ledger has the kernel.")]
        if self.row:
            over = self.cell(self.over["variant"], self.over["precision"])
            wrong = self.row["verdict"] == "published program is wrong"
            why = (f"The published program is wrong: {self.row['reasons'][0]}. Here a right one is timed."
                   if wrong else "Both answers are right here.")
            steps.append(self.compared("right answers only, per pass", over, self.own, why))
            same = self.cell(self.over["variant"], kernel["precision"])
            name = PRECISIONS[kernel["precision"]]
            why = (f"The article compares {PRECISIONS[self.over['precision']]} with {name}; here both are {name}."
                   if self.over["precision"] != kernel["precision"] else f"Both are {name} already.")
            steps.append(self.compared("equal precision", same, self.own, why))
        by_pass = lambda cell: cell["ms_per_iteration"]
        best = self.best(self.is_baseline, "ms_per_iteration", self.same_data(), "rank")
        steps.append(self.compared("best baseline of the same kind", best, by_pass,
                                   "The fastest plain C++ on one thread."))
        cpu = self.best(lambda cell: cell["device"] == "cpu", "ms_per_iteration", self.same_data(), "rank")
        steps.append(self.compared("best of a CPU", cpu, by_pass,
                                   f"The fastest on {self.processor(cpu)}." if cpu else ""))
        host = self.best(lambda cell: cell["device"] == "cpu" and self.machine(cell) == self.machine(kernel),
                         "ms_per_iteration", self.same_data(), "rank")
        steps.append(self.compared("best of the CPU beside this GPU", host, by_pass,
                                   "All cores of the GPU's host, or of one like it." if host else
                                   "The CPU variants were not run on the GPU's host."))
        for question, fits, sentence in (
                ("whole answer, over the best baseline", self.is_baseline,
                 "With copies to the device and back, from points in host memory to labels there."),
                ("whole answer, over the best of a CPU", lambda cell: cell["device"] == "cpu",
                 "The same, with vectors and threads.")):
            other = self.best(fits, "whole_ms", {self.problem["id"]}, "whole_rank")
            if "whole_rank" not in kernel:
                other, sentence = None, "The kernel's whole answer is not equal work."
            elif other is None:
                sentence = "No CPU cell of this problem did the same number of passes."
            steps.append(self.compared(question, other, lambda cell: cell["whole_ms"], sentence))
        return steps

    def compared(self, question, slow, measure, sentence):
        if slow is None:
            return Step(question, None, self.name(self.kernel), sentence or "No ledger has the other cell.")
        return Step(question, measure(slow) / measure(self.kernel), self.names(slow, self.kernel), sentence)

    def machine(self, cell):
        return next(each for each in self.report["machines"] if each["id"] == cell["machine"])["name"]

    def processor(self, cell):
        """The machine without its GPU."""
        return self.machine(cell).split("; ")[-1]

    def cores(self, cell):
        """Of the machine that a CPU cell is of: "2 cores"."""
        return self.machine(cell).rsplit(", ", 1)[-1] if cell else "a CPU"

    def cpu_cores(self):
        return self.cores(self.best(lambda cell: cell["device"] == "cpu", "ms_per_iteration", self.same_data(), "rank"))

    def cores_of_whole_answer(self):
        return self.cores(self.best(lambda cell: cell["device"] == "cpu", "whole_ms", {self.problem["id"]}, "whole_rank"))

    def title(self):
        return f"Article {self.report['name'].removeprefix('article')}"

    def verdict(self, steps):
        """The chain in plain words."""
        found = {step.question: step.value for step in steps}
        cells = {step.question: step.cells for step in steps}
        here = []
        for question, words in (("right answers only, per pass", "as fast as that C++"),
                                ("best baseline of the same kind", "as fast as the best plain C++ on one thread"),
                                ("best of a CPU", f"as fast as the best CPU variant on {self.cpu_cores()}")):
            if found.get(question) is None:
                continue
            if question.startswith("best baseline") and cells[question] == cells.get("equal precision"):
                here[0] += f", {words.replace('as fast as', 'which is')}"
                continue
            here.append(f"{times(found[question])} {words}")
        whole = found.get("whole answer, over the best of a CPU")
        ends = (f"With the copies to and from the GPU, the whole answer comes {times(whole)} as fast as from the best "
                f"CPU variant on {self.cores_of_whole_answer()}." if whole is not None else
                "The whole answer was not compared with a CPU's.")
        if self.kernel is None:
            return "Not measured."
        chain = ", ".join(here[:-1]) + (", and " if len(here) > 1 else "") + here[-1]
        if not self.row:
            return (f"The article prints no times, so there is nothing to confirm. Here its kernel is, per pass, "
                    f"{chain}. {ends}")
        printed = found["printed, per pass"] or found["printed, per run"]
        measured = found["right answers only, per pass"]
        claim = f"\"{times(found['printed, per run'])} faster than C++\"? "
        if self.row["verdict"] == "published program is wrong":
            opening = f"No. The program that was timed is wrong: {self.row['reasons'][0]}. A right one is"
        elif measured is None:
            return claim + "Not measured."
        else:
            unit = ("" if found["printed, per pass"] is None else
                    f"Its own figures give {times(found['printed, per pass'])} per pass. ")
            factor = self.row["factor"]
            word = ("Yes. " if 1 / factor <= measured / printed <= factor else
                    "More, on a newer GPU. " if measured > printed else "Less. ")
            opening = word + unit + "Here its kernel is"
        return f"{claim}{opening}, per pass, {chain}. {ends}"


HEAD = """# Verdicts

Is an article's speed-up true? Each table starts with the printed speed-up. Each further step takes
away something that is not the kernel's merit: more passes, wrong answers, less precision, a slow
baseline, copies that were left out.

- A cell is named `table/problem/variant/precision`. The letter is the machine that measured it.
- A speed-up is the time of the first cell divided by the time of the second.
- GPU and CPU times are of different machines unless a step says otherwise. So the printed and the
  measured figures share a method, not hardware.
- The GPU's host is rented. Its 16 cores are shared with others, and its ledger says how large a
  share of them a program got (`cpu_share`). Alone on them, CPU variants would be faster.
- The steps "right answers only" and "equal precision" time the run from the article's own start.
  The later steps use the median of runs from many starts.

`scripts/update_readme.sh` writes this page from [claims.json](../results/claims.json),
[published.json](../results/published.json) and the ledgers in `results/reference/`.
"""


def wrapped(text, width=100):
    """Words in lines of at most that many columns."""
    import textwrap

    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def section(article):
    steps = article.steps()
    verdict = article.verdict(steps)
    text = f"\n## {article.title()}: {article.report['title']}\n\n"
    text += wrapped(verdict) + "\n\n"
    text += "| step | speed-up | cells | what it says |\n| --- | --: | --- | --- |\n"
    text += "".join(step.line() for step in steps) + "\n"
    for machine in article.report["machines"]:
        text += wrapped(f"{machine['id']}: {machine['name']} ({machine['date']}); "
                        + ", ".join(f"`{name}`" for name in machine["ledgers"]) + ".") + "\n\n"
    return text.rstrip("\n") + "\n", verdict


def main():
    claims_path, source, page, readme = sys.argv[1:]
    with open(claims_path, encoding="utf-8") as file:
        claims = json.load(file)["claims"]
    with open(Path(claims_path).parent / "published.json", encoding="utf-8") as file:
        names = {f"article{key[:3]}": article["title"] for key, article in json.load(file)["articles"].items()}
    tables = {report["name"]: report for report in reports(source)}
    sections, verdicts = "", ""
    for claim in claims:
        article = Article(claim, tables[claim["table"]])
        text, verdict = section(article)
        sections += text
        line = f"- **{article.title()}**, *{names[claim['table']]}*. {verdict}"
        verdicts += wrapped(line, 98).replace("\n", "\n  ") + "\n"
    with open(page, "w", encoding="utf-8") as file:
        file.write(HEAD + sections)
    with open(readme, encoding="utf-8") as file:
        head, rest = file.read().split(BEGIN)
    _, tail = rest.split(END)
    with open(readme, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + verdicts + END + tail)


if __name__ == "__main__":
    main()
