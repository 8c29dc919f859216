"""scripts/verdicts.py and results/published.json: a reader can find the articles and the places of their
figures, and sees how many processes and samples the measured ones are of."""

import json
import os
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests/cli"), str(SOURCE / "tests/unit")]

import verdicts  # noqa: E402
from reference import Reference  # noqa: E402
from test_headline import CPU_LIMITS, CUDA, NEW, OLD, SERIAL, SIMD, Campaigns  # noqa: E402

ABOUT = json.loads((SOURCE / "results/published.json").read_text())["articles"]
TABLES = {path.stem: json.loads(path.read_text()) for path in (SOURCE / "results/tables").glob("article*.json")}
PRIVATE_NAME = re.compile(r"\d{3}_[0-9a-f]{16}")


def figures(text):
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)]


class Published(unittest.TestCase):
    def test_every_article_says_what_it_is(self):
        self.assertEqual(ABOUT.keys(), TABLES.keys())
        for name, article in ABOUT.items():
            with self.subTest(name):
                for key in ("title", "language", "kind"):
                    self.assertTrue(article[key])
                for key in ("original_title", "author", "url", "code", "date"):  # null where nobody told
                    self.assertIn(key, article)
                    self.assertNotEqual(article[key], "")
                for key in ("url", "code"):
                    self.assertRegex(article[key] or "https://", "^https://")
                self.assertTrue(article["original_title"] or article["opening"])

    def test_a_table_names_its_article(self):
        for name, table in TABLES.items():
            self.assertEqual(table.get("published", {"article": name})["article"], name)

    def test_every_printed_time_has_a_place_that_prints_it(self):
        for name, article in ABOUT.items():
            times = {f"{unit}.{key}": value for unit in ("seconds", "milliseconds")
                     for key, value in article.get(unit, {}).items()}
            self.assertEqual(article.get("places", {}).keys(), times.keys(), name)
            for key, value in times.items():
                place = article["places"][key]
                self.assertTrue(place["section"])
                printed = figures(place["words"])
                for each in value if isinstance(value, list) else [value]:
                    self.assertTrue(each in printed or each / 1000 in printed, (name, key, each, printed))

    def test_no_private_file_name(self):
        for path in [SOURCE / "README.md", *(SOURCE / "results").glob("*.json"), *(SOURCE / "results/tables").iterdir(),
                     *(SOURCE / "docs").rglob("*.md"), *(SOURCE / "scripts").glob("*.py")]:
            self.assertNotRegex(path.read_text(), PRIVATE_NAME, path)

    def test_the_first_page_says_how_many_print_times(self):
        count = {3: "three"}[sum("places" in article for article in ABOUT.values())]
        page = " ".join((SOURCE / "README.md").read_text().split())
        self.assertIn(f"beside the times that {count} of them print", page)
        self.assertNotIn("published articles", page)


class Sources(unittest.TestCase):
    ARTICLE = {"title": "Means", "original_title": "平均", "language": "Chinese", "author": None, "url": None, "code": None,
               "date": None, "kind": "blog post"}

    def row(self, **changes):
        return verdicts.sources({"article007": self.ARTICLE | changes}).splitlines()[-1]

    def test_what_is_not_told_is_said(self):
        self.assertEqual(self.row(), "| 007 | 平均 (*Means*) | not told | blog post, in Chinese | not told | not told |")

    def test_what_is_told(self):
        row = self.row(author="A. Author", date="2020-01-02", url="https://a.example/b", code="https://c.example/d/tree/master")
        self.assertIn("| A. Author | blog post, in Chinese | 2020-01-02 | [a.example/b](https://a.example/b); "
                      "code: [c.example/d](https://c.example/d/tree/master) |", row)

    def test_titles(self):
        self.assertIn("| Means |", self.row(original_title="Means"))
        self.assertIn("| it has no title; here *Means*. It begins “Well” |", self.row(original_title=None, opening="Well"))

    def test_the_pages_print_them(self):
        page, readme = ((SOURCE / path).read_text() for path in ("docs/verdicts.md", "README.md"))
        self.assertIn(verdicts.sources(ABOUT), page)
        for article in ABOUT.values():
            if article["url"]:
                self.assertIn(f"]({article['url']})", readme)


