"""Points that stay in their file: the same verdicts and the same bits as in memory, within a limit of
the memory, and clear endings where the file cannot be read to its end."""

import os
import pathlib
import time
import unittest

import jsonschema
import json

from program import BINARY, QUICK, SOURCE, Program, clouds, ledger, write_fbin

STREAM = ["--variant", "kmeans_simd_stream"]
LIMIT = ["--memory", "256M"]


@unittest.skipIf(b"__asan_init" in pathlib.Path(BINARY).read_bytes(),
                 "the sanitizer's own memory counts against --memory")
class Streaming(Program):
    def both_ways(self, data, *problem, variant=STREAM):
        """Rows of a campaign in memory and of one with a limit, from the same starts."""
        return [self.campaign("--data", data, *problem, *variant, "--starts", 7, "--save", f"{name}-answers",
                              *limit, out=name)[0]
                for name, limit in (("memory", []), ("file", LIMIT))]

    def expect_the_same_answers(self, *names):
        for name in names:
            found = [next((self.folder / f"{way}-answers").glob(f"*.{name}.npy")).read_bytes()
                     for way in ("memory", "file")]
            self.assertEqual(found[0], found[1], name)

    def test_the_same_verdicts_and_the_same_bits(self):
        write_fbin(self.folder / "a.fbin", clouds(5001, 7), 7)
        problems = [["--k", 5, "--iterations", 6], ["--k", 9, "--stop", "labels", "--take", 3000],
                    ["--k", 3, "--stop", "shift:1e-3", "--init", "random:3"]]
        for problem in problems:
            with self.subTest(problem):
                memory, file = self.both_ways("a.fbin", *problem)
                self.assertEqual((memory["status"], memory["message"]), ("ok", ""))
                for key in ("status", "message", "problem", "verification", "single_steps", "trace",
                            "own_start", "answers_judged", "oracle"):
                    if key != "own_start":
                        self.assertEqual(memory[key], file[key], key)
                    else:
                        self.assertEqual(memory[key]["iterations"], file[key]["iterations"])
                self.assertNotIn("memory", memory)
                self.assertEqual(file["memory"]["limit_bytes"], 256 << 20)
                self.assertRegex(file["memory"]["held_by"], "^(direct reads|reads by the cache), pages of the file let go and "
                                 "not counted, a limit of data(, a control group with the kernel's cache|; no control "
                                 r"group \(.+\))$")
                self.assertGreater(file["percent_of_plain_read"], 0)
                jsonschema.validate(file, json.loads((SOURCE / "results/schema.json").read_text()))
                self.expect_the_same_answers("labels", "centroids")

    def test_fuzzy_c_means(self):
        write_fbin(self.folder / "a.fbin", clouds(5001, 7), 7)
        for more in (["--iterations", 4], ["--stop", "loss:0.1"], ["--stop", "shift:1e-3"],
                     ["--stop", "labels", "--fuzzifier", 1.5],
                     ["--iterations", 4, "--init", "memberships:1"]):
            with self.subTest(more):
                for row in self.both_ways("a.fbin", "--family", "fcm", "--k", 5, *more,
                                          variant=["--variant", "fcm_simd_stream"]):
                    self.assertEqual((row["status"], row["message"]), ("ok", ""))
                self.assertIn("wait for rows", row["phases_ms"])
                self.expect_the_same_answers("labels", "centroids", "memberships")

    def test_memberships_count_against_the_limit(self):
        """As many as are allowed, 32 MiB of 128 left for the programs, and then some more: refused before
        anything runs."""
        for init, most in (("first", 96 / 24), ("memberships:1", 96 / 48)):
            k, cols = 8, 16
            rows = int(most * (1 << 20) / (k * 4))
            write_fbin(self.folder / "a.fbin", clouds(rows // 100, cols), cols, times=101)
            for take, status in ((rows // 100 * 100, "ok"), (rows + 1, "refused")):
                with self.subTest(init=init, take=take):
                    row, = self.campaign("--data", "a.fbin", "--take", take, "--family", "fcm", "--k", k,
                                         "--init", init, "--iterations", 1, "--variant", "fcm_simd_stream",
                                         "--memory", "128M", out=f"{init[:5]}{take}",
                                         exit_code=0 if status == "ok" else 6)
                    self.assertEqual(row["status"], status, row["message"])
                    if status == "refused":
                        self.assertRegex(row["message"], r"^each answer has \d MiB of memberships, --memory "
                                                         r"128 MiB allows \d MiB for one: all that wait")

    def test_float64_in_a_npy(self):
        self.run_program("data", "mixture:4000,20,5,0.5,1", "--out", "b.npy")
        for row in self.both_ways("b.npy", "--k", 12, "--iterations", 3, "--precision", "f64"):
            self.assertEqual((row["status"], row["message"]), ("ok", ""))

    def test_generated_points_that_nobody_has_made_yet(self):
        """They go to the cache piece by piece: the same bits as in memory."""
        problem = ["--k", 5, "--iterations", 3, *STREAM, "--starts", 7, "--precision", "f64"]
        row, = self.campaign("--data", "uniform:900000,64,5", *problem, *LIMIT, out="file")
        self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertLess(row["memory"]["peak_bytes"], 256 << 20)  # and the points have 440 MiB
        made = self.run_program("data", "uniform:900000,64,5").stdout
        for path in pathlib.Path(self.cache).glob("uniform-900000-64-5-*"):
            path.unlink()
        self.assertEqual(self.run_program("data", "uniform:900000,64,5").stdout, made)

    def test_more_points_than_the_limit(self):
        cols = 64
        write_fbin(self.folder / "big.fbin", clouds(4096, cols), cols, times=300)
        size = (self.folder / "big.fbin").stat().st_size
        self.assertGreater(size, 256 << 20)
        row, = self.campaign("--data", "big.fbin", "--k", 4, "--iterations", 2, *STREAM, *LIMIT)
        self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertLess(row["memory"]["peak_bytes"], 256 << 20)
        self.assertEqual(row["problem"]["n"], 4096 * 300)

    def test_the_table_says_how_fast_they_read(self):
        done = self.run_program("run", "out_of_core", "--quick", "--memory", "256M", *QUICK, "--out", "out")
        for variant in ("kmeans_simd_stream", "fcm_simd_stream"):
            self.assertRegex(" ".join(done.stdout.split()), rf"{variant} f64, [^:]*: reads its file at \d+ % of the "
                                                            "speed of plain sequential reads in between")
        self.assertEqual({row["status"] for row in ledger(self.folder / "out")[1]}, {"ok", "refused"})

    def test_other_variants_are_refused(self):
        write_fbin(self.folder / "a.fbin", clouds(500, 3), 3)
        rows = {row["variant"]: row for row in self.campaign(
            "--data", "a.fbin", "--k", 2, "--iterations", 2, "--variant", "kmeans_serial", *STREAM,
            *LIMIT)}
        self.assertEqual(rows["kmeans_simd_stream"]["status"], "ok")
        self.assertEqual(rows["kmeans_serial"]["status"], "refused")
        self.assertRegex(rows["kmeans_serial"]["message"],
                         "^the points need 0 MiB, --memory allows 256 MiB for everything: they stay in "
                         "their file, and only variants that stream, have ranks, or have them on GPUs read them there$")

    def test_bad_input(self):
        write_fbin(self.folder / "a.fbin", clouds(500, 3), 3)
        (self.folder / "a.csv").write_text("1,2\n3,4\n")
        os.mkfifo(self.folder / "pipe.npy")
        for words, message in (
                (["a.fbin", "--memory", "lots"], "--memory lots: a whole number followed by K, M or G"),
                (["a.fbin", "--memory", "12T"], "--memory 12T: a whole number"),
                (["a.fbin", "--memory", "-1G"], "--memory -1G: a whole number"),
                (["a.fbin", "--memory", "99999999999999999G"], "a whole number"),
                (["a.fbin", "--memory", "1M"], "--memory 1M: at least 128M is needed"),
                (["a.fbin", *LIMIT, "--precision", "f64"],
                 "--memory: a.fbin holds float32, and stays as it is: --precision f32 is needed"),
                (["a.fbin", *LIMIT, "--take", 501], "--take 501: a.fbin has only 500 rows"),
                (["a.fbin", *LIMIT, "--weights", "w.npy"], "--weights: not with --memory"),
                (["a.csv", *LIMIT], "a.csv: only a .npy or a .fbin can stay a file"),
                (["pipe.npy", *LIMIT], "pipe.npy: not a regular file"),
                (["gone.npy", *LIMIT], "gone.npy: cannot open: No such file or directory"),
                (["article004-100", *LIMIT], "article004-100: not in the cache yet"),
                (["mixtur", *LIMIT], "did you mean")):
            with self.subTest(words):
                done = self.run_program("run", "--data", *words, "--k", 2, "--iterations", 1, *STREAM,
                                        *QUICK, "--out", "out", exit_code=64)
                self.assertIn(message, done.stderr)
                self.assertFalse((self.folder / "out").exists())

    def test_not_a_number_in_the_file(self):
        values = clouds(500, 3)
        values[7 * 3 + 1] = float("nan")
        write_fbin(self.folder / "a.fbin", values, 3)
        done = self.run_program("run", "--data", "a.fbin", "--k", 2, *STREAM, *LIMIT, exit_code=64)
        self.assertIn("a.fbin: nan at row 7, column 1", done.stderr)

    def test_a_file_that_is_cut_in_the_middle(self):
        """Of a run, at some moment of it: an ending that says so, never a verdict. And what the judge
        remembers of the points is not of what was left of them."""
        path = self.folder / "a.fbin"
        write_fbin(path, clouds(4000, 8), 8, times=25)
        whole = path.read_bytes()
        command = ["run", "--data", "a.fbin", "--k", 5, "--iterations", 60, *STREAM, *LIMIT]
        for patience in (0.0, 0.5):
            running = self.start(*command, *QUICK, "--out", f"cut{patience}")
            written = self.folder / f"cut{patience}" / "ledger.jsonl"
            while running.poll() is None and not (written.exists() and written.stat().st_size > 0):
                time.sleep(0.01)
            time.sleep(patience)
            os.truncate(path, len(whole) // 2)
            _, errors = running.communicate(timeout=300)
            rows = ledger(written.parent)[1]
            with self.subTest(patience):
                if running.returncode != 0:  # it was quicker than the cut
                    self.assertEqual(running.returncode, 5, errors)
                    self.assertEqual([row["status"] for row in rows], ["error"])
                    self.assertRegex(rows[0]["message"],
                                     "the file changed while it was used|the points end too early: the "
                                     r"file has no byte \d+")
            path.write_bytes(whole)
        row, = self.campaign(*command[1:], out="again")
        self.assertEqual((row["status"], row["message"]), ("ok", ""))


if __name__ == "__main__":
    unittest.main()
