"""`clusterbench compare`: its statistics against SciPy's, its verdicts on made-up campaigns, and
what it refuses. The campaigns are written by hand, so that nothing here depends on a clock."""

import json
import math
import unittest

import numpy as np

try:
    from scipy import stats
except ImportError:
    stats = None

import ledgers
from program import Program, ledger


def row(name, samples, status="ok", round_number=1, problem="p", threads=2, message="", **changes):
    """A row of the cell `name`; one without samples has no time."""
    return ledgers.row(samples=list(samples) or None, status=status, round_number=round_number,
                       words=ledgers.problem(hash=problem), threads=threads, name=name,
                       message=message, **changes)


def bh(p_values):
    """Benjamini and Hochberg's adjusted p-values, written after their definition."""
    count = len(p_values)
    ranked = sorted(p_values)
    return [min(min(1.0, ranked[r] * count / (r + 1)) for r in range(count) if ranked[r] >= p)
            for p in p_values]


class Compare(Program):
    def write(self, name, rows, seed=None, **header):
        """Without a seed nothing is known of the starts, as where seeds are not the same."""
        return ledgers.write(self.folder / name, [ledgers.header(seed=seed, **header), *rows])

    def compare(self, base, new, *options, exit_code=0):
        self.write("base", base)
        self.write("new", new)
        done = self.run_program("compare", "base", "new", "--json", *options, exit_code=exit_code)
        result = json.loads(done.stdout)
        self.assertEqual(result["exit_code"], exit_code)
        return result

    def verdict(self, base, new, *options, exit_code=0):
        cells = self.compare([row("c", base)], [row("c", new)], *options, exit_code=exit_code)
        return cells["cells"][0]["verdict"]


class Statistics(Compare):
    @unittest.skipIf(stats is None, "python3-scipy is not installed")
    def test_p_values_are_scipys(self):
        random = np.random.default_rng(1)
        pairs = [(3, 3), (8, 40), (8, 8), (2, 99), (9, 9), (9, 12), (40, 55), (99, 99), (1, 1)]
        base, new, expected = [], [], []
        for ties in (False, True):
            for n, m in pairs:
                a = 10 + random.exponential(1.0, n)
                b = 10 + random.exponential(1.3, m)
                if ties:
                    a, b = np.round(a, 1), np.round(b, 1)
                name = f"{n} {m} {ties}"
                base.append(row(name, a))
                new.append(row(name, b))
                with np.errstate(all="ignore"):
                    p = stats.mannwhitneyu(a, b, alternative="two-sided", method="auto").pvalue
                expected.append(1.0 if math.isnan(p) else min(1.0, float(p)))
        result = self.compare(base, new, exit_code=self.any_code(base, new))
        got = {cell["name"]: cell for cell in result["cells"]}
        names = [line["name"] for line in base]
        for name, p in zip(names, expected):
            self.assertAlmostEqual(got[name]["p"], p, delta=1e-12 + 1e-9 * p, msg=name)
        for name, q in zip(names, bh(expected)):
            self.assertAlmostEqual(got[name]["q"], q, delta=1e-12 + 1e-9 * q, msg=name)

    def any_code(self, base, new):
        """The exit code, whatever it is: the figures are asked for, not the verdict."""
        self.write("base", base)
        self.write("new", new)
        for code in (0, 1, 3):
            try:
                self.run_program("compare", "base", "new", exit_code=code)
                return code
            except AssertionError:
                continue
        self.fail("neither 0, 1 nor 3")

    def test_the_interval_covers_the_true_ratio(self):
        random = np.random.default_rng(2)
        base, new = [], []
        for i in range(200):
            base.append(row(f"c{i:03}", 10 * random.lognormal(0, 0.05, 40)))
            new.append(row(f"c{i:03}", 11 * random.lognormal(0, 0.05, 40)))
        result = self.compare(base, new, exit_code=1)
        covered = sum(c["interval"][0] <= 1.1 <= c["interval"][1] for c in result["cells"])
        self.assertGreaterEqual(covered, 180)
        self.assertLess(covered, 200)
        self.assertAlmostEqual(result["geometric_mean"], 1.1, delta=0.005)
        low, high = result["geometric_mean_interval"]
        self.assertTrue(1.09 < low < 1.1 < high < 1.11, (low, high))

    def test_rounds_that_differ_widen_the_interval(self):
        samples = [10 + 0.001 * i for i in range(20)]
        other = [1.05 * x for x in samples]
        alike = [row("c", samples), row("c", samples, round_number=2)]
        unlike = [row("c", samples), row("c", other, round_number=2)]
        one = self.compare(alike, alike)
        two = self.compare(unlike, unlike, exit_code=3)

        def width(result):
            low, high = result["cells"][0]["interval"]
            return high - low
        self.assertLess(width(one), 0.002)
        self.assertGreater(width(two), 0.05)
        self.assertEqual(two["cells"][0]["verdict"], "inconclusive")

    def test_many_cells_raise_no_false_alarm(self):
        random = np.random.default_rng(3)
        base = [row(f"c{i:03}", 10 * random.lognormal(0, 0.1, 9)) for i in range(150)]
        new = [row(f"c{i:03}", 10 * random.lognormal(0, 0.1, 9)) for i in range(150)]
        result = self.compare(base, new, exit_code=3)
        p_below = [c for c in result["cells"] if c["p"] < 0.05]
        self.assertGreater(len(p_below), 0)  # what the correction is for
        self.assertEqual([c["name"] for c in result["cells"] if c["verdict"] == "slower"], [])