class Steps(unittest.TestCase):
    """One claim on a made-up report."""

    ABOUT = {"title": "Means", "original_title": "Means", "language": "English", "author": None, "url": "https://a.example/b",
             "code": None, "date": None, "kind": "blog post",
             "places": {"seconds.fast": {"section": "4 Results", "words": "fast 1 s"},
                        "seconds.slow": {"section": "3 Before", "words": "slow 9 s"}}}

    def setUp(self):
        self.campaigns = Campaigns()

    def article(self):
        report = self.campaigns.report()
        report["problems"][0] |= {"stop": "iterations", "max_iterations": 10}
        for cell in report["cells"]:
            cell |= {"verified": "right", "shown_first": True}
        report["beside"] = [
            {"key": f"seconds.{name}", "problem": "p", "label": name, "published_ms": ms, "variant": variant,
             "precision": "f32", "verdict": "reproduced", "factor": 2.0, "reasons": []}
            for name, ms, variant in (("fast", 1000.0, CUDA), ("slow", 898490.0, SERIAL))]
        claim = {"table": "t", "problem": "p", "row": "seconds.fast", "over": "seconds.slow", "baseline_kind": "serial"}
        return verdicts.Article(claim, report, self.ABOUT, Reference([report]))

    def page(self):
        return " ".join(verdicts.page_text([self.article()], {"article007": self.ABOUT}).split())

    def test_a_printed_figure_names_its_place(self):
        self.campaigns.machine("One", CUDA, SERIAL, SIMD)
        page = self.page()
        self.assertIn("| section 3 Before: “slow 9 s”; section 4 Results: “fast 1 s” | slow 898,490 ms, fast 1,000 ms. |", page)

    def test_processes_and_samples_stand_below_a_table(self):
        self.campaigns.machine("One", CUDA, SERIAL, samples=3)
        self.campaigns.machine("Two", SIMD, samples=14)
        self.campaigns.cells[2].update(ms_per_iteration=0.5)
        self.assertIn("Each time is of one process (one round): per iteration the median of 3 to 14 runs, of a whole "
                      "answer the median of 5 runs, from an article's own start one run of a process.", self.page())

    def test_the_first_page_says_it_too(self):
        self.campaigns.machine("One", CUDA, SERIAL, SIMD, time=OLD)
        text = " ".join(verdicts.readme_text([self.article()]).split())
        self.assertIn("*[Means](https://a.example/b)* (blog post).", text)
        self.assertIn("[Sources](docs/verdicts.md#sources)", text)
        self.assertIn("Each time is of one process (one round): per iteration the median of 9 runs", text)
        self.assertIn("Whole answers on the GPU of 2026-11-25 are older than the way in which points travel now "
                      "([whole answer](docs/ladder/whole_answer.md)).", text)

    def test_whole_answers_before_points_travelled_as_now(self):
        for time, is_said in ((OLD, True), (NEW, False)):
            with self.subTest(time):
                self.campaigns = Campaigns()
                self.campaigns.machine("One", CUDA, SERIAL, SIMD, time=time)
                self.assertEqual("older than the way in which points travel now ([whole answer](ladder/whole_answer.md))"
                                 in self.page(), is_said)

    def test_a_step_without_whole_answers_says_nothing_of_them(self):
        self.campaigns.machine("One", CUDA, SERIAL, SIMD, time=OLD)
        for cell in self.campaigns.cells:
            del cell["whole_rank"]
        page = self.page()
        self.assertIn("per iteration the median of 9 runs, from an article's own start", page)
        self.assertNotIn("points travel now", page)

    def test_machines_have_a_legend(self):
        self.campaigns.machine("Shared", CUDA, limits={**CPU_LIMITS, "cpu": [{"threads": 2, "cpu_share": 0.42}]})
        path = self.campaigns.machine("Small", SERIAL)
        page = self.page()
        self.assertIn("`t/p/kmeans_serial/f32` (B) over `t/p/kmeans_cuda_fused/f32` (A)", page)
        self.assertIn("A: Shared (2026-11-28); its probe got 42 % of its processors' time (`cpu_share`). Ledgers:", page)
        self.assertIn(f"B: Small (2026-11-28). Ledgers: `{path}`.", page)

    def test_figures(self):
        self.assertEqual([verdicts.printed_ms(each) for each in (759.44, 17322.8, 898490.0, 17.1)],
                         ["759.44", "17,322.8", "898,490", "17.1"])
        self.assertEqual([verdicts.figure(each) for each in (5.74, 16.2, 424.0)], ["5.7", "16", "420"])


class CommittedPage(unittest.TestCase):
    def test_every_table_has_its_processes_and_samples(self):
        parts = (SOURCE / "docs/verdicts.md").read_text().split("\n## Article ")[1:]
        self.assertEqual(len(parts), 5)
        for part in parts:
            self.assertRegex(" ".join(part.split()), r"\| Each time is of [\w ]+ \([\w ]*rounds?\): per iteration the median of ")
            self.assertNotRegex(part, r"lines? \d+")


if __name__ == "__main__":
    unittest.main()
