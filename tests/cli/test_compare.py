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
from compare_cases import Compare, PACES, row, rounds


# What campaigns differ by.
CAMPAIGN_SCATTER = 0.012
UNSEEN_SCATTER = 1.3  # of processes that were not drawn


def holm(p_values):
    """Holm's adjusted p-values, written after their definition."""
    ranked = sorted(p_values)
    steps = [min(1.0, p * (len(ranked) - i)) for i, p in enumerate(ranked)]
    return [max(steps[:ranked.index(p) + 1]) for p in p_values]


def fastest_tenth(logs):
    """Of each row's logarithms: the quantile of a tenth, the second one at least."""
    count = logs.shape[-1]
    return np.sort(logs)[..., min(max(math.ceil(0.1 * count), 2), count) - 1]


def expected_test(base, new):
    """Of [process, sample] on both sides, without a start in common: the logarithm of the ratio, its
    standard error and the degrees of freedom, from a bootstrap of NumPy's."""
    random, sides, of_processes = np.random.default_rng(2), [], 0.0
    for times in (base, new):
        logs = np.log(times)
        count = len(logs)
        drawn = logs[random.integers(0, count, (20000, count))].reshape(20000, -1)
        low, high = np.quantile(fastest_tenth(drawn), (0.05, 0.95))
        of_processes += (UNSEEN_SCATTER * (high - low) / (2 * stats.norm.ppf(0.95)))**2 * count / (count - 1)
        sides.append(fastest_tenth(logs.ravel()))
    variance = of_processes + CAMPAIGN_SCATTER**2
    degrees = ((len(base) + len(new)) / 2 - 1) * (variance / of_processes)**2
    return sides[1] - sides[0], math.sqrt(variance), degrees


