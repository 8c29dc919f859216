"""Whatever a user can get wrong is said clearly, ends with exit code 64, and leaves nothing half-written
behind."""

import json
import os
import pathlib
import select
import struct
import subprocess
import time
import unittest

import numpy as np

import ledgers
from program import BINARY, GOOD, Program, QUICK, replaced


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

    def test_too_small(self):
        values = np.random.default_rng(1).normal(size=(50, 2))
        for scale, precision in ((1e-20, "f32"), (1e-60, "f32"), (1e-160, "f64")):
            name = self.points(scale * values, f"{scale}.npy")
            self.refused(*replaced("--data", name, "--precision", precision),
                         says=[name, "too small", "float" + precision[1:], "scale the data"])
        for family in ("kmeans", "fcm"):
            for scale, precision in ((1e-15, "f32"), (1e-60, "f64"), (1e-140, "f64"), (0.0, "f32")):
                with self.subTest(family=family, scale=scale):
                    rows = self.campaign(*replaced(
                        "--data", self.points(scale * values), "--precision", precision,
                        "--variant", family + "_serial", "--init", "first"), "--family", family,
                        out=f"{family}-{scale}")
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
        self.refused(*replaced("--data", self.points(np.full((9, 2), "word"))), says=["U4"])
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

    # ---- programs of others

    def program_of(self, text, name="kmeans_own.sh"):
        program = self.folder / name
        program.write_text(text)
        program.chmod(0o755)
        return program

    def test_a_peer_that_writes_for_ever(self):
        for text in ("#!/bin/sh\nexec yes\n", "#!/bin/sh\ntr '\\0' x </dev/zero\n"):
            program = self.program_of(text)
            begin = time.monotonic()
            done = self.run_program("--as=2000000000", BINARY, "run", *GOOD, *QUICK, "--peer",
                                    program, exit_code=64, program="prlimit")
            self.assertIn("kmeans_own.sh: it does not describe itself: it writes more than "
                          "1048576 bytes and no reply", done.stderr)
            self.assertLess(time.monotonic() - begin, 90)
            self.assertEqual(self.left_running(), [])

    def test_a_peer_that_answers_and_stays(self):
        program = self.program_of(
            "#!/bin/sh\necho '{\"reply\": \"describe\", \"protocol\": 2, \"variants\": []}'\n"
            "sleep 100 &\nwhile :; do sleep 100; done\n")
        self.run_program("list", "--peer", program, timeout=90)
        self.assertEqual(self.left_running(), [])

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

    def test_points_may_be_the_initial_state(self):
        name = self.points(np.random.default_rng(1).random((3, 2)))
        rows = self.campaign(*replaced("--data", name, "--init", "file:" + name))
        self.assertEqual([row["status"] for row in rows], ["ok"])

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

    def test_words_that_take_nothing(self):
        self.refused(*replaced("--init", "first:3"), says=["--init first:3", '"first" takes nothing'])
        for word in ("labels", "iterations"):
            self.refused(*replaced("--iterations", None, "--stop", word + ":3"),
                         says=[f"--stop {word}:3", "takes nothing"])

    def test_arguments_without_an_effect(self):
        self.refused("--json", "check", "out", command="ledger", says=["ledger check", "--json"])
        self.refused("out", "check", "out", command="ledger", says=["ledger check", "out belongs"])
        self.refused("kmeans_simd", "--cell", "x", command="explain", says=["--cell", "--from"])
        self.refused("article004", "--from", "out", "--wide", "--json", command="table",
                     says=["--json", "--wide"])
        self.refused("out", "out", "--wide", "--json", command="compare", says=["--json", "--wide"])

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
                              ("--gpus", 0), ("--gpus", 4096),
                              ("--samples", 0), ("--min-time", -1), ("--budget", -1),
                              ("--target", "nan"), ("--timeout", 0), ("--budget", "inf"),
                              ("--target", "inf"), ("--min-time", "inf"),
                              ("--timeout", "nan"), ("--timeout", "inf"), ("--timeout", 0.09),
                              ("--seed", -1), ("--seed", 2 ** 32)):
            done = self.run_program("run", *GOOD, "--no-probe", "--out", "out", option, value,
                                    exit_code=64)
            self.assertIn(option, done.stderr)
            self.assertEqual(self.files(), [])
        self.refused("--threads", 0, command="probe", says=["--threads 0"])
        self.refused(*GOOD, "--timeout", 1e-9, says=["--timeout 1e-09: seconds are needed, at least 0.1"])

    def test_numbers_that_no_register_holds(self):
        many = "9" * 23
        for option in ("--k", "--take", "--iterations", "--max-iterations", "--samples", "--seed",
                       "--starts", "--rounds", "--threads"):
            words = replaced("--iterations", None) if "iterations" in option else GOOD
            words = replaced("--k", None) if option == "--k" else words
            done = self.run_program("run", *words, "--no-probe", "--out", "out", option, many,
                                    exit_code=64)
            self.assertIn(option, done.stderr)
            self.assertIn(many, done.stderr)
            self.assertEqual(self.files(), [])
        for option in ("--k", "--take", "--max-iterations", "--samples"):
            self.refused("--data", "uniform:50,2,1", option, many, command="quality",
                         says=[option, many])
        for samples in (1000001, 3000000000):  # the library that takes them counts in 32 bits
            done = self.run_program("run", *GOOD, "--samples", samples, "--out", "out", exit_code=64)
            self.assertIn(f"--samples {samples}: from 1 to 1000000 are taken", done.stderr)

    def test_more_threads_than_are_of_use(self):
        for words in (["run", *GOOD], ["probe"], ["quality", "--data", "uniform:50,2,1", "--k", 3],
                      ["gate", "--base", ".", "--new", "."]):
            done = self.run_program(*words, "--threads", 100000, exit_code=64)
            self.assertRegex(done.stderr, r"--threads 100000: at most \d+ are of use")
        self.run_program("run", *GOOD, *QUICK[:-1], 4 * os.cpu_count(), "--out", "out")

    def test_what_is_said_twice_counts_once(self):
        rows = self.campaign(*GOOD, "--precision", "f32", "--precision", "f64", "--precision", "f32",
                             "--variant", "kmeans_seri?l")
        self.assertEqual(sorted(row["precision"] for row in rows), ["f32", "f64"])
        rows = self.campaign(self.table(), self.table(), out="other")
        self.assertEqual(len(rows), 1)
        program = self.program_of(
            "#!/bin/sh\necho '{\"reply\": \"describe\", \"protocol\": 2, \"variants\": [{\"name\": "
            "\"kmeans_own\", \"idea\": \"\", \"source\": \"\"}]}'\n")
        self.run_program("list", "--peer", program, "--peer", program)

    def test_what_never_ends_is_no_ledger(self):
        os.mkfifo(self.folder / "pipe")
        for name in ("pipe", "/dev/zero"):
            for words in (("compare", name, name), ("history", name, name), ("report", name, "--out", "x.html"),
                          ("ledger", name), ("ledger", "check", name), ("ledger", "repair", name, "--out", "y"),
                          ("table", "article002", "--from", name), ("explain", "kmeans_simd", "--from", name),
                          ("quality", "--from", name)):
                with self.subTest(words):
                    done = self.run_program(*words, exit_code=64)
                    self.assertIn(f"{name}: not a regular file", done.stderr)
        (self.folder / "pipe.json").symlink_to(self.folder / "pipe")
        done = self.run_program("compare", "pipe.json", "pipe.json", exit_code=64)
        self.assertIn("pipe.json: not a regular file", done.stderr)

    def test_what_the_kernel_never_ends_is_empty(self):
        """/proc/kmsg waits for the kernel's next message."""
        if not os.access("/proc/kmsg", os.R_OK):
            self.skipTest("only root may read /proc/kmsg")
        self.run_program("ledger", "check", "/proc/kmsg")
        self.refused("/proc/kmsg", "/proc/kmsg", command="compare", says=["/proc/kmsg"])

    def test_a_pipe_that_nobody_reads_is_said_at_once(self):
        self.campaign(*GOOD, "--variant", "kmeans_serial")
        for name in ("page", "page.npy"):
            os.mkfifo(self.folder / name)
        commands = [("data", "uniform:9,2,1", "--out", "page.npy"), ("report", "out", "--out", "page")]
        if not (pathlib.Path(BINARY).parent / "page" / "template.html").exists():
            commands.pop()  # where there is no npm, there is no page to write
        for words in commands:
            with self.subTest(words):
                done = self.run_program(*words, exit_code=74)
                self.assertIn(f"{words[-1]}: no process reads this pipe", done.stderr)
        if len(commands) == 1:
            self.skipTest("the page was not bundled: npm or its registry was not there")
        # One with a reader gets everything, and its end once.
        pipe = os.open(self.folder / "page", os.O_RDONLY | os.O_NONBLOCK)
        with subprocess.Popen([BINARY, "report", "out", "--out", "page"], cwd=self.folder,
                              env=self.environment, stdout=subprocess.DEVNULL) as writer:
            select.select([pipe], [], [], 60)
            os.set_blocking(pipe, True)
            with os.fdopen(pipe, "rb") as reader:
                page = reader.read()
        self.assertEqual(writer.returncode, 0)
        self.assertTrue(page.rstrip().endswith(b"</html>"), page[-100:])

    def test_control_characters_in_texts(self):
        for field in ("idea", "source"):
            program = self.program_of("#!/bin/sh\ncat \"$0.json\"\n")
            (self.folder / "kmeans_own.sh.json").write_text(json.dumps(
                {"reply": "describe", "protocol": 2, "variants": [
                    {"name": "kmeans_own", "idea": "", "source": "", field: "two\nlines"}]}) + "\n")
            self.refused("--peer", program, command="list",
                         says=[f"the {field} of kmeans_own:", "two\\nlines", "control character"])

    def test_control_characters_in_names(self):
        for bad in ("\n", "\x1b[31m", "\x7f", "\x9b31m", "\u202e", "\u2028"):
            shown = json.dumps("kmeans_own" + bad)
            program = self.program_of("#!/bin/sh\ncat \"$0.json\"\n")
            (self.folder / "kmeans_own.sh.json").write_text(json.dumps(
                {"reply": "describe", "protocol": 2, "variants": [
                    {"name": "kmeans_own" + bad, "idea": "", "source": ""}]}) + "\n")
            self.refused("--peer", program, command="list",
                         says=["kmeans_own.sh", shown, "control character"])
            self.refused(self.table(id="p" + bad), says=["small.json", json.dumps("p" + bad)])
            self.refused(*replaced("--data", f"x{bad}.npy"), says=["--data", "control character"])
        (self.folder / "kmeans_own.sh.json").write_text(json.dumps(
            {"reply": "describe", "protocol": 2, "variants": [
                {"name": "kmeans_own/../x", "idea": "", "source": ""}]}) + "\n")
        self.refused("--peer", program, command="list", says=["kmeans_own/../x", "slash"])

    def test_names_that_are_no_utf8(self):
        bad = os.fsdecode(b"a\xff.npy")
        says = ["is not UTF-8", "a\ufffd.npy"]
        (self.folder / bad).write_bytes(b"")
        for option, value in (("--data", bad), ("--init", f"file:{bad}"), ("--weights", bad),
                              ("--peer", bad)):
            for words in ([option, value], [f"{option}={value}"]):
                self.refused(*GOOD, *words, says=[f"{option}: what it is given", *says])
        for option in ("--out", "--save"):
            self.refused(*GOOD, option, bad, says=[f"{option}: what it is given", *says])
        for words in (["history", bad, bad], ["compare", bad, bad], ["ledger", bad], ["report", bad],
                      ["judge", bad], ["data", bad]):
            self.refused(*words[1:], command=words[0], says=["argument 2", *says])
        self.refused("--from", bad, command="quality", says=["--from: what it is given", *says])

    def test_folders_that_are_no_utf8(self):
        bad = os.fsdecode(b"a\xff")
        (self.folder / bad).mkdir()
        for name in ("TMPDIR", "XDG_CACHE_HOME", "HOME"):
            before = self.environment.get(name)
            self.environment[name] = str(self.folder / bad)
            self.refused(*GOOD, says=[name, "is not UTF-8", "a\ufffd"])
            self.refused(command="list", says=[name, "is not UTF-8", "a\ufffd"])
            if before is None:
                del self.environment[name]
            else:
                self.environment[name] = before
        self.folder /= bad
        self.refused(*GOOD, says=["the current folder is not UTF-8", "a\ufffd"])

    def test_names_in_utf8(self):
        self.points(np.random.default_rng(1).random((50, 2)), "pünkte.npy")
        self.run_program("run", *replaced("--data", "pünkte.npy"), *QUICK, "--out", "größe")

    def test_paths_that_cannot_be_looked_at(self):
        (self.folder / "loop").symlink_to("loop")
        for words in (["ledger", "loop"], ["compare", "loop", "loop"], ["list", "--peer", "loop"],
                      ["list", "--peer", "x" * 300], ["gate", "--base", "loop", "--new", "loop"]):
            done = self.run_program(*words, exit_code=64)
            self.assertIn(str(words[-1]), done.stderr)
            self.assertNotIn("filesystem error", done.stderr)
        self.points(np.random.default_rng(1).random((50, 2)))
        for cache in ("loop", "x" * 300, "/dev/null/x"):
            self.environment["CLUSTERBENCH_CACHE"] = cache
            done = self.run_program("run", *replaced("--data", "points.npy"), *QUICK, "--out",
                                    "out-" + cache[-1])
            self.assertNotIn("filesystem error", done.stderr)
            self.assertIn("are not kept for later campaigns: " + cache, done.stderr)

    def test_names_of_folders(self):
        for option in ("--out", "--save"):
            done = self.run_program("run", *GOOD, *QUICK, option, "", exit_code=64)
            self.assertIn(option, done.stderr)
            self.assertEqual(self.files(), [])

    def test_outputs_without_a_name(self):
        problem = ["--data", "uniform:50,2,1", "--k", 3]
        for words, what in ((["quality", *problem, "--out", "q", "--json", ""], "file"),
                            (["quality", *problem, "--out", ""], "folder"),
                            (["data", "uniform:9,2,1", "--out", ""], "file"),
                            (["judge", "x.cpp", "--html", ""], "file"),
                            (["judge", "x.cpp", "--out", ""], "folder"),
                            (["report", "out", "--out", ""], "file"),
                            (["ledger", "repair", "out", "--out", ""], "file"),
                            (["table", "article000", "--from", "out", "--splice", ""], "file"),
                            (["gate", "--base", ".", "--new", ".", "--out", ""], "folder")):
            with self.subTest(words):
                self.refused(*words[1:], command=words[0],
                             says=[f"{words[-2]}: the name of a {what} is missing"])

    def test_data_is_written_under_a_name_that_is_read(self):
        self.refused("uniform:9,2,1", "--out", "copy", command="data", says=["--out copy", ".npy"])

    # ---- tables

    def table(self, name="small", rows=({},), text=None, **changes):
        """A table with one problem in a folder of tables of its own; some keys changed, or left out
        where they are None."""
        tables = self.folder / "tables"
        tables.mkdir(exist_ok=True)
        self.environment["CLUSTERBENCH_TABLES"] = str(tables)
        problem = {"id": "p", "data": "uniform:50,2,1", "k": 3, "init": "first",
                   "stop": "iterations", "max_iterations": 2, **changes}
        definition = {"name": name, "title": "", "source": "", "problems": [problem],
                      "rows": [{"variant": "kmeans_serial", "precisions": ["f32"],
                                "problems": ["p"], **row} for row in rows]}
        (tables / f"{name}.json").write_text(json.dumps(definition) if text is None else text)
        return name

    def test_numbers_of_a_table(self):
        for key, value in (("k", 0), ("k", -3), ("k", 2.5), ("k", "3"), ("max_iterations", 0),
                           ("max_iterations", -1), ("take", -1), ("take", 1.5)):
            with self.subTest(key=key, value=value):
                self.refused(self.table(**{key: value}),
                             says=["small.json: problem p: ", f'"{key}"', json.dumps(value)])
        self.assertEqual([row["status"] for row in self.campaign(self.table())], ["ok"])

    def test_what_only_the_data_show_names_the_table_as_well(self):
        for changes, said in (({"data": "unifrom:50,2,1"}, "unifrom"), ({"k": 51}, "only 50 points"),
                              ({"take": 51}, "only 50 rows"), ({"data": "none.npy"}, "none.npy"),
                              ({"stop": "lables"}, "mean labels?")):
            with self.subTest(said):
                self.refused(self.table(**changes), says=["small.json: problem p: ", said])

    def test_a_misspelt_variant_of_a_table(self):
        self.refused(self.table(rows=({}, {"variant": "kmeans_sreial"})),
                     says=["small.json", '"kmeans_sreial"', "did you mean kmeans_serial?", "--peer"])

    def test_a_variant_that_fits_no_problem_of_a_table(self):
        name = self.table()
        self.refused(name, "--variant", "fcm_serial",
                            says=["no cell of these tables fits", "fcm_serial is a variant of fcm, and the "
                                  "problems are of kmeans", "rows of the tables: kmeans_serial"])
        self.refused(name, "--variant", "kmeans_serial", "--precision", "f64",
                     says=["kmeans_serial has no cell in f64"])
        done = self.run_program("run", name, "--variant", "kmeans_sreial", exit_code=64)
        self.assertIn("did you mean kmeans_serial? There are ", done.stderr)
        self.assertIn("kmeans_openmp", done.stderr)

    def test_a_broken_table_is_named_once(self):
        for text in ("{", "[]", '{"name": "small"}'):
            with self.subTest(text):
                name = self.table(text=text)
                done = self.run_program("run", name, exit_code=64)
                self.assertEqual(done.stderr.count("small.json"), 1, done.stderr)
        (self.folder / "tables" / "small.json").unlink()
        (self.folder / "tables" / "small.json").mkdir()
        self.refused("small", says=["small.json"])
        self.refused(command="list", says=["small.json"])

    def test_a_folder_of_tables_that_is_none(self):
        for folder in ("/nosuch", "", __file__):
            self.environment["CLUSTERBENCH_TABLES"] = folder
            self.refused(command="list", says=["CLUSTERBENCH_TABLES", folder])
            self.refused("article004", says=["CLUSTERBENCH_TABLES"])

    # ---- ledgers

    def test_damaged_rows_are_named_by_whoever_reads_them(self):
        ledgers.write(self.folder / "sound", [ledgers.header(), ledgers.row(samples=[1.0, 2.0])])
        readers = (["table", "article004", "--from", "out"], ["compare", "out", "sound"],
                   ["quality", "--from", "out"], ["explain", "kmeans_serial", "--from", "out"],
                   ["ledger", "out"], ["run", *GOOD, *QUICK, "--out", "out"],
                   ["run", *GOOD, *QUICK, "--out", "out", "--resume"])
        changes = (lambda row: row.update(samples_ms=[]), lambda row: row.update(samples_ms=["x"]),
                   lambda row: row.update(type="sell"), lambda row: row.pop("status"),
                   lambda row: row.pop("key"), lambda row: row.update(name=None),
                   lambda row: row.pop("samples_ms"), lambda row: row.update(variant=7),
                   lambda row: row.pop("problem"), lambda row: row.update(problem=[]), lambda row: row["problem"].update(k="x"),
                   lambda row: row["problem"].update(family=1), lambda row: row["problem"].update(n=[]),
                   lambda row: row["problem"].update(hash=3), lambda row: row.update(phases_ms=7),
                   lambda row: row.update(verification=[1]), lambda row: row.update(trace="x"))
        for change in changes:
            row = ledgers.row(samples=[1.0, 2.0])
            change(row)
            path = ledgers.write(self.folder / "out", [ledgers.header(), row]) / "ledger.jsonl"
            content = path.read_bytes()
            for arguments in readers:
                with self.subTest(arguments[0]):
                    done = self.run_program(*arguments, exit_code=64)
                    self.assertRegex(done.stderr, r"out/ledger\.jsonl: line 2")
                    self.assertNotIn("json.exception", done.stderr)
                    self.assertEqual(path.read_bytes(), content)

    def test_a_ledger_that_is_a_folder(self):
        (self.folder / "out" / "ledger.jsonl").mkdir(parents=True)
        self.refused("article004", "--from", "out", command="table", says=["out/ledger.jsonl"])
        for folder in ("out", "out/ledger.jsonl"):
            self.refused(folder, command="ledger", says=[f"{folder}: holds no ledger.jsonl"])
        ledgers.write(self.folder / "out" / "sound", [ledgers.header()])
        done = self.run_program("ledger", "check", "out")
        self.assertEqual(done.stdout, "out/sound/ledger.jsonl: sound: 0 rows\n")

    def test_a_folder_that_cannot_be_read_is_named(self):
        ledgers.write(self.folder / "out", [ledgers.header()])
        shut = self.folder / "out" / "shut"
        shut.mkdir()
        shut.chmod(0)
        self.addCleanup(shut.chmod, 0o755)
        self.folder.chmod(0o755)
        somebody = {"user": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root may
        for folder in ("out", "out/shut"):
            try:
                done = subprocess.run([BINARY, "ledger", "check", folder], cwd=self.folder,
                                      env=self.environment, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, **somebody)
            except PermissionError:
                self.skipTest("nobody but this user can run the program")
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertEqual(done.stderr,
                             "clusterbench: out/shut: cannot be read: Permission denied\n")

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
        for options in (["--resume"], []):  # what is measured without it could not be read again
            done = self.run_program("run", *GOOD, *QUICK, "--out", "out", *options, exit_code=64)
            self.assertIn("line 2", done.stderr)
            self.assertEqual(path.read_bytes(), damaged)

    def test_ledger_of_a_newer_schema(self):
        self.campaign(*GOOD)
        path = self.folder / "out" / "ledger.jsonl"
        path.write_text(path.read_text().replace('"schema":2', '"schema":3'))
        done = self.run_program("table", "article004", "--from", "out", exit_code=64)
        self.assertIn("schema 3", done.stderr)


if __name__ == "__main__":
    unittest.main()