class Verdicts(Compare):
    STEADY = [10 + 0.001 * i for i in range(20)]

    def test_cells_are_chosen(self):
        steady = [10 + 0.001 * i for i in range(20)]
        base = [row("t/a/v/f32", steady), row("t/b/v/f32", steady)]
        new = [row("t/a/v/f32", steady), row("t/b/v/f32", [2 * x for x in steady])]
        self.assertEqual(len(self.compare(base, new, exit_code=1)["cells"]), 2)
        cell, = self.compare(base, new, "--cells", "*/a/*")["cells"]
        self.assertEqual(cell["verdict"], "same")
        cells = self.compare(base, new, "--cells", "t/a/*", "--cells", "*/b/*", exit_code=1)["cells"]
        self.assertEqual(len(cells), 2)
        done = self.run_program("compare", "base", "new", "--cells", "*/c/*", exit_code=64)
        self.assertIn("--cells */c/*: no cell", done.stderr)

    def test_slow_cells_have_few_samples(self):
        slow = [6000, 6010, 6020]  # no three against three have a p below 0.1
        for factor, verdict, code in ((2.0, "slower", 1), (0.5, "faster", 0), (1.15, "slower", 1),
                                      (1.05, "inconclusive", 3), (1.0, "same", 0)):
            with self.subTest(factor):
                result = self.compare([row("c", slow)], [row("c", [factor * x for x in slow])],
                                      exit_code=code)
                cell, = result["cells"]
                self.assertEqual((cell["verdict"], cell["message"]),
                                 (verdict, "too few samples for a test"))
        done = self.run_program("compare", "base", "new")
        self.assertRegex(done.stdout, r"\bsame\n    c: too few samples for a test\n")
        # Samples that overlap say nothing, however far apart the medians are.
        self.assertEqual(self.verdict(slow, [6015, 12000, 12100], exit_code=3), "inconclusive")

    def test_rounds_are_asked_and_not_their_samples(self):
        # Each process has a pace of its own; samples alone would be sure of 10 % that rounds are not.
        def rounds(paces):
            return [row("c", [pace * x for x in self.STEADY], round_number=i + 1)
                    for i, pace in enumerate(paces)]
        base = rounds([1.0, 1.05, 0.98, 1.02])
        cell, = self.compare(base, rounds([1.06, 1.07, 1.08, 1.01]), exit_code=3)["cells"]
        self.assertEqual((cell["verdict"], cell["interval_is_range"]), ("inconclusive", False))
        self.assertAlmostEqual(cell["p"], 8 / 70)  # three of sixteen pairs the other way
        self.assertEqual(self.compare(base, rounds([1.16, 1.17, 1.18, 1.2]),
                                      exit_code=1)["cells"][0]["verdict"], "slower")
        cell, = self.compare(rounds([1.0, 1.01]), rounds([1.2, 1.22]), exit_code=1)["cells"]
        self.assertEqual((cell["verdict"], cell["message"], cell["interval_is_range"]),
                         ("slower", "too few samples for a test", True))
        self.assertAlmostEqual(cell["interval"][0], 1.2 / 1.01)
        self.assertAlmostEqual(cell["interval"][1], 1.22)

    def test_what_the_figures_cannot_say(self):
        self.verdict([6000, 6010, 6020], [6000, 6010, 6020])
        done = self.run_program("compare", "base", "new")
        self.assertIn("1.000 (0.997 .. 1.003)", done.stdout)
        self.assertIn("the least and the greatest", done.stdout)
        self.assertIn("One process cannot tell", done.stdout)
        two = [row("c", self.STEADY, round_number=i) for i in (1, 2, 3, 4)]
        self.compare(two, two)
        done = self.run_program("compare", "base", "new")
        self.assertIn("1.000 [1.000, 1.000]", done.stdout)
        self.assertNotIn("the least", done.stdout)
        self.assertNotIn("One process", done.stdout)

    def test_few_samples_among_many_cells(self):
        # Nine against three could have a p of 0.009, but not if sixty others are asked.
        others = [row(f"c{i:02}", self.STEADY) for i in range(60)]
        base = [row("slow", [4900 + i for i in range(9)]), *others]
        new = [row("slow", [9800, 9810, 9820]), *others]
        cells = {cell["name"]: cell for cell in self.compare(base, new, exit_code=1)["cells"]}
        self.assertEqual(cells["slow"]["verdict"], "slower")
        self.assertEqual(cells["slow"]["message"], "too few samples for a test")
        self.assertEqual((cells["c00"]["verdict"], cells["c00"]["message"]), ("same", ""))

    def test_verdicts(self):
        times = self.STEADY
        for factor, verdict, code in ((1.0, "same", 0), (1.015, "same", 0), (1.1, "slower", 1),
                                      (0.9, "faster", 0), (0.985, "same", 0)):
            with self.subTest(factor):
                self.assertEqual(self.verdict(times, [factor * x for x in times], exit_code=code),
                                 verdict)
        self.assertEqual(self.verdict([9, 10, 12, 14, 20], [8, 11, 13, 15, 19], exit_code=3),
                         "inconclusive")
        # It may be faster by more than the minimum effect or not, but it is not slower.
        self.assertEqual(self.verdict([10, 10.1, 10.2], [9.7, 9.8, 9.9]), "inconclusive")

    def test_minimum_effect(self):
        times, slower = self.STEADY, [1.05 * x for x in self.STEADY]
        self.assertEqual(self.verdict(times, slower, "--min-effect", "10"), "same")
        self.assertEqual(self.verdict(times, slower, "--min-effect", "1", exit_code=1), "slower")

    def findings(self, base, new, exit_code):
        result = self.compare([row("other", self.STEADY), *base],
                              [row("other", self.STEADY), *new], exit_code=exit_code)
        return {cell["name"]: cell["verdict"] for cell in result["cells"]}["c"]

    def test_a_base_without_a_time_compares_nothing(self):  # which no CI may take for "not slower"
        good = row("c", self.STEADY)
        for base in ([], [row("c", [], "wrong", message="why")]):
            with self.subTest(base=base):
                self.compare(base, [good], exit_code=5)
        crashed = row("d", [], "crashed", message="why")
        self.compare([crashed], [crashed, good], exit_code=5)

    def test_findings(self):
        good, times = row("c", self.STEADY), self.STEADY
        bad = {status: row("c", [], status, message="why")
               for status in ("wrong", "crashed", "timed_out", "unavailable")}
        self.assertEqual(self.findings([good], [], 5), "missing")
        self.assertEqual(self.findings([good], [bad["wrong"]], 2), "wrong")
        self.assertEqual(self.findings([bad["crashed"]], [bad["wrong"]], 2), "wrong")
        self.assertEqual(self.findings([], [bad["wrong"]], 2), "wrong")
        self.assertEqual(self.findings([good], [bad["crashed"]], 5), "failed")
        self.assertEqual(self.findings([good], [bad["unavailable"]], 5), "failed")
        self.assertEqual(self.findings([bad["wrong"]], [good], 0), "new")
        self.assertEqual(self.findings([], [good], 0), "new")
        self.assertEqual(self.findings([bad["wrong"]], [bad["wrong"]], 0), "not_compared")
        self.assertEqual(self.findings([bad["unavailable"]], [], 0), "not_compared")
        self.assertEqual(self.findings([good], [row("c", times, problem="q")], 5),
                         "different_work")
        self.assertEqual(self.findings([good], [row("c", times, threads=1)], 5), "different_work")

    def test_cheating_is_wrong_and_no_sandbox_vouches_for_nothing(self):
        good = row("c", self.STEADY)
        self.assertEqual(self.findings([good], [row("c", [], "cheated", message="why")], 2), "wrong")
        free = row("c", self.STEADY, unsandboxed=True)
        self.assertEqual(self.findings([good], [free], 5), "failed")
        self.assertEqual(self.findings([free], [free], 0), "not_compared")

    def test_numbers_of_threads_are_cells_of_their_own(self):
        both = [row("c", self.STEADY), row("c", [2 * x for x in self.STEADY], threads=1)]
        result = self.compare(both, both)
        self.assertEqual([(cell["name"], cell["verdict"]) for cell in result["cells"]],
                         [("c, 1 threads", "same"), ("c, 2 threads", "same")])

    def test_one_bad_round_spoils_the_cell(self):
        rounds = [row("c", self.STEADY), row("c", [], "wrong", 2, message="why")]
        self.assertEqual(self.findings([row("c", self.STEADY)], rounds, 2), "wrong")

    def test_the_newest_row_of_a_round_counts(self):
        rows = [row("c", [], "crashed", message="why"), row("c", self.STEADY)]
        self.assertEqual(self.findings([row("c", self.STEADY)], rows, 0), "same")

    def test_the_gravest_finding_is_the_exit_code(self):
        times = self.STEADY
        slow = [2 * x for x in times]
        self.compare([row("a", times), row("b", times)], [row("a", slow)], exit_code=5)
        self.compare([row("a", times), row("b", times)],
                     [row("a", slow), row("b", [], "wrong", message="why")], exit_code=2)


