"""Parquet and Arrow files give the same points as .npy files, and what cannot be read is said in words. All of it
with a stand-in of pyarrow, which Debian does not have, and with pyarrow itself where this Python has it."""

import pickle
import unittest

import numpy as np

from program import Program, QUICK, SOURCE, ledger

try:
    import pyarrow
    from pyarrow import feather, ipc, parquet
except ImportError:
    pyarrow = None

STAND_IN = SOURCE / "tests" / "programs" / "stand_in_pyarrow"


class Files(Program):
    def described(self, name):
        """Shape and SHA-256 of the points, as `data` prints them."""
        lines = dict(line.split(":", 1) for line in self.run_program("data", name).stdout.splitlines())
        return lines["shape"].strip(), lines["sha256"].strip()

    def points(self, kind, rows=230, columns=3):
        return np.random.default_rng(7).integers(0, 100, (rows, columns)).astype(kind)

    def expect(self, name, points):
        np.save(self.folder / "points.npy", points)
        self.assertEqual(self.described(name), self.described("points.npy"))

    def refused(self, name, *says):
        done = self.run_program("data", name, exit_code=64)
        for word in (name, *says):
            self.assertIn(word, done.stderr)


class Readers:
    """write(name, column=values): a column is [n] numbers, [n, w] numbers as lists of one length, or a list, of
    lists or of numbers and None."""

    def test_columns_of_numbers(self):
        for kind, form in (("float32", "parquet"), ("float64", "parquet"), ("float16", "arrow"), ("int8", "arrow"),
                           ("uint64", "feather"), ("bool", "feather")):
            with self.subTest(kind=kind, form=form):
                points = self.points(kind)
                self.write(f"points.{form}", a=points[:, 0], b=points[:, 1], c=points[:, 2])
                self.expect(f"points.{form}", points)
                self.expect(f"points.{form}#c,a", points[:, [2, 0]])

    def test_lists_and_names_in_capitals(self):
        points = self.points("float32")
        self.write("POINTS.PARQUET", x=points)
        self.expect("POINTS.PARQUET", points)
        self.write("ragged.arrow", x=[list(map(float, row)) for row in points], w=points[:, 1])
        self.expect("ragged.arrow#x", points.astype("float64"))
        self.expect("ragged.arrow#w", points[:, [1]])
        self.expect("ragged.arrow", np.column_stack([points, points[:, 1]]).astype("float64"))

    def test_types_that_differ_become_one_that_holds_both(self):
        points = self.points("float64")
        self.write("mixed.parquet", a=points[:, 0].astype("int64"), b=points[:, 1].astype("float32"),
                   c=points[:, 2].astype("bool"))
        self.expect("mixed.parquet", np.column_stack([points[:, :2], points[:, 2] != 0]))
        points[17, 0] = 2**53
        self.write("mixed.parquet", a=points[:, 0].astype("int64") + 1, b=points[:, 1])
        self.refused("mixed.parquet", "column 'a'", "float64 does not hold exactly")

    def test_a_run_with_weights_from_a_column(self):
        points = self.points("float32")
        self.write("points.parquet", a=points[:, 0], b=points[:, 1], w=1 + points[:, 2])
        self.run_program("run", "--data", "points.parquet#a,b", "--weights", "points.parquet#w", "--k", 3,
                         "--iterations", 2, "--variant", "kmeans_serial", *QUICK, "--out", "out")
        _, rows = ledger(self.folder / "out")
        self.assertEqual([row["status"] for row in rows], ["ok"])

    def test_refusals_name_the_file_and_the_column(self):
        points = self.points("float32")
        self.write("words.parquet", a=points[:, 0], word=["one"] * len(points))
        self.refused("words.parquet", "column 'word' holds", "#a,b")
        self.expect("words.parquet#a", points[:, [0]])
        self.refused("words.parquet#b", "'b'", "a, word")
        self.write("missing.parquet", a=points[:, 0], b=[1.0] * 150 + [None] * (len(points) - 150))
        self.refused("missing.parquet", "column 'b'", "missing")
        self.write("ragged.parquet", x=[[1.0, 2.0]] * (len(points) - 1) + [[3.0]])
        self.refused("ragged.parquet", "column 'x'", "1 to 2 numbers")
        self.refused("nowhere.parquet", "No such file")
        for form in ("parquet", "arrow", "feather"):
            (self.folder / f"text.{form}").write_text("no such file\n")
            self.refused(f"text.{form}")


class WithStandIn(Readers, Files):
    FORMS = {"parquet": "parquet", "arrow": "stream", "feather": "file"}

    def setUp(self):
        super().setUp()
        self.environment["PYTHONPATH"] = str(STAND_IN)

    def write(self, name, **columns):
        def column(values):
            if isinstance(values, np.ndarray):
                form = ("scalar",) if values.ndim == 1 else ("fixed", values.shape[1])
                return (values.dtype.name, *form), values.tolist() if values.ndim == 1 else list(values)
            if isinstance(values[0], list):
                return ("float64", "list"), values
            return ("string" if isinstance(values[0], str) else "float64",), values

        stored = {"form": self.FORMS[name.lower().rpartition(".")[2]],
                  "columns": {name: column(values) for name, values in columns.items()}}
        (self.folder / name).write_bytes(pickle.dumps(stored))


@unittest.skipIf(pyarrow is None, "this Python has no pyarrow")
class WithPyarrow(Readers, Files):
    def write(self, name, **columns):
        def column(values):
            if isinstance(values, np.ndarray) and values.ndim == 2:
                return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.ravel()), values.shape[1])
            return pyarrow.array(values)

        table = pyarrow.table({name: column(values) for name, values in columns.items()})
        path = str(self.folder / name)
        if name.lower().endswith(".parquet"):
            parquet.write_table(table, path)
        elif name.endswith(".feather"):
            feather.write_feather(table, path)
        else:
            with ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)


class WithoutPyarrow(Files):
    def test_the_message_says_what_is_missing(self):
        (self.folder / "pyarrow.py").write_text("raise ImportError\n")
        self.environment["PYTHONPATH"] = str(self.folder)
        for name in ("points.parquet", "points.arrow", "points.feather"):
            (self.folder / name).write_bytes(b"PAR1")
            self.refused(name, "a Python with pyarrow", "pip install pyarrow", "convert the file to .npy")


if __name__ == "__main__":
    unittest.main()
