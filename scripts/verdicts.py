"""Writes docs/verdicts.md, and the verdicts in README.md: what is left of each article's speed-up, step by
step, from results/claims.json, results/published.json (through the tables) and the reference ledgers.

    clusterbench table NAME --from LEDGER... --json >> reports
    scripts/verdicts.py results/claims.json reports docs/verdicts.md README.md

A step whose cell no ledger has says "not measured". No figure is written by hand.
"""

import json
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from reference import Reference, reports

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


def printed_ms(value):
    """As many digits as articles print: 759.44, 17,322.8, 898,490."""
    return f"{float(f'{value:.6g}'):,}".removesuffix(".0")


def told(value):
    return value or "not told"


def address(article):
    """A link to the article, or to its code, as far as its text tells them."""
    shown = [(before, article[key]) for key, before in (("url", ""), ("code", "code: ")) if article[key]]
    return "; ".join(f"{before}[{url.split('://')[1].removesuffix('/tree/master')}]({url})"
                     for before, url in shown) or told(None)


def name_of(article):
    """Its title in its own language, and in English."""
    if article["original_title"] is None:
        return f"it has no title; here *{article['title']}*. It begins “{article['opening']}”"
    if article["original_title"] == article["title"]:
        return article["title"]
    return f"{article['original_title']} (*{article['title']}*)"


def sources(articles):
    """A table of what the articles are."""
    return ("| article | title | author | what it is | date | address |\n| --- | --- | --- | --- | --- | --- |\n" +
            "".join(f"| {key.removeprefix('article')} | {name_of(article)} | {told(article['author'])} | "
                    f"{article['kind']}, in {article['language']} | {told(article['date'])} | {address(article)} |\n"
                    for key, article in articles.items()))


@dataclass
class Step:
    """One link of the chain: a question, its figure or None, the cells that it comes from, a sentence; and of
    which of their times: "passes", "wholes" or "own", from the article's own start."""

    question: str
    value: float | None
    cells: str
    sentence: str
    kind: str = ""
    used: list = field(default_factory=list)

    def line(self):
        shown = NOT_MEASURED if self.value is None else f"{figure(self.value)} ×"
        return f"| {self.question} | {shown} | {self.cells} | {self.sentence} |\n"