class Starts(Compare):
    """Where seeds are equal, cells are compared start by start."""

    COSTS = [10.0, 3.0, 40.0, 7.0, 90.0, 15.0, 22.0, 61.0, 5.0]  # of starts 0, 1, ...

    def paired(self, base, new, exit_code=0):
        self.write("base", base, seed=3)
        self.write("new", new, seed=3)
        done = self.run_program("compare", "base", "new", "--json", exit_code=exit_code)
        return json.loads(done.stdout)["cells"][0]

    def test_starts_that_differ_by_much_hide_nothing(self):
        slower = [1.05 * x * (1 + 0.0001 * i) for i, x in enumerate(self.COSTS)]
        cell = self.paired([row("c", self.COSTS)], [row("c", slower)], exit_code=1)
        self.assertEqual((cell["verdict"], cell["paired"]), ("slower", True))
        self.assertAlmostEqual(cell["ratio"], 1.05 * 1.0004)
        self.assertAlmostEqual(cell["p"], 2 / 2**9)
        self.assertLess(cell["interval"][1] - cell["interval"][0], 0.002)
        # The same times without a seed in common say nothing.
        cells = self.compare([row("c", self.COSTS)], [row("c", slower)], exit_code=3)["cells"]
        self.assertEqual((cells[0]["verdict"], cells[0]["paired"]), ("inconclusive", False))
        self.assertIn("--starts SEED", self.run_program("compare", "base", "new", exit_code=3).stdout)

    def test_only_starts_that_both_have_count(self):
        few = row("c", [2 * x for x in self.COSTS[2:7]], starts=range(2, 7))
        cell = self.paired([row("c", self.COSTS)], [few], exit_code=1)
        self.assertTrue(cell["paired"])
        self.assertAlmostEqual(cell["ratio"], 2.0)

    def test_cost_per_pass_where_passes_differ(self):
        passes = [10, 12, 9, 30, 11, 8, 10, 14, 10]
        fewer = [count // 2 for count in passes]
        halved = [ms * few / many for ms, many, few in zip(self.COSTS, passes, fewer)]
        cell = self.paired([row("c", self.COSTS, passes=passes)], [row("c", halved, passes=fewer)])
        self.assertAlmostEqual(cell["ratio"], 1.0)
        self.assertEqual(cell["verdict"], "same")
        self.assertIn("of one pass: ", cell["message"])

    def test_rounds_are_paired_too(self):
        def rounds(paces):
            return [row("c", [pace * x for x in self.COSTS], round_number=i + 1)
                    for i, pace in enumerate(paces)]
        cell = self.paired(rounds([1.0, 1.01, 0.99, 1.005]), rounds([1.1, 1.11, 1.09, 1.105]),
                           exit_code=1)
        self.assertEqual((cell["verdict"], cell["paired"]), ("slower", True))
        self.assertAlmostEqual(cell["p"], 2 / 70)

    @unittest.skipIf(stats is None, "python3-scipy is not installed")
    def test_p_values_of_pairs_are_scipys(self):
        random = np.random.default_rng(4)
        for count in (3, 9, 50, 51, 120):
            base = 10 + random.exponential(1.0, count)
            new = base * np.exp(random.normal(0.02, 0.1, count))
            with self.subTest(count):
                cell = self.paired([row("c", base)], [row("c", new)], exit_code=(0, 1, 3))
                p = stats.wilcoxon(np.log(new / base), correction=False,
                                   method="exact" if count <= 50 else "approx").pvalue
                self.assertAlmostEqual(cell["p"], float(p), places=9)


class Environments(Compare):
    def test_different_environments_are_refused(self):
        times = Verdicts.STEADY
        self.write("base", [row("c", times)], model="a")
        self.write("new", [row("c", times)], model="b")
        done = self.run_program("compare", "base", "new", exit_code=4)
        self.assertIn('cpu/model: "a", "b"', done.stderr)
        self.assertIn("--across-environments", done.stderr)
        self.assertEqual(done.stdout, "")
        done = self.run_program("compare", "base", "new", "--across-environments")
        self.assertIn("same", done.stdout)

    def test_a_ledger_of_two_environments(self):
        times = Verdicts.STEADY
        self.write("base", [row("c", times)])
        self.write("new", [row("c", times), ledgers.header(model="b"), row("d", times)])
        self.run_program("compare", "base", "new", exit_code=4)

    def test_an_edited_ledger_is_told(self):
        times = Verdicts.STEADY
        self.write("base", [row("c", [2 * x for x in times])])
        self.write("new", [row("c", times)])
        path = self.folder / "base" / "ledger.jsonl"
        path.write_text(path.read_text().replace("20.0,", "90.0,", 1))
        done = self.run_program("compare", "base", "new", exit_code=4)
        self.assertIn("base/ledger.jsonl: edited: line 2 is not as it was written", done.stdout)
        result = json.loads(self.run_program("compare", "base", "new", "--json",
                                             exit_code=4).stdout)
        self.assertEqual((len(result["edited"]), result["exit_code"]), (1, 4))
        # A wrong answer is graver.
        self.write("new", [row("c", [], "wrong", message="why")])
        self.run_program("compare", "base", "new", exit_code=2)

    def test_google_benchmarks_context(self):
        for name, cpus in (("a", 2), ("b", 2), ("c", 4)):
            context = {"num_cpus": cpus, "caches": [], "mhz_per_cpu": 1000 + cpus}
            rows = [{"name": "x", "run_type": "iteration", "repetition_index": i,
                     "real_time": 1e6 + i, "time_unit": "ns"} for i in range(9)]
            (self.folder / f"{name}.json").write_text(
                json.dumps({"context": context, "benchmarks": rows}))
        done = self.run_program("compare", "a.json", "b.json", "--json")
        self.assertAlmostEqual(json.loads(done.stdout)["cells"][0]["base_ms"], 1.0, places=4)
        self.run_program("compare", "a.json", "c.json", exit_code=4)


class Files(Compare):
    def test_real_campaigns_in_every_form(self):
        for out in ("one", "two"):
            self.run_program("run", "--data", "uniform:500,2,1", "--k", 3, "--iterations", 2,
                             "--variant", "kmeans_serial", "--samples", 12, "--min-time", 0,
                             "--rounds", 2, "--no-probe", "--threads", 1, "--out", out)
        _, rows = ledger(self.folder / "one")
        forms = ["", "/ledger.jsonl", "/gbench.json"]
        for base in forms:
            for new in forms:
                with self.subTest(base=base, new=new):
                    done = self.run_program("compare", "one" + base, "one" + new, "--json",
                                            "--min-effect", 1000)
                    cell = json.loads(done.stdout)["cells"][0]
                    self.assertEqual(cell["name"], rows[0]["name"])
                    self.assertEqual(cell["ratio"], 1.0)
                    self.assertEqual(cell["verdict"], "same")
        done = self.run_program("compare", "one", "two", "--min-effect", 100000)
        table, problem, variant, precision = rows[0]["name"].split("/")
        self.assertRegex(done.stdout, rf"\n{table}/{problem}, {precision}\n  variant .*\n  {variant} ")
        wide = self.run_program("compare", "one", "two", "--wide", "--min-effect", 100000).stdout
        self.assertIn(rows[0]["name"], wide)
        self.assertIn("geometric mean", done.stdout)

    def test_markdown(self):
        times = Verdicts.STEADY
        self.write("base", [row("c", times), row("gone", times)])
        self.write("new", [row("c", [1.5 * x for x in times])])
        text = self.run_program("compare", "base", "new", "--markdown", exit_code=5).stdout
        table = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(len(table), 4)
        self.assertEqual({line.count("|") for line in table}, {7})
        self.assertIn("1.500", table[2])
        self.assertIn("slower", table[2])
        self.assertIn("missing", table[3])

    def test_bad_input(self):
        self.write("base", [row("c", Verdicts.STEADY)])
        (self.folder / "no.json").write_text("{}")
        (self.folder / "torn.json").write_text("{")
        (self.folder / "rows.jsonl").write_text(ledgers.chained([row("c", [1.0])]))
        (self.folder / "unit.json").write_text(json.dumps(
            {"context": {}, "benchmarks": [{"name": "x", "real_time": 1, "time_unit": "h"}]}))
        (self.folder / "name.json").write_text(json.dumps(
            {"context": {}, "benchmarks": [{"name": "x", "real_time": 1}, {"name": 3}]}))
        for bad in ("absent", "no.json", "torn.json", "rows.jsonl", "unit.json", "name.json"):
            with self.subTest(bad):
                done = self.run_program("compare", "base", bad, exit_code=64)
                self.assertIn(bad, done.stderr)
                self.assertNotIn("json.exception", done.stderr)
        self.assertIn("name.json: benchmarks[1]: type must be string", done.stderr)
        self.run_program("compare", "base", exit_code=64)
        self.run_program("compare", "base", "base", "--min-effect", "-1", exit_code=64)
        self.run_program("compare", "base", "base", "--json", "--markdown", exit_code=64)


class History(Compare):
    """One cell over many campaigns."""

    STEADY = [10 + 0.001 * i for i in range(20)]

    def history(self, *campaigns, headers=None, names=("c",)):
        """campaigns: factors of the times, one each; None: the cell failed."""
        for i, factor in enumerate(campaigns):
            rows = [row(name, [], status="crashed") if factor is None
                    else row(name, [factor * x for x in self.STEADY]) for name in names]
            self.write(f"m{i}", rows, **((headers or {}).get(i, {})))
        done = self.run_program("history", *(f"m{i}" for i in range(len(campaigns))), "--json")
        return json.loads(done.stdout)["cells"]

    def test_a_step_is_marked_once(self):
        (cell,) = self.history(1.0, 1.001, 1.2, 1.2, 1.0)
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "same", "slower", "same", "faster"])
        self.assertAlmostEqual(cell["moments"][2]["ratio"], 1.2, places=3)
        self.assertAlmostEqual(cell["moments"][0]["ms"], 10.0095)
        text = self.run_program("history", "m0", "m1", "m2", "m3", "m4").stdout
        self.assertRegex(text, r"> +m2 +12.01 .*slower")
        self.assertIn("1 cells, 2 changes (>)", text)

    def test_a_slow_drift_is_seen_once_it_is_large_enough(self):
        (cell,) = self.history(1.0, 1.008, 1.016, 1.024)  # each step is below the 2 % that count
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "same", "same", "slower"])

    def test_a_failure_begins_a_stretch(self):
        (cell,) = self.history(1.0, None, 1.5, 1.5)
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "crashed", "first", "same"])
        self.assertIsNone(cell["moments"][1]["ms"])

    def test_cells_that_come_and_go(self):
        self.write("m0", [row("a", self.STEADY)])
        self.write("m1", [row("b", self.STEADY)])
        self.write("m2", [row("a", self.STEADY), row("b", [2 * x for x in self.STEADY])])
        cells = json.loads(self.run_program("history", "m0", "m1", "m2", "--json").stdout)["cells"]
        self.assertEqual([(cell["name"], [moment["verdict"] for moment in cell["moments"]]) for cell in cells],
                         [("a", ["first", "same"]), ("b", ["first", "slower"])])

    def test_what_is_no_campaign_is_named(self):
        self.write("m0", [row("a", self.STEADY)])
        self.assertIn("nothing", self.run_program("history", "m0", "nothing", exit_code=64).stderr)


if __name__ == "__main__":
    unittest.main()
