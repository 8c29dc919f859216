"""HDF5 files give the same points as .npy files, and what cannot be read is said in words."""

import random
import unittest

import numpy as np

from program import Program, QUICK, ledger

try:
    import h5py
except ImportError:
    h5py = None


@unittest.skipIf(h5py is None, "this Python has no h5py")
class Hdf5(Program):
    def write(self, name, **tables):
        with h5py.File(self.folder / name, "w") as file:
            for table, values in tables.items():
                file.create_dataset(table.replace("__", "/"), data=values, compression="gzip")
        return name

    def described(self, name):
        """Shape and SHA-256 of the points, as `data` prints them."""
        lines = dict(line.split(":", 1) for line in self.run_program("data", name).stdout.splitlines())
        return lines["shape"].strip(), lines["sha256"].strip()

    def points(self, kind):
        return np.random.default_rng(7).integers(0, 100, (500, 3)).astype(kind)

    def test_same_points_as_npy(self):
        for kind in ("float32", "float64", "float16", "int8", "uint64", ">f4", "bool"):
            with self.subTest(kind):
                points = self.points(kind)
                np.save(self.folder / "points.npy", points)
                self.write("points.hdf5", train=points, test=points[:5], neighbors=points[:9].astype("int32"))
                self.assertEqual(self.described("points.hdf5"), self.described("points.npy"))

    def test_the_only_table_is_taken_and_others_by_name(self):
        points = self.points("float32")
        np.save(self.folder / "points.npy", points)
        np.save(self.folder / "few.npy", points[:4])
        self.write("POINTS.H5", group__rows=points)
        self.write("named.h5", train=points, group__few=points[:4])
        self.assertEqual(self.described("POINTS.H5"), self.described("points.npy"))
        self.assertEqual(self.described("named.h5#group/few"), self.described("few.npy"))

    def test_a_run_is_of_the_same_problem(self):
        points = self.points("float32")
        np.save(self.folder / "points.npy", points)
        self.write("points.hdf5", train=points)
        problems = []
        for name in ("points.npy", "points.hdf5#train"):
            self.run_program("run", "--data", name, "--k", 3, "--iterations", 2, "--variant", "kmeans_serial",
                             *QUICK, "--out", f"out-{len(problems)}")
            _, rows = ledger(self.folder / f"out-{len(problems)}")
            self.assertEqual([row["status"] for row in rows], ["ok"])
            problems.append([row["problem"]["hash"] for row in rows])
        self.assertEqual(*problems)

    def refused(self, name, *says):
        done = self.run_program("data", name, exit_code=64)
        for word in (name, *says):
            self.assertIn(word, done.stderr)

    def test_refusals_name_the_file_and_the_tables(self):
        points = self.points("float32")
        self.write("several.hdf5", a=points, b=points)
        self.write("cube.hdf5", cube=np.zeros((2, 2, 2)))
        self.write("words.hdf5", words=np.array([b"one", b"two"]))
        self.write("empty.hdf5")
        (self.folder / "text.hdf5").write_text("no HDF5\n")
        self.refused("several.hdf5", "a, b", "FILE.hdf5#NAME")
        self.refused("several.hdf5#c", "no table 'c'", "a, b")
        for name in ("cube.hdf5", "words.hdf5", "empty.hdf5"):
            self.refused(name, "none")
        self.refused("text.hdf5")
        self.refused("missing.hdf5", "No such file")

    def test_damaged_files_end_in_words(self):
        self.write("points.hdf5", train=self.points("float32"))
        whole = (self.folder / "points.hdf5").read_bytes()
        dice = random.Random(20261125)
        ends = set()
        for attempt in range(12):
            damaged = bytearray(whole[:dice.randrange(1, len(whole))] if attempt % 3 == 0 else whole)
            for _ in range(dice.randrange(1, 40)):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            (self.folder / "damaged.hdf5").write_bytes(damaged)
            done = self.run_program("data", "damaged.hdf5", exit_code=(0, 64))
            if done.returncode == 64:
                self.assertIn("damaged.hdf5", done.stderr)
            ends.add(done.returncode)
        self.assertIn(64, ends)


if __name__ == "__main__":
    unittest.main()