class Statistics(Compare):
    @unittest.skipIf(stats is None, "python3-scipy is not installed")
    def test_p_values_and_intervals_are_scipys(self):
        random = np.random.default_rng(1)
        base, new, expected = [], [], {}
        for n, m, scatter in ((3, 3, 0.03), (4, 4, 0.005), (8, 8, 0.03), (8, 3, 0.01), (12, 16, 0.03)):
            sides = [10 * np.exp(random.normal(shift, scatter, (count, 1)) + random.normal(0, 0.01, (count, 9)))
                     for shift, count in ((0, n), (0.03, m))]
            name = f"{n} {m}"
            for rows, times in ((base, sides[0]), (new, sides[1])):
                rows += [row(name, list(process), round_number=i + 1) for i, process in enumerate(times)]
            expected[name] = expected_test(*sides)
        result = self.compare(base, new, exit_code=(0, 1, 3))
        cells = {cell["name"]: cell for cell in result["cells"]}
        for name, (log_ratio, error, degrees) in expected.items():
            with self.subTest(name):
                student = stats.t(degrees, log_ratio, error)
                self.assertAlmostEqual(cells[name]["ratio"], math.exp(log_ratio), places=12)
                for end, quantile in zip(cells[name]["interval"], (0.025, 0.975)):
                    reach = student.ppf(quantile) - log_ratio  # 400 draws are not all
                    self.assertAlmostEqual(math.log(end) - log_ratio, reach, delta=0.15 * abs(reach))
                p = min(student.cdf(0), student.sf(0))
                self.assertAlmostEqual(math.log(cells[name]["p"]), math.log(p), delta=0.15 - 0.2 * math.log(p))
        names = list(expected)
        for name, q in zip(names, holm([cells[name]["p"] for name in names])):
            self.assertAlmostEqual(cells[name]["q"], q, places=12, msg=name)

    def campaigns(self, random, cells, shift=0.0, process=0.02, campaign=0.004):
        """Two campaigns whose processes scatter by 2 %; the first cell of the second is slower."""
        def side(slower):
            rows = []
            for i in range(cells):
                drift = random.normal(0, campaign) + (slower if i == 0 else 0.0)
                paces = np.exp(drift + random.normal(0, process, 8))
                rows += rounds(f"c{i:02}", [10 * random.lognormal(0, 0.01) for _ in range(5)], paces)
            return rows
        return side(0.0), side(shift)

    def test_equal_builds_raise_no_alarm_and_a_slower_one_does(self):
        random = np.random.default_rng(3)
        alarms = sum(self.exit_of(*self.campaigns(random, 10)) == 1 for _ in range(60))
        self.assertLessEqual(alarms, 2)  # 0.6 of 60 by the level
        found = sum(self.exit_of(*self.campaigns(random, 10, shift=math.log(1.1))) == 1 for _ in range(20))
        self.assertGreaterEqual(found, 18)

    def exit_of(self, base, new):
        return self.compare(base, new, exit_code=(0, 1, 3))["exit_code"]

    def test_a_disturbed_process_decides_nothing(self):
        disturbed = [*PACES[:7], 1.5]
        times = [10.0] * 5
        cell, = self.compare(rounds("c", times), rounds("c", times, disturbed), exit_code=(0, 3))["cells"]
        self.assertAlmostEqual(cell["ratio"], 1.0, delta=0.004)
        cell, = self.compare(rounds("c", times, disturbed), rounds("c", [11.0] * 5), exit_code=1)["cells"]
        self.assertEqual(cell["verdict"], "slower")

    def test_processes_that_agree_by_chance_are_not_trusted(self):
        # Three rounds each that have the same median to the digit, and 2.5 % between them.
        alike = [1.0, 1.0, 1.0]
        cell, = self.compare(rounds("c", [10.0], alike), rounds("c", [10.25], alike), exit_code=3)["cells"]
        self.assertEqual(cell["verdict"], "inconclusive")

    def test_one_process_or_two_never_say_slower(self):
        for factor in (1.0, 1.1, 2.0, 0.5):
            for one, other in ((rounds("c", [10.0], [1.0]), rounds("c", [10.0 * factor])),
                               (rounds("c", [10.0]), rounds("c", [10.0 * factor], [1.0, 1.001]))):
                cell, = self.compare(one, other, exit_code=3)["cells"]
                self.assertEqual((cell["verdict"], cell["interval_is_range"]), ("inconclusive", True))
                self.assertEqual(cell["message"],
                                 "fewer than 3 processes cannot tell what processes differ by; 8 rounds "
                                 "would tell")
                self.assertAlmostEqual(cell["ratio"], factor, delta=0.01 * factor)
        text = self.run_program("compare", "base", "new", exit_code=3).stdout
        self.assertRegex(text, r"with --rounds 8 --starts 1\n")

    def test_a_busy_machine_is_no_slowdown(self):
        def campaign(factor, microseconds):
            found = rounds("c", [10.0 * factor] * 5, [1.0] * 8)
            for each in found:
                each["fixed_work_us"] = [microseconds] * len(each["samples_ms"])
            return found
        cell, = self.compare(campaign(1.0, 45.0), campaign(1.4, 68.0), exit_code=3)["cells"]
        self.assertEqual(cell["verdict"], "inconclusive")
        self.assertEqual(cell["message"], "the machine was busy: its fixed work took 45 us at best before "
                                          "and 68 now; run both again while it is quiet")
        cell, = self.compare(campaign(1.0, 45.0), campaign(1.4, 45.0), exit_code=1)["cells"]
        self.assertEqual(cell["verdict"], "slower")

    def test_all_processors_of_a_virtual_machine_are_nobodys_own(self):
        told = {"cpu": {"microcode": "0x1"}}
        for virtual, busy, ms, slower, verdict in (
                (True, 2.0, 10.0, 1.2, "inconclusive"), (True, 2.0, 10.0, 2.0, "slower"),
                (True, 2.0, 10.0, 1.0, "same"),
                (True, 1.0, 10.0, 1.2, "slower"), (False, 2.0, 10.0, 1.2, "slower")):
            with self.subTest(virtual=virtual, busy=busy, ms=ms, slower=slower):
                for name, factor in (("base", 1.0), ("new", slower)):
                    lines = rounds("c", [ms * factor] * 5)
                    for line in lines:
                        line["cpu_ms"] = [busy * ms for ms in line["samples_ms"]]
                    self.write(name, lines, virtual=virtual, **told)
                done = self.run_program("compare", "base", "new", "--json", exit_code=(0, 1, 3))
                cell, = json.loads(done.stdout)["cells"]
                self.assertEqual(cell["verdict"], verdict)
                self.assertEqual("it needs all processors of a virtual machine" in cell["message"],
                                 verdict == "inconclusive")

    def test_campaigns_on_a_virtual_processor_differ_by_more(self):
        told = {"cpu": {"microcode": "0x1"}}
        for virtual, gpus, verdict in ((True, 0, "inconclusive"), (True, 1, "slower"), (False, 0, "slower")):
            with self.subTest(virtual=virtual, gpus=gpus):
                for name, factor in (("base", 1.0), ("new", 1.045)):
                    lines = rounds("c", [10.0 * factor] * 5)
                    for line in lines:
                        line["gpus"] = gpus
                    self.write(name, lines, virtual=virtual, **told)
                done = self.run_program("compare", "base", "new", "--json", exit_code=(1, 3))
                cell, = json.loads(done.stdout)["cells"]
                self.assertEqual(cell["verdict"], verdict)

    def test_slow_cells_tell_by_their_whole_answers(self):
        told = {"cpu": {"microcode": "0x1"}}
        for busy, verdict in ((2.0, "inconclusive"), (1.0, "slower")):
            with self.subTest(busy=busy):
                for name, slower in (("base", 1.0), ("new", 1.2)):
                    lines = rounds("c", [5000.0 * slower] * 3)
                    for line in lines:
                        line["cpu_ms"] = []
                        for whole in line["whole"]:
                            whole["cpu_ms"] = busy * whole["ms"]
                    self.write(name, lines, virtual=True, **told)
                done = self.run_program("compare", "base", "new", "--json", exit_code=(1, 3))
                cell, = json.loads(done.stdout)["cells"]
                self.assertEqual(cell["verdict"], verdict)

    def test_runs_of_microseconds_see_what_nobody_measures(self):
        told = {"cpu": {"microcode": "0x1"}}
        for virtual, gpus, ms, slower, verdict in (
                (True, 0, 0.1, 2.0, "inconclusive"), (True, 0, 0.1, 5.0, "slower"),
                (True, 0, 0.1, 1.0, "same"), (True, 0, 2.0, 2.0, "slower"),
                (True, 1, 0.1, 2.0, "slower"), (False, 0, 0.1, 2.0, "slower")):
            with self.subTest(virtual=virtual, gpus=gpus, ms=ms, slower=slower):
                for name, factor in (("base", 1.0), ("new", slower)):
                    lines = rounds("c", [ms * factor] * 5)
                    for line in lines:
                        line["gpus"] = gpus
                    self.write(name, lines, virtual=virtual, **told)
                done = self.run_program("compare", "base", "new", "--json", exit_code=(0, 1, 3))
                cell, = json.loads(done.stdout)["cells"]
                self.assertEqual(cell["verdict"], verdict)
                self.assertEqual("its runs take less than a millisecond" in cell["message"],
                                 verdict == "inconclusive")

    def test_a_gpu_that_others_use_is_no_slowdown(self):
        def campaign(factor, others):
            found = rounds("c", [10.0 * factor] * 5, PACES)
            for each in found:
                each["gpus_used_by_others"] = others
            return found
        cell, = self.compare(campaign(1.0, 0.0), campaign(2.3, 0.97), exit_code=3)["cells"]
        self.assertEqual(cell["verdict"], "inconclusive")
        self.assertEqual(cell["message"], "other programs kept the machine busy now; run both again while it is quiet")
        cell, = self.compare(campaign(1.0, 0.0), campaign(2.3, 0.02), exit_code=1)["cells"]
        self.assertEqual(cell["verdict"], "slower")

    def test_inconclusive_says_how_many_rounds_would_tell(self):
        wide = [1.0, 1.06, 0.97, 1.03, 0.95, 1.02, 1.01, 0.99]
        cell, = self.compare(rounds("c", [10.0], wide), rounds("c", [10.5], wide), exit_code=3)["cells"]
        needed = cell["rounds_needed"]
        self.assertGreater(needed, 8)
        self.assertEqual(cell["message"], f"{needed} rounds would tell")
        many = wide * (needed // 8 + 1)
        self.compare(rounds("c", [10.0], many), rounds("c", [10.5], many), exit_code=1)
        self.write("new", rounds("c", [10.5], wide))
        self.write("base", rounds("c", [10.0], wide), command_line=["cb", "run", "t", "--variant", "a *",
                                                                  "--rounds=2", "--out", "x", "--resume"])
        text = self.run_program("compare", "base", "new", exit_code=3).stdout
        command = f"cb run t --variant 'a *' --rounds {needed} --starts 1"
        self.assertIn(f"  {command} --out FOLDER\n", text)
        for form, before in (("--wide", "  "), ("--markdown", "\n    ")):
            text = self.run_program("compare", "base", "new", form, exit_code=3).stdout
            self.assertIn(f"{before}{command} --out FOLDER\n", text)
        told = json.loads(self.run_program("compare", "base", "new", "--json", exit_code=3).stdout)
        self.assertEqual(told["next_command"], command + " --out FOLDER")

    def test_the_command_runs_the_variants_that_need_rounds(self):
        wide = [1.0, 1.06, 0.97, 1.03, 0.95, 1.02, 1.01, 0.99]

        def campaign(name, factor):
            self.write(name, [
                *rounds("t/p/kmeans_serial/f32", self.STEADY, variant="kmeans_serial"),
                *rounds("t/p/kmeans_simd/f32", [factor * x for x in self.STEADY], wide, variant="kmeans_simd")],
                command_line=["cb", "run", "t", "--variant", "kmeans_s*", "kmeans_x", "--quick", "--out", "x"])

        campaign("base", 1.0)
        campaign("new", 1.05)
        told = json.loads(self.run_program("compare", "base", "new", "--json", exit_code=3).stdout)
        self.assertRegex(told["next_command"],
                         r"^cb run t --quick --variant kmeans_simd --rounds \d+ --starts 1 --out FOLDER$")
        filtered = json.loads(self.run_program("compare", "base", "new", "--json", "--cells", "*simd*",
                                               exit_code=(1, 3)).stdout)
        self.assertEqual((filtered["cells_left_out"], told["cells_left_out"]), (1, 0))
        if filtered["next_command"]:
            self.assertEqual(filtered["next_command"].split(" --rounds")[0], told["next_command"].split(" --rounds")[0])
        text = self.run_program("compare", "base", "new", "--cells", "*simd*", exit_code=(1, 3)).stdout
        self.assertIn("--cells left out 1 cell of the base", text)
        told = json.loads(self.run_program("compare", "base", "new", "--cells", "*serial*", "--json").stdout)
        self.assertIsNone(told["next_command"])

    def test_more_rounds_than_there_are(self):
        """What eight rounds did not tell, eight rounds will not tell."""
        paces = [1.0, 1.06, 0.97, 1.03, 0.95, 1.02, 1.01, 0.99]
        for again in (1, 2):
            self.write("base", rounds("c", [10.0], paces * again))
            needed = []
            for percent in np.arange(3.0, 8.0, 0.25):
                self.write("new", rounds("c", [10.0 + 0.1 * percent], paces * again))
                told = self.run_program("compare", "base", "new", "--json", exit_code=(1, 3)).stdout
                cell, = json.loads(told)["cells"]
                needed += [] if cell["rounds_needed"] is None else [cell["rounds_needed"]]
            self.assertTrue(needed)
            self.assertGreaterEqual(min(needed), 12 * again)


    def test_the_mean_of_one_cell_is_the_cell(self):
        wide = [1.0, 1.06, 0.97, 1.03, 0.95, 1.02, 1.01, 0.99]
        result = self.compare(rounds("c", [10.0], wide[:3]), rounds("c", [10.5], wide[:3]), exit_code=3)
        for mine, its in zip(result["geometric_mean_interval"], result["cells"][0]["interval"]):
            self.assertAlmostEqual(mine, its, places=9)

    def test_a_base_without_its_command(self):
        wide = [1.0, 1.06, 0.97, 1.03, 0.95, 1.02, 1.01, 0.99]
        result = self.compare(rounds("c", [10.0], wide), rounds("c", [10.5], wide), exit_code=3)
        self.assertIsNone(result["next_command"])
        needed = result["cells"][0]["rounds_needed"]
        for command_line in ([], ["clusterbench", "judge", "mine.cpp", "--out", "base"]):  # which takes no rounds
            self.write("base", rounds("c", [10.0], wide), command_line=command_line)
            self.assertIn(f"next: both campaigns again, by `clusterbench run` with --rounds {needed} --starts 1\n",
                          self.run_program("compare", "base", "new", exit_code=3).stdout)

    def test_few_rounds_know_how_many_would_tell(self):
        """More of them tell better how far they scatter: so few are never said to be too close for rounds."""
        paces = [1.0, 1.05, 0.96]
        for factor in (1.0, 1.1):
            cell, = self.compare(rounds("c", [10.0], paces), rounds("c", [10.0 * factor], paces),
                                 exit_code=3)["cells"]
            self.assertEqual(cell["verdict"], "inconclusive")
            self.assertGreaterEqual(cell["rounds_needed"], 8)
            self.assertLessEqual(cell["rounds_needed"], 64)

    def test_the_gate_is_named_for_cells_of_tables(self):
        steady = [10 + 0.001 * i for i in range(20)]
        new = [2 * x for x in steady]
        result = self.compare(rounds("t/a b/v/f32", steady), rounds("t/a b/v/f32", new), exit_code=1)
        self.assertEqual(result["gate_command"],
                         "clusterbench gate --base BUILD --new BUILD --full 't/a b/v/f32'")
        self.assertIn(result["gate_command"] + "\n", self.run_program("compare", "base", "new", exit_code=1).stdout)
        result = self.compare(rounds("adhoc/x/v/f32", steady), rounds("adhoc/x/v/f32", new), exit_code=1)
        self.assertIsNone(result["gate_command"])
        self.assertNotIn("gate", self.run_program("compare", "base", "new", exit_code=1).stdout)

    def test_a_campaign_and_itself(self):
        self.write("base", rounds("c", self.STEADY))
        for other in ("base", "base/ledger.jsonl"):
            self.assertIn(f"base and {other} are the same campaign",
                          self.run_program("compare", "base", other).stderr)
        self.write("new", rounds("c", self.STEADY))
        self.assertEqual(self.run_program("compare", "base", "new").stderr, "")

    def test_rounds_of_an_older_build_do_not_count(self):
        slower = [1.5 * x for x in self.STEADY]
        self.write("base", rounds("c", self.STEADY))
        for of_rows, of_headers in ((({"build": "a"}, {"build": "b"}), ({}, {})),
                                    (({}, {}), ({"binary_sha256": "a"}, {"binary_sha256": "b"}))):
            old = [ledgers.header(seed=None, **of_headers[0]), *rounds("c", self.STEADY, **of_rows[0])]
            new = [ledgers.header(seed=None, **of_headers[1]), *rounds("c", slower, PACES[:3], **of_rows[1])]
            ledgers.write(self.folder / "new", old + new)
            told = json.loads(self.run_program("compare", "base", "new", "--json", exit_code=1).stdout)
            self.assertEqual([cell["verdict"] for cell in told["cells"]], ["slower"])
            self.assertAlmostEqual(told["cells"][0]["ratio"], 1.5, delta=0.02)
        same = [ledgers.header(seed=None), *rounds("c", self.STEADY, build="a")]
        same += [ledgers.header(seed=None), *rounds("c", slower, PACES[:3], build="a")]  # another round of that build
        ledgers.write(self.folder / "new", same)
        told = json.loads(self.run_program("compare", "base", "new", "--json", exit_code=(0, 1, 3)).stdout)
        self.assertLess(told["cells"][0]["ratio"], 1.2)


class Verdicts(Compare):
    def test_cells_are_chosen(self):
        steady = [10 + 0.001 * i for i in range(20)]
        base = rounds("t/a/v/f32", steady) + rounds("t/b/v/f32", steady)
        new = rounds("t/a/v/f32", steady) + rounds("t/b/v/f32", [2 * x for x in steady])
        self.assertEqual(len(self.compare(base, new, exit_code=1)["cells"]), 2)
        cell, = self.compare(base, new, "--cells", "*/a/*")["cells"]
        self.assertEqual(cell["verdict"], "same")
        cells = self.compare(base, new, "--cells", "t/a/*", "--cells", "*/b/*", exit_code=1)["cells"]
        self.assertEqual(len(cells), 2)
        done = self.run_program("compare", "base", "new", "--cells", "*/c/*", exit_code=64)
        self.assertIn("--cells */c/*: no cell", done.stderr)

    def test_what_the_figures_cannot_say(self):
        self.compare([row("c", [6000, 6010, 6020])], [row("c", [6000, 6010, 6020])], exit_code=3)
        done = self.run_program("compare", "base", "new", exit_code=3)
        self.assertIn("1.000 (0.997 .. 1.003)", done.stdout)
        self.assertIn("the least and the greatest", done.stdout)
        self.assertRegex(done.stdout, r"geometric mean of the ratios 1\.00\n")
        self.verdict(self.STEADY, self.STEADY)
        done = self.run_program("compare", "base", "new")
        self.assertRegex(done.stdout, r"1\.00\d? \[0\.97\d*, 1\.02\d*\]")
        self.assertNotIn("the least", done.stdout)

    def test_verdicts(self):
        times = self.STEADY
        for factor, verdict, code in ((1.0, "same", 0), (1.015, "same", 0), (1.1, "slower", 1),
                                      (0.9, "faster", 0), (0.985, "same", 0)):
            with self.subTest(factor):
                self.assertEqual(self.verdict(times, [factor * x for x in times], exit_code=code),
                                 verdict)
        self.assertEqual(self.verdict(times, [1.025 * x for x in times], exit_code=3), "inconclusive")
        # It may be faster by more than the minimum effect or not, but it is not slower.
        self.assertEqual(self.verdict(times, [0.975 * x for x in times]), "inconclusive")

    def test_minimum_effect(self):
        times, slower = self.STEADY, [1.05 * x for x in self.STEADY]
        self.assertEqual(self.verdict(times, slower, "--min-effect", "10"), "same")
        self.assertEqual(self.verdict(times, slower, "--min-effect", "1", exit_code=1), "slower")

    def findings(self, base, new, exit_code):
        result = self.compare([*rounds("other", self.STEADY), *base],
                              [*rounds("other", self.STEADY), *new], exit_code=exit_code)
        return {cell["name"]: cell["verdict"] for cell in result["cells"]}["c"]

    def test_a_base_without_a_time_compares_nothing(self):  # which no CI may take for "not slower"
        good = rounds("c", self.STEADY)
        for base in ([], [row("c", [], "wrong", message="why")]):
            with self.subTest(base=base):
                self.compare(base, good, exit_code=5)
        crashed = row("d", [], "crashed", message="why")
        self.compare([crashed], [crashed, *good], exit_code=5)

    def test_findings(self):
        good, times = rounds("c", self.STEADY), self.STEADY
        bad = {status: row("c", [], status, message="why")
               for status in ("wrong", "crashed", "timed_out", "unavailable")}
        self.assertEqual(self.findings(good, [], 5), "missing")
        self.assertEqual(self.findings(good, [bad["wrong"]], 2), "wrong")
        self.assertEqual(self.findings([bad["crashed"]], [bad["wrong"]], 2), "wrong")
        self.assertEqual(self.findings([], [bad["wrong"]], 2), "wrong")
        self.assertEqual(self.findings(good, [bad["crashed"]], 5), "failed")
        self.assertEqual(self.findings(good, [bad["unavailable"]], 5), "failed")
        self.assertEqual(self.findings([bad["wrong"]], good, 0), "new")
        self.assertEqual(self.findings([], good, 0), "new")
        self.assertEqual(self.findings([bad["wrong"]], [bad["wrong"]], 0), "not_compared")
        self.assertEqual(self.findings([bad["unavailable"]], [], 0), "not_compared")
        self.assertEqual(self.findings(good, rounds("c", times, problem="q"), 5),
                         "different_work")
        self.assertEqual(self.findings(good, rounds("c", times, threads=1), 5), "different_work")

    def test_cheating_is_wrong_and_no_sandbox_vouches_for_nothing(self):
        good = rounds("c", self.STEADY)
        self.assertEqual(self.findings(good, [row("c", [], "cheated", message="why")], 2), "wrong")
        free = rounds("c", self.STEADY, unsandboxed=True)
        self.assertEqual(self.findings(good, free, 5), "failed")
        self.assertEqual(self.findings(free, free, 0), "not_compared")

    def test_numbers_of_threads_are_cells_of_their_own(self):
        both = rounds("c", self.STEADY) + rounds("c", [2 * x for x in self.STEADY], threads=1)
        result = self.compare(both, both)
        self.assertEqual([(cell["name"], cell["verdict"]) for cell in result["cells"]],
                         [("c, 1 thread", "same"), ("c, 2 threads", "same")])

    def test_problems_of_one_name_are_cells_of_their_own(self):
        def of_k(k, factor=1.0):
            words = ledgers.problem(k=k, hash=f"of {k}")
            return [line | {"problem": words} for line in
                    rounds("t/p/v/f32", [factor * x for x in self.STEADY])]

        def found(base, new, exit_code):
            cells = self.compare(base, new, exit_code=exit_code)["cells"]
            return [(cell["name"], cell["verdict"]) for cell in cells]

        both = of_k(4) + of_k(16, 3.0)
        self.assertEqual(found(both, both, 0),
                         [("t/p/v/f32, k 16", "same"), ("t/p/v/f32, k 4", "same")])
        self.assertEqual(found(of_k(4), both, 0), [("t/p/v/f32", "same"), ("t/p/v/f32, k 16", "new")])
        self.assertEqual(found(both, of_k(4), 5),
                         [("t/p/v/f32, k 16", "missing"), ("t/p/v/f32, k 4", "same")])
        self.assertEqual(found(of_k(4), of_k(16), 5), [("t/p/v/f32", "different_work")])
        self.write("both", both)
        self.assertIn("t/p, f32, k 16\n", self.run_program("compare", "both", "both").stdout)
        # A file that does not say what its problem was is of the same name, as before.
        silent = [line | {"problem": {"id": "p", "hash": "of 4"}} for line in of_k(4)]
        self.assertEqual(found(silent, both, 0), [("t/p/v/f32", "same"), ("t/p/v/f32, k 16", "new")])

    def test_one_bad_round_spoils_the_cell(self):
        spoilt = [row("c", self.STEADY), row("c", [], "wrong", 2, message="why")]
        self.assertEqual(self.findings(rounds("c", self.STEADY), spoilt, 2), "wrong")

    def test_the_newest_row_of_a_round_counts(self):
        rows = [row("c", [], "crashed", message="why"), *rounds("c", self.STEADY)]
        self.assertEqual(self.findings(rounds("c", self.STEADY), rows, 0), "same")

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
        cell = self.paired(rounds("c", self.COSTS), rounds("c", slower), exit_code=1)
        self.assertEqual((cell["verdict"], cell["paired"]), ("slower", True))
        self.assertAlmostEqual(cell["ratio"], 1.05 * 1.0004)
        # The same times without a seed in common say nothing: other starts could cost as much.
        cells = self.compare(rounds("c", self.COSTS), rounds("c", slower), exit_code=3)["cells"]
        self.assertEqual((cells[0]["verdict"], cells[0]["paired"]), ("inconclusive", False))
        self.assertIn("--starts SEED", self.run_program("compare", "base", "new", exit_code=3).stdout)

    def test_only_starts_that_both_have_count(self):
        few = rounds("c", [2 * x for x in self.COSTS[2:7]], starts=range(2, 7))
        cell = self.paired(rounds("c", self.COSTS), few, exit_code=1)
        self.assertTrue(cell["paired"])
        self.assertAlmostEqual(cell["ratio"], 2.0)

    def test_cost_per_pass_where_passes_differ(self):
        passes = [10, 12, 9, 30, 11, 8, 10, 14, 10]
        fewer = [count // 2 for count in passes]
        halved = [ms * few / many for ms, many, few in zip(self.COSTS, passes, fewer)]
        cell = self.paired(rounds("c", self.COSTS, passes=passes), rounds("c", halved, passes=fewer))
        self.assertAlmostEqual(cell["ratio"], 1.0)
        self.assertEqual(cell["verdict"], "same")
        self.assertIn("of one pass: ", cell["message"])


class Environments(Compare):
    def test_different_environments_are_refused(self):
        times = Verdicts.STEADY
        self.write("base", rounds("c", times), model="a")
        self.write("new", rounds("c", times), model="b")
        done = self.run_program("compare", "base", "new", exit_code=4)
        self.assertIn('cpu/model: "a", "b"\n', done.stderr)
        self.assertIn("--across", done.stderr)
        self.assertEqual(done.stdout, "")
        done = self.run_program("compare", "base", "new", "--across")
        self.assertIn("same", done.stdout)
        self.assertIn('Two environments are compared, not two builds: cpu/model: "a", "b".', done.stdout)

    def test_hosts_of_one_name_are_told_apart(self):
        rows = rounds("c", Verdicts.STEADY)
        facts = {"model": "AMD EPYC", "microcode": "0x1", "stepping": "1", "flags": ["avx2"]}
        self.write("base", rows, cpu=facts)
        self.write("new", rows, cpu=facts)
        self.run_program("compare", "base", "new")
        for fact, value in (("microcode", "0x2"), ("stepping", "2"), ("flags", ["avx2", "avx512f"])):
            with self.subTest(fact):
                self.write("new", rows, cpu={**facts, fact: value})
                done = self.run_program("compare", "base", "new", exit_code=4)
                self.assertIn(f"cpu/{fact}", done.stderr)

    def test_older_ledgers_do_not_tell_all(self):
        """That is no difference, where the rest is the same."""
        facts = {"model": "AMD EPYC", "microcode": "0x1", "flags": ["avx2"]}
        rows = rounds("c", Verdicts.STEADY)
        self.write("old", rows, cpu=facts)
        self.write("new", rows, cpu=facts | {"allowed": 2}, newer=True)
        self.run_program("compare", "old", "new")
        self.run_program("compare", "new", "old")
        self.write("other", rows, cpu=facts | {"allowed": 1}, newer=True)
        self.assertIn("cpu/allowed: 2, 1", self.run_program("compare", "new", "other", exit_code=4).stderr)
        self.write("other", rows, cpu=facts | {"model": "b"}, newer=True)
        self.assertIn('cpu/model: "AMD EPYC", "b"',
                      self.run_program("compare", "old", "other", exit_code=4).stderr)

    def test_rates_of_the_probe_may_scatter_but_not_double(self):
        rows = rounds("c", Verdicts.STEADY)
        for gbs, code in ((30, 0), (45, 0), (65, 4), (14, 4)):
            one = {"threads": 1, "read_gbs": 20.0}
            self.write("base", rows, limits={"cpu": [one, {"threads": 2, "read_gbs": 30.0}]})
            self.write("new", rows, limits={"cpu": [one, {"threads": 2, "read_gbs": gbs}]})
            done = self.run_program("compare", "base", "new", exit_code=code)
            self.assertEqual(f"read_gbs, threads: 2: 30, {gbs}" in done.stderr, code == 4)

    def test_a_ledger_of_two_environments(self):
        times = Verdicts.STEADY
        self.write("base", [row("c", times)])
        self.write("new", [row("c", times), ledgers.header(model="b"), row("d", times)])
        self.run_program("compare", "base", "new", exit_code=4)

    def test_an_edited_ledger_is_told(self):
        times = Verdicts.STEADY
        self.write("base", rounds("c", [2 * x for x in times]))
        self.write("new", rounds("c", times))
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
        done = self.run_program("compare", "a.json", "b.json", "--json", exit_code=3)
        self.assertAlmostEqual(json.loads(done.stdout)["cells"][0]["base_ms"], 1.0, places=4)
        self.run_program("compare", "a.json", "c.json", exit_code=4)

    def test_google_benchmarks_times_that_are_none(self):
        def write(name, rounds_of_times):
            rows = [{"name": "x", "run_type": "iteration", "repetition_index": i, "real_time": ms,
                     "time_unit": "ms"} for times in rounds_of_times for i, ms in enumerate(times)]
            (self.folder / name).write_text(
                json.dumps({"context": {"num_cpus": 2, "caches": []}, "benchmarks": rows}))
        good = [[1.0, 1.1, 1.2]] * 8
        write("good.json", good)
        for name, times in (("round.json", [*good[1:], [0.0, 0.0, 0.0]]),
                            ("sample.json", [*good[1:], [1.0, 0.0, 1.2]])):
            write(name, times)
            for pair in (("good.json", name), (name, "good.json")):
                done = self.run_program("compare", *pair, "--json", exit_code=5)
                (cell,) = json.loads(done.stdout)["cells"]
                self.assertEqual((cell["verdict"], cell["message"]), ("failed", "a time is not positive"))


if __name__ == "__main__":
    unittest.main()
