"""Whatever a user can get wrong is said clearly, ends with exit code 64 or 74, and leaves nothing
half-written behind."""

import os
import struct
import subprocess
import unittest

import numpy as np

from program import BINARY, Program, QUICK, ledger

GOOD = ["--data", "uniform:50,2,1", "--k", 3, "--iterations", 2, "--variant", "kmeans_serial"]


def replaced(*changes):
    """GOOD with some options set to other values, or to None: left out."""
    options = dict(zip(GOOD[::2], GOOD[1::2]))
    options.update(zip(changes[::2], changes[1::2]))
    return [word for item in options.items() if item[1] is not None for word in item]


class Refused(Program):
    """Exit code 64."""

    def refused(self, *arguments, says, command="run"):
        """The program refuses, its message holds all of `says`, and the folder is as before."""
        before = self.files()
        if command == "run":
            arguments = [*arguments, *QUICK, "--out", "out", "--save", "saved"]
        done = self.run_program(command, *arguments, exit_code=64)
        self.assertEqual(done.stdout, "")
        for piece in says:
            self.assertIn(piece, done.stderr)
        self.assertEqual(self.files(), before)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def write(self, name, content):
        (self.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def points(self, values, name="points.npy"):
        np.save(self.folder / name, np.asarray(values))
        return name

    def test_good_is_good(self):
        self.assertEqual([row["status"] for row in self.campaign(*GOOD)], ["ok"])

    # ---- sizes

    def test_k(self):
        self.refused(*replaced("--k", 0), says=["--k", "at least one cluster"])
        self.refused(*replaced("--k", None), says=["--k", "at least one cluster"])
        self.refused(*replaced("--k", -3), says=["--k", "-3 is negative"])
        self.refused(*replaced("--k", "three"), says=["--k", "three"])
        self.refused(*replaced("--k", 51), says=["--k 51", "only 50 points"])
        self.refused(*replaced("--k", 99999999999999999999), says=["--k"])

    def test_no_points_and_no_features(self):
        for shape in ((0, 2), (5, 0), (0, 0)):
            name = self.points(np.zeros(shape))
            self.refused(*replaced("--data", name), says=[name, f"{'nd'[shape[0] > 0]} = 0"])
        self.refused(*replaced("--data", "uniform:0,2,1"), says=["uniform:0,2,1", "'0'", "for n"])
        self.refused(*replaced("--data", "uniform:5,0,1"), says=["uniform:5,0,1", "'0'", "for d"])
        self.refused(*replaced("--data", self.write("empty.csv", "")), says=["empty.csv"])
        self.refused(*replaced("--data", self.write("empty.npy", "")), says=["empty.npy"])

    def test_take_more_than_there_is(self):
        self.refused(*replaced("--take", 51), says=["--take 51", "only 50 rows"])

    # ---- values

    def test_nan_and_infinity(self):
        for bad in (np.nan, np.inf, -np.inf):
            values = np.ones((7, 3))
            values[4, 2] = bad
            name = self.points(values)
            self.refused(*replaced("--data", name), says=[name, "row 4", "column 2"])

    def test_too_large(self):
        values = np.ones((7, 3))
        values[4, 2] = 1e300
        name = self.points(values)
        self.refused(*replaced("--data", name), says=["row 4", "column 2", "float32",
                                                      "--precision f64"])
        self.refused(*replaced("--data", name, "--precision", "f64"),
                     says=["row 4", "column 2", "float64"])
        name = self.points(values.clip(max=1e100))
        rows = self.campaign(*replaced("--data", name, "--precision", "f64", "--k", 1))
        self.assertEqual([row["status"] for row in rows], ["ok"])

    # ---- files

    def test_ragged_csv(self):
        name = self.write("own.csv", "1,2\n3,4\n5,6,7\n")
        self.refused(*replaced("--data", name), says=["own.csv", "line 3", "3", "2"])

    def test_csv_that_is_not_numeric(self):
        name = self.write("own.csv", "a,b\n1,2\n3,four\n5,6\n")
        self.refused(*replaced("--data", name), says=["own.csv", "line 3", "column 2", "four"])

    def test_truncated_npy(self):
        name = self.points(np.ones((100, 2)))
        whole = (self.folder / name).read_bytes()
        self.write(name, whole[:-100])
        self.refused(*replaced("--data", name),
                     says=[name, "needs 1600 bytes", "1500 found"])

    def test_npy_of_another_type_or_shape(self):
        self.refused(*replaced("--data", self.points(np.ones((9, 2), np.int64))), says=["i8"])
        self.refused(*replaced("--data", self.points(np.ones((9, 2), complex))), says=["c16"])
        self.refused(*replaced("--data", self.points(np.ones((9, 2, 2)))), says=["(9, 2, 2)"])

    def test_npy_that_claims_more_than_memory(self):
        header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 100000), }"
        header += " " * (117 - len(header)) + "\n"
        name = self.write("huge.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                          header.encode() + bytes(1000))
        self.refused(*replaced("--data", name), says=[name, "800000000000"])
        header = header.replace("1000000000", "1" + "0" * 18)
        name = self.write("overflow.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                          header.encode() + bytes(1000))
        self.refused(*replaced("--data", name), says=[name])

    def test_generated_data_beyond_memory(self):
        self.refused(*replaced("--data", "uniform:100000000000,1000,1"), says=["memory"])

    def test_foreign_and_missing_files(self):
        self.refused(*replaced("--data", self.write("own.npy", "no array")), says=["own.npy"])
        self.refused(*replaced("--data", self.write("own.pdf", "%PDF")), says=["own.pdf"])
        self.refused(*replaced("--data", "missing.npy"), says=["missing.npy"])
        (self.folder / "folder.npy").mkdir()
        self.refused(*replaced("--data", "folder.npy"), says=["folder.npy"])

    # ---- the initial state

    def test_rows(self):
        self.refused(*replaced("--init", "rows:1,3,50"), says=["row 50 is out of range", "49"])
        self.refused(*replaced("--init", "rows:1,3,3"), says=["row 3 is repeated"])
        self.refused(*replaced("--init", "rows:1,3"), says=["2 rows", "k is 3"])
        self.refused(*replaced("--init", "rows:1,x,3"), says=["--init", '"x"'])
        self.refused(*replaced("--init", "rows:1,-2,3"), says=["--init", '"-2"'])
        self.refused(*replaced("--init", "rows:"), says=["--init"])

    def test_seeds(self):
        for init in ("random:", "random:-1", "random:1.5", "random:4294967296", "kmeans++:x"):
            self.refused(*replaced("--init", init), says=["--init " + init, "seed"])

    def test_initial_file(self):
        self.points(np.ones((4, 2)), "start.npy")
        self.refused(*replaced("--init", "file:start.npy"), says=["[4, 2]", "[3, 2]"])
        self.points(np.full((3, 2), np.nan), "start.npy")
        self.refused(*replaced("--init", "file:start.npy"), says=["start.npy", "row 0"])
        self.points(np.full((3, 2), 1e300), "start.npy")
        self.refused(*replaced("--init", "file:start.npy"), says=["start.npy", "float32"])
        self.refused(*replaced("--init", "file:none.npy"), says=["none.npy"])
        self.refused(*replaced("--init", "file:"), says=["--init", "file name"])

    def test_memberships_are_for_fcm(self):
        self.refused(*replaced("--init", "memberships:1"), says=["k-means starts from centroids"])

    # ---- names, with the nearest suggestion

    def test_unknown_names(self):
        self.refused(*replaced("--variant", "kmeans_seriel"), says=["did you mean kmeans_serial?"])
        self.refused("articel004", says=['"articel004"', "did you mean article004?"])
        self.refused(*replaced("--data", "article04-100"), says=["article004-100"])
        self.refused("article04-100", command="data", says=["article004-100"])
        self.refused("articel004", "--from", "out", command="table", says=["article004?"])
        self.refused(*replaced("--init", "kmeans+:1"), says=["did you mean kmeans++:?"])
        self.refused(*replaced("--stop", "lables", "--iterations", None), says=["mean labels?"])
        self.refused(*replaced("--family", "kmean"), says=["did you mean kmeans?"])
        self.refused(*replaced("--precision", "f46"), says=["--precision", '"f46"', "did you mean"])

    def test_unknown_words(self):
        self.refused("--veriant", "x", says=["--veriant"])
        self.refused(command="rum", says=['"rum"', "did you mean run?"])
        self.run_program(exit_code=64)
        self.refused(command="data", says=["--list"])

    # ---- numbers

    def test_numbers_out_of_range(self):
        for changes, says in (
                (("--iterations", 0), "--iterations"),
                (("--iterations", None, "--max-iterations", 0), "--max-iterations"),
                (("--iterations", -1), "-1 is negative"),
                (("--iterations", None, "--stop", "loss:-1"), "--stop loss:-1"),
                (("--iterations", None, "--stop", "loss:nan"), "--stop loss:nan"),
                (("--iterations", None, "--stop", "shift:"), "--stop shift:"),
                (("--family", "fcm", "--variant", "fcm_serial", "--fuzzifier", 1), "--fuzzifier 1"),
                (("--family", "fcm", "--variant", "fcm_serial", "--fuzzifier", "nan"), "--fuzzifier")):
            self.refused(*replaced(*changes), says=[says])
        for option, value in (("--threads", 0), ("--threads", "x"), ("--rounds", 0),
                              ("--samples", 0), ("--min-time", -1), ("--budget", -1),
                              ("--target", "nan"), ("--timeout", 0),
                              ("--timeout", "nan"), ("--seed", -1), ("--seed", 2 ** 32)):
            done = self.run_program("run", *GOOD, "--no-probe", "--out", "out", option, value,
                                    exit_code=64)
            self.assertIn(option, done.stderr)
            self.assertEqual(self.files(), [])
        self.refused("--threads", 0, command="probe", says=["--threads 0"])

    # ---- contradictions

    def test_contradictions(self):
        self.refused(says=["--data"])
        self.refused("article004", "--data", "x.npy", says=["--data"])
        self.refused("article004", "--k", 3, says=["--k", "a table states its own"])
        self.refused("article004", "--iterations", 3, says=["--iterations", "states its own"])
        self.refused(*GOOD, "--quick", says=["--quick"])
        self.refused(*GOOD, "--stop", "labels", says=["--iterations excludes --stop"])
        self.refused(*GOOD, "--max-iterations", 5, says=["--max-iterations"])
        self.refused(*GOOD, "--fuzzifier", 2, says=["--fuzzifier", "fcm"])
        done = self.run_program("run", *GOOD, "--resume", exit_code=64)
        self.assertIn("--out", done.stderr)
        self.assertEqual(self.files(), [])

    def test_resume_from_a_damaged_ledger_names_the_line(self):
        self.campaign(*GOOD)
        path = self.folder / "out" / "ledger.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        damaged = lines[0] + b'{"type": "cell", \n' + lines[1]
        path.write_bytes(damaged)
        done = self.run_program("run", *GOOD, *QUICK, "--out", "out", "--resume", exit_code=64)
        self.assertIn("line 2", done.stderr)
        self.assertEqual(path.read_bytes(), damaged)

    def test_ledger_of_a_newer_schema(self):
        self.campaign(*GOOD)
        path = self.folder / "out" / "ledger.jsonl"
        path.write_text(path.read_text().replace('"schema":1', '"schema":2'))
        done = self.run_program("table", "article004", "--from", "out", exit_code=64)
        self.assertIn("schema 2", done.stderr)


class CannotWrite(Program):
    """Exit code 74."""

    def cannot_write(self, *arguments, says, command="run"):
        done = self.run_program(command, *arguments, exit_code=74)
        for piece in says:
            self.assertIn(piece, done.stderr)

    def test_out_beneath_a_file(self):
        (self.folder / "file").write_text("mine")
        self.cannot_write(*GOOD, *QUICK, "--out", "file/out", says=["file/out"])
        self.cannot_write(*GOOD, *QUICK, "--out", "file", says=["file"])
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_save_beneath_a_file(self):
        (self.folder / "file").write_text("mine")
        self.cannot_write(*GOOD, *QUICK, "--out", "out", "--save", "file/saved",
                          says=["file/saved"])

    def test_out_that_is_read_only(self):
        self.cannot_write(*GOOD, *QUICK, "--out", "/proc/self/out", says=["/proc/self/out"])

    def test_data_out(self):
        self.cannot_write("uniform:9,2,1", "--out", "/dev/full", command="data",
                          says=["/dev/full", "No space left"])
        self.cannot_write("uniform:9,2,1", "--out", "none/x.npy", command="data",
                          says=["none/x.npy"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_cache_that_cannot_be_written(self):
        (self.folder / "file").write_text("mine")
        self.environment["CLUSTERBENCH_CACHE"] = str(self.folder / "file")
        self.cannot_write("uniform:9,2,99", command="data", says=["file"])

    def test_ledger_on_a_full_device(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "ledger.jsonl").symlink_to("/dev/full")
        self.cannot_write(*GOOD, *QUICK, "--out", "out", says=["ledger.jsonl"])

    def test_saved_file_on_a_full_device(self):
        (self.folder / "saved").mkdir()
        (self.folder / "saved" / "kmeans_serial.labels.npy").symlink_to("/dev/full")
        self.cannot_write(*GOOD, *QUICK, "--out", "out", "--save", "saved",
                          says=["/dev/full", "No space left"])

    def test_two_campaigns_in_one_folder(self):
        slow = replaced("--data", "uniform:2000,2,1", "--variant", "kmeans_serial",
                        "--iterations", 200000)
        first = self.start("run", *slow, *QUICK, "--out", "out")
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        while not (self.folder / "out" / "ledger.jsonl").exists():
            self.assertIsNone(first.poll())
        self.cannot_write(*GOOD, *QUICK, "--out", "out", says=["out", "another campaign"])

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small disk needs root")
    def test_full_disk(self):
        """A disk that is full in the middle of a line: exit 74, whole lines, and it goes on."""
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "none", disk],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest("cannot mount: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        cells = replaced("--variant", "kmeans_*e[nr]*", "--rounds", 3)
        self.cannot_write(*cells, *QUICK, "--out", "disk/out",
                          says=["ledger.jsonl", "No space left"])
        headers, before = ledger(disk / "out")
        self.assertEqual(len(headers), 1)
        self.assertGreater(len(before), 0)
        self.assertEqual([path.name for path in (disk / "out").glob("*.tmp")], [])

        subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
        done = self.run_program("run", *cells, *QUICK, "--out", "disk/out", "--resume")
        self.assertIn(f"re-used {len(before)} rows", done.stderr)
        _, after = ledger(disk / "out")
        self.assertEqual(after[:len(before)], before)
        whole = self.campaign(*cells, out="whole")
        self.assertEqual(sorted((row["name"], row["round"]) for row in after),
                         sorted((row["name"], row["round"]) for row in whole))


if __name__ == "__main__":
    unittest.main()
