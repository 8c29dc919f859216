"""`clusterbench data --rows`: some rows of a generated dataset, with the bits that they have in the whole."""

import hashlib
import pathlib
import unittest

import numpy as np

from program import Program


class Rows(Program):
    def made(self, name, *more, out="rows.npy"):
        """The printed lines by name, and the points."""
        done = self.run_program("data", name, *more, "--out", out)
        said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
        return {key: value.strip() for key, value in said.items()}, np.load(self.folder / out)

    def test_shards_are_the_whole(self):
        for name in ("uniform:1000,3,1", "mixture:9000,3,4,1,7"):
            with self.subTest(name):
                _, whole = self.made(name, out="whole.npy")
                n = len(whole)
                borders = [0, 1, n // 3, n // 2 + 1, n]
                shards = []
                for first, end in zip(borders, borders[1:]):
                    said, shard = self.made(name, "--rows", first, end - first)
                    self.assertEqual(said["name"], f"{name}, rows {first} to {end - 1}")
                    self.assertEqual(said["sha256"], hashlib.sha256(shard.tobytes()).hexdigest())
                    shards.append(shard)
                self.assertEqual(np.concatenate(shards).tobytes(), whole.tobytes())

    def test_the_whole_is_nowhere(self):
        before = sorted(pathlib.Path(self.cache).rglob("*"))
        _, rows = self.made("uniform:1000000000000,2,3", "--rows", 999999999998, 2)
        self.assertEqual(rows.shape, (2, 2))
        self.assertEqual(sorted(pathlib.Path(self.cache).rglob("*")), before)

    def test_refusals(self):
        np.save(self.folder / "file.npy", np.ones((3, 2)))
        for words, said in ((("uniform:9,2,1", "--rows", 8, 2), "no rows 8 to 9 of 9"),
                            (("uniform:9,2,1", "--rows", 3, 0), "--rows 3 0: COUNT is 1 at least"),
                            (("article000", "--rows", 0, 5), "make_classification: its rows depend on all others"),
                            (("file.npy", "--rows", 0, 1), "file.npy: only generated datasets"),
                            (("uniform:9223372036854775808,2,1", "--rows", 0, 1), "too large"),
                            (("uniform:9,2,1", "--rows", 0, 2**64 - 1), f"--rows 0 {2**64 - 1}: there are no"),
                            (("uniform:9,2,1", "--rows", 3, 2**64 - 2), f"no {2**64 - 2} rows from row 3 on of 9"),
                            (("uniform:9,2,1", "--rows", 1), "--rows"),
                            (("uniform:9,2,1", "--rows", -1, 2), "--rows: -1")):
            with self.subTest(words=words):
                done = self.run_program("data", *words, "--out", "x.npy", exit_code=64)
                self.assertIn(said, done.stderr)
                self.assertFalse((self.folder / "x.npy").exists())
        done = self.run_program("data", "uniform:9,2,1", "--rows", 0, 1, exit_code=64)
        self.assertIn("--rows: say with --out", done.stderr)


if __name__ == "__main__":
    unittest.main()
