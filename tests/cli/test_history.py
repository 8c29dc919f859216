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
        self.assertRegex(text, r"> +m2 +12.0 .*slower")
        self.assertIn("1 cells, 2 changes (>)", text)

    def test_a_slow_drift_is_seen_once_it_is_large_enough(self):
        (cell,) = self.history(1.0, 1.012, 1.024, 1.036)  # each step is below the 2 % that count
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "same", "inconclusive", "slower"])

    def test_a_failure_begins_a_stretch(self):
        (cell,) = self.history(1.0, None, 1.5, 1.5)
        self.assertEqual([moment["verdict"] for moment in cell["moments"]],
                         ["first", "crashed", "first", "same"])
        self.assertIsNone(cell["moments"][1]["ms"])

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
