"""Fuzzy c-means whose centres all run to one place is right, and said to have collapsed."""

import unittest

from program import QUICK, Program, ledger


class Collapse(Program):
    def fcm(self, fuzzifier):
        """What a run says, and its row."""
        done = self.run_program("run", "--data", "mixture:200,64,10,0.5,1", "--k", 4, "--family", "fcm",
                                "--fuzzifier", fuzzifier, "--iterations", 20, "--variant", "fcm_serial",
                                "--precision", "f32", "--rounds", 1, *QUICK, "--out", "out")
        return done.stdout + done.stderr, ledger(self.folder / "out")[1][0]

    def test_it_is_said_on_the_line_below_the_table_and_in_the_ledger(self):
        text, row = self.fcm(3)
        self.assertEqual(row["centres_apart"], 1)
        self.assertEqual(text.count("collapsed: of 4 centres 1 is apart"), 2)

    def test_centres_that_are_apart_are_no_news(self):
        text, row = self.fcm(1.1)
        self.assertEqual(row["centres_apart"], 4)
        self.assertNotIn("collapsed", text)


if __name__ == "__main__":
    unittest.main()
