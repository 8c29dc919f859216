"""`clusterbench report`: one HTML file that holds all rows and loads nothing, whatever variants are called;
and, where Chromium is installed, what it shows to somebody who looks at it."""

import json
import pathlib
import re
import unittest

import browser
import ledgers
from program import BINARY, SOURCE, Program

TEMPLATE = pathlib.Path(BINARY).parent / "page" / "template.html"
HOSTILE = '<img src=x onerror="document.title=1">|</script>' + "x" * 10000


class ReportPage(Program):
    def report(self, *rows):
        """The page of a ledger with these rows, and the data in it."""
        ledgers.write(self.folder / "out", [ledgers.header(), *rows])
        self.run_program("report", "out", "--out", "report.html")
        page = self.folder / "report.html"
        data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
        return page, json.loads(data[1])

    def rows(self, count):
        return [ledgers.row(samples=[1.0 + i, 1.1 + i, 1.2 + i], name=f"t/p/kmeans_v{i:05}/f32",
                            variant=f"kmeans_v{i:05}") for i in range(count)]

    def test_without_its_template_it_says_how_to_make_it(self):
        ledgers.write(self.folder / "out", [ledgers.header(), *self.rows(1)])
        self.environment["CLUSTERBENCH_FOLDER"] = str(self.folder)
        done = self.run_program("report", "out", "--out", "report.html", exit_code=64)
        self.assertIn("scripts/bundle_page.sh", done.stderr)
        self.assertFalse((self.folder / "report.html").exists())

    def test_what_is_no_ledger_is_named(self):
        self.need_template()
        self.assertIn("nothing", self.run_program("report", "nothing", "--out", "x.html", exit_code=64).stderr)

    def test_a_ledger_is_not_replaced_by_its_page(self):
        self.need_template()
        ledgers.write(self.folder / "out", [ledgers.header(), *self.rows(1)])
        path = self.folder / "out" / "ledger.jsonl"
        before = path.read_bytes()
        (self.folder / "link.html").symlink_to(path)
        for target in ("out/ledger.jsonl", "out/../out/ledger.jsonl", "link.html"):
            done = self.run_program("report", "out", "--out", target, exit_code=64)
            self.assertIn(f"--out {target}", done.stderr)
            self.assertEqual(path.read_bytes(), before)

    def test_only_an_earlier_page_is_replaced(self):
        self.need_template()
        ledgers.write(self.folder / "out", [ledgers.header(), *self.rows(1)])
        mine = self.folder / "mine.html"
        mine.write_text("<!doctype html>\n<p>my notes\n")
        done = self.run_program("report", "out", "--out", "mine.html", exit_code=64)
        self.assertIn("--out mine.html: another kind of file is there already", done.stderr)
        self.assertIn("my notes", mine.read_text())
        mine.unlink()
        self.run_program("report", "out", "--out", "mine.html")
        size = mine.stat().st_size
        ledgers.write(self.folder / "out", [ledgers.header(), *self.rows(2)])
        self.run_program("report", "out", "--out", "mine.html")
        self.assertGreater(mine.stat().st_size, size)

    def need_template(self):
        if not TEMPLATE.exists():
            self.skipTest("the page was not bundled: npm or its registry was not there")

    def test_the_file_holds_all_rows_and_loads_nothing(self):
        self.need_template()
        page, data = self.report(*self.rows(3), ledgers.row(samples=[1.0, 2.0], name=f"t/p/{HOSTILE}/f32",
                                                            variant=HOSTILE))
        text = page.read_text()
        self.assertEqual(len(data["cells"]), 4)
        self.assertIn(HOSTILE, [cell["variant"] for cell in data["cells"]])
        self.assertNotIn("<img src=x", text)
        self.assertNotRegex(text, r'<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*["\']?https?:')

    def test_as_a_person_sees_it(self):
        self.need_template()
        if browser.find_chromium() is None:
            self.skipTest("chromium is not installed")
        page, _ = self.report(*self.rows(40), ledgers.row(samples=[1.0, 2.0], name=f"t/p/{HOSTILE}/f32",
                                                          variant=HOSTILE))
        look = browser.Browser()
        self.addCleanup(look.close)
        look.open(page)
        self.assertIn("41 rows", look.run("document.getElementById('summary').textContent"))
        shown = look.run("document.getElementById('rows').textContent")
        self.assertIn("kmeans_v00000", shown)
        look.run("(() => {const e = document.querySelector('#filters input[type=search], #filters input[type=text]');"
                 "e.value = 'v00039'; e.dispatchEvent(new Event('input', {bubbles: true}));})()")
        look.wait("!document.getElementById('rows').textContent.includes('kmeans_v00000')")
        self.assertIn("kmeans_v00039", look.run("document.getElementById('rows').textContent"))
        self.assertNotEqual(look.run("document.title"), "1")
        self.assertEqual(look.messages, [])
        self.assertEqual([url for url in look.requests if not url.startswith(("file:", "data:"))], [])

    def test_legend_phases_quality_and_verdicts(self):
        self.need_template()
        if browser.find_chromium() is None:
            self.skipTest("chromium is not installed")
        definition = json.loads((SOURCE / "results/tables/article004.json").read_text())
        bound = {"limit": "FMA rate", "limit_ms_per_iteration": 0.01, "percent_of_limit": 12.345}
        rows = [row | bound | {"trace": {"inertia": [9.0, 5.0, 4.02, 4.0], "loss": [1.0] * 4}}
                for row in ledgers.rows_of_table(definition)]
        page, data = self.report(*rows)
        look = browser.Browser(width=700)  # narrow: what does not wrap would be cut
        self.addCleanup(look.close)
        look.open(page)
        # The legend names what is drawn, and lies within the page.
        legend = look.run("[...document.querySelectorAll('#legend li')].map(e => [e.textContent, "
                          "e.getBoundingClientRect().right])")
        self.assertGreater(len(legend), 4)
        self.assertIn("plain C++", [text for text, _ in legend])
        self.assertLessEqual(max(right for _, right in legend), 700)
        # Time to quality: the third pass enters with 4.02, within 1 % of 4.
        cell = next(cell for cell in data["cells"] if cell["variant"] == "kmeans_serial")
        row = next(row for row in rows if row["name"] == cell["name"])
        self.assertAlmostEqual(cell["quality_ms"], 3 * row["own_start"]["ms"] / row["own_start"]["iterations"])
        # A row in full has its phases, with shares.
        box = look.run("(() => {const e = document.querySelector('#rows tr[data-place]'); "
                       "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
                       "return [b.x + 20, b.y + b.height / 2];})()")
        look.move(*box)
        look.wait("document.querySelector('#detail .phases') !== null")
        self.assertEqual(look.run("[...document.querySelectorAll('.phase-names li')].map(e => e.textContent)"),
                         ["assign: 3 ms, 75 %", "update: 1 ms, 25 %"])
        # The name of the row's variant leads to its section, which names its file.
        name = look.run("document.querySelector('#detail h3').textContent")
        look.click("#detail h3 button")
        look.wait("document.querySelector('#variants details[open] dl') !== null")
        section = look.run("document.querySelector('#variants details[open]').textContent")
        self.assertIn(name, section)
        file = next(each["file"] for each in data["variants"] if each["name"] == name)
        self.assertTrue((SOURCE / file).is_file(), file)
        self.assertIn(file, section)
        self.assertIn(file, look.run("document.getElementById('detail').textContent"))
        self.assertEqual(look.run("document.activeElement.closest('details') === "
                                  "document.querySelector('#variants details[open]')"), True)
        # Verdicts are those of the table.
        table = json.loads(self.run_program("table", "article004", "--from", "out", "--json").stdout)
        shown = look.run("[...document.querySelectorAll('#verdicts tbody tr')].map(e => "
                         "[...e.children].map(c => c.textContent))")
        self.assertEqual([(line[0], line[1], line[5]) for line in shown],
                         [(row["problem"], row["label"], row["verdict"]) for row in table["beside"]])
        self.assertEqual(look.messages, [])

    def test_weighted_runs_have_a_quality_of_their_own(self):
        self.need_template()
        plain = ledgers.row(samples=[10.0] * 3, trace={"inertia": [9.0, 4.0], "loss": [1.0] * 2})
        words = ledgers.problem(weights="w.npy", weights_sha256="f", hash="g")
        weighted = ledgers.row(samples=[10.0] * 3, words=words,
                               trace={"inertia": [0.9, 0.4], "loss": [1.0] * 2})
        _, data = self.report(plain, weighted)
        self.assertEqual([cell.get("quality_ms") for cell in data["cells"]], [2.0, 2.0])

    def test_quick_runs_have_no_verdicts(self):
        self.need_template()
        definition = json.loads((SOURCE / "results/tables/article004.json").read_text())
        ledgers.write(self.folder / "out", [ledgers.header(command_line=["run", "article004", "--quick"]),
                                            *ledgers.rows_of_table(definition)])
        self.run_program("report", "out", "--out", "report.html")
        self.assertIn('"verdicts":[]', (self.folder / "report.html").read_text())


if __name__ == "__main__":
    unittest.main()