class Article:
    """One article's claim beside the cells of its table. about: what published.json says of the article."""

    def __init__(self, claim, report, about, reference):
        self.claim, self.report, self.about, self.reference = claim, report, about, reference
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
                f"({self.reference.machine((self.report, cell)).letter})")

    def names(self, slow, fast):
        return f"{self.name(slow)} over {self.name(fast)}"

    def own(self, cell):
        """From the article's own start [ms per iteration]."""
        return cell.get("own_start_ms_per_iteration", cell["ms_per_iteration"])

    def place(self, row):
        """Where the article prints a row's time."""
        place = self.about["places"][row["key"]]
        return f"section {place['section']}: “{place['words']}”"

    def printed_steps(self):
        row, over = self.row, self.over
        printed = over["published_ms"] / row["published_ms"]
        places = f"{self.place(over)}; {self.place(row)}"
        steps = [Step("printed, per run", printed, places,
                      f"{over['label']} {printed_ms(over['published_ms'])} ms, {row['label']} "
                      f"{printed_ms(row['published_ms'])} ms.")]
        question = "printed, per pass"
        if "published_iterations" in row and "published_iterations" in over:
            steps.append(Step(question, over["published_ms_per_iteration"] / row["published_ms_per_iteration"],
                              places, f"The runs made {over['published_iterations']:.0f} and "
                              f"{row['published_iterations']:.0f} passes."))
        elif self.problem["stop"] == "iterations":
            steps.append(Step(question, printed, places,
                              f"Both runs make {self.problem['max_iterations']} passes."))
        else:
            steps.append(Step(question, None, places, "The article does not print how many passes were made."))
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
            steps.append(self.compared("right answers only, per pass", over, "own", why))
            same = self.cell(self.over["variant"], kernel["precision"])
            name = PRECISIONS[kernel["precision"]]
            why = (f"The article compares {PRECISIONS[self.over['precision']]} with {name}; here both are {name}."
                   if self.over["precision"] != kernel["precision"] else f"Both are {name} already.")
            steps.append(self.compared("equal precision", same, "own", why))
        best = self.best(self.is_baseline, "ms_per_iteration", self.same_data(), "rank")
        steps.append(self.compared("best baseline of the same kind", best, "passes",
                                   "The fastest plain C++ on one thread."))
        cpu = self.best(lambda cell: cell["device"] == "cpu", "ms_per_iteration", self.same_data(), "rank")
        steps.append(self.compared("best of a CPU", cpu, "passes",
                                   f"The fastest on {self.processor(cpu)}." if cpu else ""))
        host = self.best(lambda cell: cell["device"] == "cpu" and self.machine(cell) == self.machine(kernel),
                         "ms_per_iteration", self.same_data(), "rank")
        steps.append(self.compared("best of the CPU beside this GPU", host, "passes",
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
            steps.append(self.compared(question, other, "wholes", sentence))
        return steps

    def compared(self, question, slow, kind, sentence):
        measure = {"own": self.own, "passes": lambda cell: cell["ms_per_iteration"],
                   "wholes": lambda cell: cell["whole_ms"]}[kind]
        if slow is None:
            return Step(question, None, self.name(self.kernel), sentence or "No ledger has the other cell.")
        return Step(question, measure(slow) / measure(self.kernel), self.names(slow, self.kernel), sentence,
                    kind, [(self.report, slow), (self.report, self.kernel)])

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

Is an article's speed-up true? Each table starts with the printed speed-up, where the article prints
times. Each further step takes away something that is not the kernel's merit: more passes, wrong
answers, less precision, a slow baseline, copies that were left out.

- A cell is named `table/problem/variant/precision`. The letter is the [machine](#machines) that
  measured it.
- A speed-up is the time of the first cell divided by the time of the second.
- GPU and CPU times are of different machines unless a step says otherwise. So the printed and the
  measured figures share a method, not hardware.
- The GPU's host is rented. Its 16 cores are shared with others, and its ledger says how large a
  share of them a program got (`cpu_share`). Alone on them, CPU variants would be faster.
- The steps "right answers only" and "equal precision" time the run from the article's own start.
  The later steps use the median of runs from many starts. Below a table stands how many there were.

`scripts/update_readme.sh` writes this page from [claims.json](../results/claims.json),
[published.json](../results/published.json) and the ledgers in `results/reference/`.
"""


def wrapped(text, width=100):
    """Words in lines of at most that many columns."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def used(steps, kind):
    """The cells whose times of a kind the steps show, each once."""
    return list({id(cell): (report, cell) for step in steps if step.kind == kind
                 for report, cell in step.used}.values())


def measured_how(steps, reference, page):
    """How many processes and samples the steps' times are of, and what is old about them. page: on copies to a
    GPU."""
    passes, wholes, own = (used(steps, kind) for kind in ("passes", "wholes", "own"))
    if not passes + wholes + own:
        return ""
    return " ".join(filter(None, [reference.sampling(passes, wholes, own), reference.older_uploads(wholes, page)]))


def section(article):
    steps = article.steps()
    text = f"\n## {article.title()}: {article.report['title']}\n\n{wrapped(article.verdict(steps))}\n\n"
    text += "| step | speed-up | cells | what it says |\n| --- | --: | --- | --- |\n"
    text += "".join(step.line() for step in steps)
    how = measured_how(steps, article.reference, "ladder/whole_answer.md")
    return text + (f"\n{wrapped(how)}\n" if how else "")


def machines(found):
    """The legend of the letters."""
    return "\n## Machines\n\n" + "\n\n".join(
        wrapped(f"{machine.line()} Ledgers: {', '.join(f'`{name}`' for name in sorted(machine.ledgers))}.")
        for machine in found) + "\n"


def page_text(articles, about):
    """docs/verdicts.md."""
    steps = [step for article in articles for step in article.steps()]
    found = articles[0].reference.machines_of(pair for step in steps for pair in step.used)
    return HEAD + f"\n## Sources\n\n{sources(about)}" + "".join(map(section, articles)) + machines(found)


def readme_text(articles):
    """The verdicts of README.md, and what they are of."""
    lines = []
    for article in articles:
        about = article.about
        name = f"[{about['title']}]({about['url']})" if about["url"] else about["title"]
        line = f"- **{article.title()}**, *{name}* ({about['kind']}). {article.verdict(article.steps())}"
        lines.append(wrapped(line, 98).replace("\n", "\n  ") + "\n")
    steps = [step for article in articles for step in article.steps()]
    how = measured_how(steps, articles[0].reference, "docs/ladder/whole_answer.md")
    return "".join(lines) + "\n" + wrapped(
        f"[Sources](docs/verdicts.md#sources): what these articles are, and where they stand. {how}") + "\n"


def main():
    claims_path, source, page, readme = sys.argv[1:]
    with open(claims_path, encoding="utf-8") as file:
        claims = json.load(file)["claims"]
    with open(Path(claims_path).parent / "published.json", encoding="utf-8") as file:
        about = json.load(file)["articles"]
    tables = {report["name"]: report for report in reports(source)}
    reference = Reference(tables.values())
    articles = [Article(claim, tables[claim["table"]], about[claim["table"]], reference) for claim in claims]
    with open(page, "w", encoding="utf-8") as file:
        file.write(page_text(articles, about))
    with open(readme, encoding="utf-8") as file:
        head, rest = file.read().split(BEGIN)
    _, tail = rest.split(END)
    with open(readme, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + readme_text(articles) + END + tail)


if __name__ == "__main__":
    main()
