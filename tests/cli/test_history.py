"""`clusterbench history`: one cell over many campaigns."""

import json
import unittest

from compare_cases import PACES, Compare, row, rounds


class History(Compare):
    """One cell over many campaigns."""

    def history(self, *campaigns, headers=None, names=("c",)):
        """campaigns: factors of the times, one each; None: the cell failed."""
        for i, factor in enumerate(campaigns):
            rows = [line for name in names
                    for line in ([row(name, [], status="crashed")] if factor is None
                                 else rounds(name, [factor * x for x in self.STEADY]))]
            self.write(f"m{i}", rows, **((headers or {}).get(i, {})))
        done = self.run_program("history", *(f"m{i}" for i in range(len(campaigns))), "--json")
        return json.loads(done.stdout)["cells"]

    def test_a_step_is_marked_once(self):
        (cell,) = self.history(1.0, 1.001, 1.2, 1.2, 1.0)
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "same", "slower", "same", "faster"])
        self.assertAlmostEqual(cell["moments"][2]["ratio"], 1.2, places=3)
        self.assertAlmostEqual(cell["moments"][0]["ms"], 10.0145, places=3)
        text = self.run_program("history", "m0", "m1", "m2", "m3", "m4").stdout
        self.assertRegex(text, r"> +m2 +2026-11-20 +12.02 .*slower")
        self.assertIn("1 cell, 2 changes (>)", text)
        self.assertIn("over the first", text)

    def test_a_slow_drift_is_seen_once_it_is_large_enough(self):
        (cell,) = self.history(1.0, 1.012, 1.024, 1.036)  # each step is below the 2 % that count
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "same", "inconclusive", "slower"])

    def test_a_failure_hides_no_step(self):
        (cell,) = self.history(1.0, None, 1.5, 1.5)
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "crashed", "slower", "same"])
        self.assertIsNone(cell["moments"][1]["ms"])

    def test_hosts_in_turn_hide_no_step(self):
        other = {"model": "another"}
        (cell,) = self.history(1.0, 3.0, 1.0, 3.0, 1.2, 3.0, 1.2, 2.5,
                               headers={1: other, 3: other, 5: other, 7: other})
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "other environment", "same", "same", "slower", "same", "same", "faster"])

    def test_a_step_too_small_for_one_campaign_is_told_by_many(self):
        noise = [0.004, -0.003, 0.001, -0.002, 0.003, -0.004, 0.0, 0.002, -0.001, 0.003, -0.003, 0.001]
        before = [1.0 + x for x in noise]

        def verdicts(*campaigns):
            moments = self.history(*campaigns)[0]["moments"]
            return moments, [moment["verdict"] for moment in moments]

        for factor in (1.0, 1.018):  # 2 % is the least that counts
            _, told = verdicts(*before, *(factor * x for x in before))
            self.assertNotIn("slower", told)
        moments, told = verdicts(*before, *(1.024 * x for x in before))
        self.assertEqual([i for i, verdict in enumerate(told) if verdict == "slower"], [12])
        self.assertTrue(moments[12]["with_later"])
        self.assertAlmostEqual(moments[12]["ratio"], 1.024, delta=0.004)
        low, high = moments[12]["interval"]
        self.assertLess(1.0, low)
        self.assertLess(high, 1.05)
        text = self.run_program("history", *(f"m{i}" for i in range(24))).stdout
        self.assertRegex(text, r"> +m12 .*slower, all since")

    def test_what_was_told_is_told_whatever_follows(self):
        noise = [0.004, -0.003, 0.001, -0.002, 0.003, -0.004, 0.0, 0.002, -0.001, 0.003, -0.003, 0.001]
        before = [1.0 + x for x in noise]
        campaigns = [*before, *(1.03 * x for x in before), *before]  # and mended
        cell, = self.history(*campaigns)
        told = [(i, moment["verdict"]) for i, moment in enumerate(cell["moments"])
                if moment["verdict"] in ("slower", "faster")]
        self.assertEqual(told, [(12, "slower"), (24, "faster")])

    def test_cells_are_chosen(self):
        self.history(1.0, 1.2, names=("t/a/v/f32", "t/b/v/f32"))
        cells = json.loads(self.run_program("history", "m0", "m1", "--cells", "*/b/*", "--json").stdout)["cells"]
        self.assertEqual([cell["name"] for cell in cells], ["t/b/v/f32"])
        done = self.run_program("history", "m0", "m1", "--cells", "c", exit_code=64)
        self.assertIn("--cells c: no cell of", done.stderr)

    def test_another_environment_is_named(self):
        (cell,) = self.history(1.0, 1.0, headers={1: {"model": "another"}})
        self.assertIn('cpu/model: "Intel(R) Xeon(R) Processor", "another"', cell["moments"][1]["message"])
        self.assertIn("cpu/model", self.run_program("history", "m0", "m1").stdout)

    def test_a_folder_of_campaigns_is_read_in_the_order_of_time(self):
        for name, factor, day in (("tue", 1.2, 2), ("mon", 1.0, 1), ("wed", 1.2, 3)):
            self.write(f"runs/{name}", rounds("c", [factor * x for x in self.STEADY]),
                       time=f"2026-11-0{day}T00:00:00Z")
        said = json.loads(self.run_program("history", "runs", "--json").stdout)
        self.assertEqual([(moment["source"].split("/")[1], moment["verdict"])
                          for moment in said["cells"][0]["moments"]],
                         [("mon", "first"), ("tue", "slower"), ("wed", "same")])
        self.assertEqual(said["not_in_order"], "")
        text = self.run_program("history", "runs/tue", "runs/mon").stdout
        self.assertIn("runs/mon was measured before runs/tue, which it follows here", text)
        (self.folder / "empty").mkdir()
        self.assertIn("empty", self.run_program("history", "empty", exit_code=64).stderr)

    def follow(self, *campaigns):
        """The moments of one cell: campaigns are pairs of a factor of the times and how many rounds there
        were (n), how many tasks of others (busy), or how long the fixed work took (us)."""
        for i, (factor, state) in enumerate(campaigns):
            paces = PACES[:state.get("n", len(PACES))]
            rows = rounds("c", [factor * x for x in self.STEADY], paces)
            for each in rows:
                each["other_tasks"] = [state.get("busy", 0.0)] * len(each["samples_ms"])
                each["fixed_work_us"] = [state.get("us", 50.0)] * len(each["samples_ms"])
            self.write(f"m{i}", rows)
        names = [f"m{i}" for i in range(len(campaigns))]
        (cell,) = json.loads(self.run_program("history", *names, "--json").stdout)["cells"]
        return cell["moments"], self.run_program("history", *names).stdout

    def assert_verdicts(self, moments, *verdicts):
        self.assertEqual([moment["verdict"] for moment in moments], list(verdicts))

    def test_a_first_campaign_that_is_no_comparison_gives_way(self):
        clean = [(1.0, {}), (1.0, {}), (1.5, {}), (1.5, {}), (1.5, {})]
        for state, why in (({"busy": 1.0}, "other programs kept the machine busy before"),
                           ({"n": 2}, "fewer than 3 processes"), ({"us": 80.0}, "fixed work took 80 us")):
            moments, text = self.follow((1.0, state), *clean)
            self.assert_verdicts(moments, "first", "first", "same", "slower", "same", "same")
            self.assertAlmostEqual(moments[3]["ratio"], 1.5, places=2)
            self.assertIn(why, moments[1]["message"])
            self.assertRegex(text, rf"\n  m1: not compared with those before: .*{why}")
            self.assertIn("1 cell, 1 change (>)", text)

    def test_campaigns_that_are_no_comparison_hide_no_step(self):
        for state in ({"busy": 1.0}, {"n": 2}, {"us": 80.0}):
            moments, text = self.follow((1.0, state), (1.0, {}), (1.0, state), (1.5, {}), (1.5, state), (1.0, {}))
            seen = "inconclusive" if "us" not in state else "same"  # as quiet as the first one
            self.assert_verdicts(moments, "first", "first", seen, "slower",
                                 seen.replace("same", "slower"), "faster")
            if "us" not in state:
                self.assertRegex(text, r"\n  m2, m4: ")

    def test_few_rounds_throughout_tell_nothing_and_why(self):
        few = {"n": 2}
        moments, text = self.follow((1.0, few), (1.5, few), (1.5, few), (1.5, few), (1.5, few))
        self.assert_verdicts(moments, "first", *["inconclusive"] * 4)
        self.assertTrue(moments[1]["interval_is_range"])
        self.assertAlmostEqual(moments[4]["ratio"], 1.5, places=2)
        self.assertIn("\n  m1, m2, m3 and 1 more: fewer than 3 processes cannot tell", text)
        self.assertIn("1 cell, 0 changes (>)", text)

    def test_one_quiet_campaign_hides_no_later_step(self):
        moments, _ = self.follow((1.0, {"us": 50.0}), (1.0, {"us": 46.0}), (1.0, {"us": 50.0}),
                                 (1.5, {"us": 50.0}), (1.5, {"us": 46.0}))
        self.assert_verdicts(moments, "first", "first", "same", "slower", "slower")

    def test_a_time_that_is_none_begins_nothing(self):
        self.write("m0", rounds("c", self.STEADY))
        none = rounds("c", self.STEADY)
        for each in none:
            each["samples_ms"] = [0.0] * len(each["samples_ms"])
        self.write("m1", none)
        self.write("m2", rounds("c", [1.5 * x for x in self.STEADY]))
        (cell,) = json.loads(self.run_program("history", "m0", "m1", "m2", "--json").stdout)["cells"]
        self.assert_verdicts(cell["moments"], "first", "failed", "slower")

    def test_campaigns_are_told_apart_by_name_and_time(self):
        name = "hist/nightly-build-of-the-main-branch-2026-11-0{}-with-the-flags-of-the-release"
        for day in (1, 2, 3, 4):
            self.write(name.format(day),
                       rounds("c", [(1.2 if day > 2 else 1.0) * x for x in self.STEADY]),
                       time=f"2026-11-0{day}T10:33:00Z")
        (cell,) = json.loads(self.run_program("history", "hist", "--json").stdout)["cells"]
        self.assertEqual([moment["time"] for moment in cell["moments"]],
                         [f"2026-11-0{day}T10:33:00Z" for day in (1, 2, 3, 4)])
        lines = self.run_program("history", "hist").stdout.splitlines()
        self.assertLessEqual(max(len(line) for line in lines), 100)
        shown = [line.split()[1 if line.startswith("  >") else 0] for line in lines[2:6]]
        self.assertEqual(len(set(shown)), 4, shown)
        self.assertNotIn("ledger.jsonl", " ".join(lines))
        self.assertIn(" 2026-11-03  ", lines[4])
        self.assertRegex("\n".join(lines), r"\n    slower at .*: times 1\.20.*, 2026-11-03$")
        for hour, folder in enumerate(("one", "two")):
            self.write(f"day/{folder}", rounds("c", self.STEADY), time=f"2026-11-05T1{hour}:33:00Z")
        text = self.run_program("history", "day").stdout
        self.assertRegex(text, r"\n +one +2026-11-05 10:33 .*\n +two +2026-11-05 11:33 ")
        self.assertNotIn("day/one", text)

    def test_cells_of_one_campaign_are_counted(self):
        self.write("m0", rounds("a", self.STEADY) + rounds("b", self.STEADY))
        self.write("m1", rounds("a", self.STEADY) + rounds("c", self.STEADY))
        text = self.run_program("history", "m0", "m1").stdout
        self.assertTrue(text.startswith("a\n"))
        self.assertIn("1 cell, 0 changes (>)\nleft out: 2 cells that only one campaign has", text)
        self.assertNotIn("\nb\n", text)
        cells = json.loads(self.run_program("history", "m0", "m1", "--json").stdout)["cells"]
        self.assertEqual([cell["name"] for cell in cells], ["a", "b", "c"])
        self.assertIn("2 cells, 0 changes", self.run_program("history", "m0").stdout)  # there is no other

    def test_a_campaign_counts_once(self):
        for name, factor in (("runs/mon", 1.0), ("runs/tue", 1.2)):
            self.write(name, rounds("c", [factor * x for x in self.STEADY]))
        (self.folder / "link").symlink_to("runs")
        for words in (("runs", "runs"), ("runs", "runs/tue", "runs/mon/ledger.jsonl"),
                      ("runs/mon", "./runs/mon/", "link")):
            (cell,) = json.loads(self.run_program("history", *words, "--json").stdout)["cells"]
            self.assert_verdicts(cell["moments"], "first", "slower")

    def test_cells_that_come_and_go(self):
        self.write("m0", rounds("a", self.STEADY))
        self.write("m1", rounds("b", self.STEADY))
        self.write("m2", rounds("a", self.STEADY) + rounds("b", [2 * x for x in self.STEADY]))
        cells = json.loads(self.run_program("history", "m0", "m1", "m2", "--json").stdout)["cells"]
        self.assertEqual([(cell["name"], [moment["verdict"] for moment in cell["moments"]]) for cell in cells],
                         [("a", ["first", "same"]), ("b", ["first", "slower"])])

    def test_an_edited_ledger_is_told(self):
        self.write("m0", rounds("a", self.STEADY))
        self.write("m1", rounds("a", self.STEADY))
        path = self.folder / "m1" / "ledger.jsonl"
        path.write_text(path.read_text().replace("10.0,", "90.0,", 1))
        told = "m1/ledger.jsonl: edited: line 2 is not as it was written"
        self.assertIn(told, self.run_program("history", "m0", "m1", exit_code=4).stdout)
        result = json.loads(self.run_program("history", "m0", "m1", "--json", exit_code=4).stdout)
        self.assertIn(told, result["edited"][0])
        self.assertEqual(json.loads(self.run_program("history", "m0", "--json").stdout)["edited"], [])

    def test_what_is_no_campaign_is_named(self):
        self.write("m0", [row("a", self.STEADY)])
        self.assertIn("nothing", self.run_program("history", "m0", "nothing", exit_code=64).stderr)


if __name__ == "__main__":
    unittest.main()
