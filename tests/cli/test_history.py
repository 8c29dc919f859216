"""`clusterbench history`: one cell over many campaigns."""

import json
import unittest

from compare_cases import Compare, row, rounds


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
        self.assertRegex(text, r"> +m2 +12.02 .*slower")
        self.assertIn("1 cell, 2 changes (>)", text)

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
