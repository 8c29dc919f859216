"""Programs of other ecosystems: found, listed with reasons, run, verified, and, when they die,
hang, print or lie, a row and nothing else. What the protocol's page shows is what works."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import jsonschema

from program import SOURCE, Program, ledger, too_late

PROGRAMS = sorted((SOURCE / "impls" / "python").glob("*.py"))
FAKE = SOURCE / "tests" / "programs" / "kmeans_fake.py"
PROBLEM = ["--data", "uniform:200,2,1", "--k", 3, "--iterations", 3]
LARGE = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]  # where planted faults strike

# variant -> status and message
FAULTS = {
    "": ("ok", "^$"),
    "dies": ("crashed", r"signal 11"),
    "exits": ("crashed", r"exited with code 3 before it answered$"),
    "hangs": ("timed_out", r"^killed after \d+ s$"),
    "prints_rubbish": ("ok", "^$"),
    "lies": ("cheated", r"^clock: in \d+ of \d+ runs .* claims 0\.001 ms, and \d{2,}"),
    "claims_nothing": ("cheated", r"^clock: in \d+ of \d+ runs .* claims 0 ms"),
    # Its runs are so short that on a busy machine waiting for a processor may explain them.
    "claims_a_nanosecond": ("cheated|ok", r"^$|^clock: in \d+ of \d+ runs .* claims 1e-06 ms"),
    "boasts": ("cheated", r"^clock: in \d+ of \d+ runs"),
    "answers_wrong": ("wrong", r"(labels|means): "),
    "writes_too_little": ("wrong", "."),  # the poison is found
    "shrinks_files": ("crashed", "exited with code 1"),  # it is not allowed to
    "raises": ("error", "planted: the device is on fire$"),
    "refuses": ("refused", "planted: not today$"),
    "says_nothing": ("crashed", "exited with code 0 before it answered$"),
    "long_line": ("error", "it wrote a line of more than 1048576 bytes$"),
    "wrong_reply": ("cheated", r'a reply "take" came to the request "(run|whole)"'),
    "replies_twice": ("cheated", r'a reply "(run|whole)" came to the request "\w+"'),
    "unavailable": ("unavailable", "planted: no library$"),
    "closes": ("crashed", "closed its channel before it answered$"),
    "no_numbers": ("error", "lacks the numbers"),
    "says_nan": ("error", r'^its reply is not JSON: \{"reply": "(run|whole)", "seconds": NaN'),
    "leaves_a_process": ("ok", "^$"),
    "floods_errors": ("crashed", "exited with code (1|120) before it answered$"),  # at 256 MiB
    "floods_output": ("error", "^it printed a megabyte instead of a reply$"),
    "starts_a_thread": ("ok", "^$"),
    "computes_late": ("ok", "^$"),
    "endless_phase": ("error", "^its reply's phase `assign` is no number of seconds$"),
    "negative_phase": ("error", "^its reply's phase `assign` is no number of seconds$"),
    "endless_context": ("error", "its reply's `context_s` is no number of seconds$"),
}


def described():
    """What the Python programs say about their variants, by name."""
    found = {}
    for program in PROGRAMS:
        done = subprocess.run([sys.executable, "-B", program], capture_output=True, text=True,
                              input='{"request": "describe"}\n', timeout=60)
        found |= {variant["name"]: variant for variant in json.loads(done.stdout)["variants"]}
    return found


class Peers(Program):
    def setUp(self):
        super().setUp()
        self.environment.pop("CLUSTERBENCH_PEERS", None)

    def listed(self):
        return {variant["name"]: variant for variant in
                json.loads(self.run_program("list", "--json").stdout)["variants"]}

    def check_all(self, device):
        """Every program for such a device qualifies on all awkward problems and is right."""
        listed = [variant for variant in self.listed().values()
                  if variant["backend"] == "python" and variant["device"] == device]
        names = {variant["name"]: variant["family"] for variant in listed
                 if not variant["unavailable"]}
        if not names:
            self.skipTest("; ".join(f"{variant['name']}: {variant['unavailable']}"
                                    for variant in listed))
        schema = json.loads((SOURCE / "results" / "schema.json").read_text())
        descriptions = described()
        for family in sorted(set(names.values())):
            variants = [word for name in names if names[name] == family
                        for word in ("--variant", name)]
            rows = self.campaign("--data", "uniform:3000,5,1", "--k", 4, "--iterations", 6,
                                 "--family", family, "--precision", "f32", "--precision", "f64",
                                 *variants, out=family)
            for row in rows:
                with self.subTest(row["variant"], precision=row["precision"]):
                    if row["message"] == "the variant has no f64 form":
                        continue
                    if row["status"] == "unavailable":
                        self.skipTest(row["message"])  # the modules are here, what they need is not
                    self.assertEqual((row["status"], row["message"]), ("ok", ""))
                    jsonschema.validate(row, schema)
                    self.assertEqual(row["iterations"], 6)
                    self.assertIn("numpy", row["versions"])
                    self.assertGreater(row["peak_rss_bytes"], 10 << 20)
                    self.assertGreater(row["whole_ms"], 0)
                    self.assertEqual(row["recorded_passes"],
                                     6 if descriptions[row["variant"]]["records"] else 0)


class Descriptions(unittest.TestCase):
    def test_nothing_heavy_is_imported(self):
        """Every module that a program may need raises when it is imported."""
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            for module in ("numpy", "scipy", "sklearn", "faiss", "torch", "cuml", "cupy", "triton",
                           "flash_kmeans", "threadpoolctl"):
                (pathlib.Path(folder) / f"{module}.py").write_text("raise SystemExit('imported')")
            for program in PROGRAMS:
                done = subprocess.run([sys.executable, "-B", program], capture_output=True,
                                      text=True, input='{"request": "describe"}\n', timeout=60,
                                      env={**os.environ, "PYTHONPATH": folder})
                self.assertEqual(done.returncode, 0, done.stderr)
                reply = json.loads(done.stdout)
                self.assertEqual(reply["reply"], "describe")
                for variant in reply["variants"]:
                    self.assertTrue(variant["name"].startswith(program.stem))


class Listed(Peers):
    def test_all_are_listed(self):
        names = {name for name, variant in self.listed().items() if variant["backend"] == "python"}
        self.assertLessEqual({"kmeans_numpy", "kmeans_numpy_gemm", "kmeans_sklearn",
                              "kmeans_sklearn_elkan",
                              "kmeans_sklearn_minibatch", "kmeans_scipy", "kmeans_faiss", "fcm_numpy",
                              "kmeans_torch", "kmeans_torch_tf32", "kmeans_cuml", "kmeans_flash",
                              "kmeans_flash_f16"}, names)

    def test_registered_as_what_they_are(self):
        listed = self.listed()
        self.assertEqual(listed["kmeans_sklearn"]["labels"], "after update")
        self.assertTrue(listed["kmeans_faiss"]["reseeds_empty"])
        self.assertEqual(listed["kmeans_faiss"]["precisions"], ["f32"])
        self.assertEqual(listed["kmeans_flash"]["arithmetic"], "tf32")
        self.assertEqual(listed["kmeans_flash_f16"]["arithmetic"], "f16")
        self.assertEqual(listed["kmeans_torch"]["arithmetic"], "as data")
        descriptions = described().values()
        approximate = {variant["name"] for variant in descriptions
                       if variant["approximate_within"] > 0}
        narrow = {variant["name"] for variant in descriptions
                  if variant["arithmetic"] != "as data"}
        self.assertEqual(narrow, {"kmeans_flash", "kmeans_flash_f16", "kmeans_torch_tf32"})
        self.assertEqual(approximate - narrow, {"kmeans_sklearn_minibatch"})
        self.assertEqual({variant["name"] for variant in descriptions
                          if variant["gives_entering"]},
                         {"fcm_numpy", "kmeans_numpy", "kmeans_numpy_gemm", "kmeans_torch",
                          "kmeans_torch_tf32"})

    def test_what_is_missing_is_a_reason(self):
        """An interpreter of ours claims an ancient NumPy and nothing else; the machine's is tried
        after it."""
        python = self.folder / "python3"
        python.write_text("#!/bin/sh\necho '{\"version\": \"3.99.0\", \"modules\": "
                          "{\"numpy\": \"0.9.1\"}}'\n")
        python.chmod(0o755)
        self.environment["CLUSTERBENCH_PYTHON"] = str(python)
        listed = self.listed()
        for name, reason in (("kmeans_cuml", "no module cuml, no module cupy"),
                             ("kmeans_flash", "no module flash_kmeans, no module torch")):
            with self.subTest(name):
                if not listed[name]["unavailable"]:
                    self.skipTest("the machine's own Python has it")
                self.assertIn(f"{python} 3.99.0: {reason}", listed[name]["unavailable"])
                self.assertIn("/usr/bin/python3 3.", listed[name]["unavailable"])
        reason = listed["kmeans_numpy"]["unavailable"]
        if reason:  # the machine's own has none
            self.assertIn(f"{python} 3.99.0: numpy 0.9.1, at least 1.20 is needed", reason)

    def test_no_python_at_all(self):
        """What does not run is said, and the variants of this program go on."""
        self.environment["CLUSTERBENCH_PYTHON"] = "/nowhere/python"
        self.environment["PATH"] = "/nowhere"
        listed = self.listed()
        self.assertEqual(listed["kmeans_serial"]["unavailable"], "")
        reason = listed["kmeans_flash"]["unavailable"]
        if reason:
            self.assertTrue(reason.startswith("/nowhere/python: it does not run; python3: it does"))

    def test_why_a_python_does_not_run(self):
        (self.folder / "json.py").write_text("raise NameError('planted')\n")
        self.environment["PYTHONPATH"] = str(self.folder)
        listed = self.listed()
        self.assertEqual(listed["kmeans_serial"]["unavailable"], "")
        self.assertIn("it does not run: NameError: planted", listed["kmeans_numpy"]["unavailable"])

    def test_what_a_program_said_before_it_ended(self):
        peer = self.folder / "kmeans_own.sh"
        for text, said in (
                ("echo one >&2; echo 'two  ' >&2; exit 3", "exited with code 3: two"),
                ("printf 'no end' >&2; exit 3", "exited with code 3: no end"),
                ("exit 3", "exited with code 3"),
                ("echo two > /dev/stderr; kill -9 $$",
                 r"signal 9 \(Killed\) ended it before it gave a reply: two"),
                ("echo two >&2", "it gives no reply: two"),
                ("true", "it gives no reply"),
                ("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo; exit 3",
                 "exited with code 3: x{500}"),
                ("sleep 100 >/dev/null & echo two >&2; exit 3", "exited with code 3: two")):
            with self.subTest(text):
                peer.write_text(f"#!/bin/sh\n{text}\n")
                peer.chmod(0o755)
                done = self.run_program("list", "--peer", peer, exit_code=64)
                self.assertRegex(done.stderr, f"kmeans_own.sh: it does not describe itself: {said}\n$")
                self.assertEqual(self.left_running(), [])

    def test_a_program_may_say_much_before_it_describes_itself(self):
        peer = self.folder / "kmeans_own.sh"
        reply = '{"reply": "describe", "protocol": 2, "variants": []}'
        for text in ("head -c 3000000 /dev/zero >&2", "exec 2>&-", "yes >&2 & sleep 1"):
            with self.subTest(text):
                peer.write_text(f"#!/bin/sh\n{text}\necho '{reply}'\n")
                peer.chmod(0o755)
                self.run_program("list", "--peer", peer)
                self.assertEqual(self.left_running(), [])

    def test_a_row_of_what_is_missing(self):
        """No failure, but there is nothing else: exit code 6."""
        missing = [name for name, variant in self.listed().items()
                   if variant["backend"] == "python" and variant["unavailable"]]
        if not missing:
            self.skipTest("everything is here")
        (row,) = self.campaign(*PROBLEM, "--variant", missing[0], exit_code=6)
        self.assertEqual(row["status"], "unavailable")
        self.assertTrue(row["message"])


class Right(Peers):
    def test_all(self):
        self.check_all("cpu")

    def test_stopping_at_the_fixed_point_is_said(self):
        if self.listed()["kmeans_sklearn"]["unavailable"]:
            self.skipTest("no scikit-learn here")
        (row,) = self.campaign("--data", "uniform:60,2,1", "--k", 3, "--iterations", 200,
                               "--variant", "kmeans_sklearn")
        self.assertEqual(row["status"], "ok")
        self.assertTrue(row["early_stop"])
        self.assertLess(row["iterations"], 200)
        self.assertAlmostEqual(row["ms_per_iteration"], row["median_ms"] / row["iterations"])


class Faulty(Peers):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        runner = cls("run_program")
        runner.setUp()
        cls.addClassCleanup(runner.doCleanups)
        runner.environment["CLUSTERBENCH_PEERS"] = str(FAKE)
        for timeout in (30, 120):  # [s]: one hangs as long, and a slow machine needs more
            out = f"out{timeout}"
            runner.run_program(
                "run", *LARGE, "--precision", "f64", "--variant", "kmeans_fake*", "--samples", 5,
                "--budget", 0, "--no-probe", "--threads", 1, "--timeout", timeout, "--out", out,
                exit_code=2)
            cls.rows = {row["variant"]: row for row in ledger(runner.folder / out)[1]}
            if not too_late(cls.rows.values()):
                break
        cls.left = runner.left_running()

    def test_every_end_is_a_row(self):
        self.assertEqual(len(self.rows), len(FAULTS))
        for fault, (status, message) in FAULTS.items():
            row = self.rows["kmeans_fake" + (f"_{fault}" if fault else "")]
            with self.subTest(fault):
                self.assertRegex(row["status"], f"^({status})$", row["message"])
                self.assertRegex(row["message"], message)

    def test_what_was_printed_is_kept_apart(self):
        row = self.rows["kmeans_fake_prints_rubbish"]
        self.assertIn("planted", row.get("output_tail", "planted"))

    def test_who_lies_gains_nothing(self):
        row = self.rows["kmeans_fake_lies"]
        self.assertGreaterEqual(min(row["samples_ms"]), 50.0)
        self.assertGreaterEqual(row["clock"]["clock_off"], len(row["samples_ms"]))
        for fault in ("claims_nothing", "claims_a_nanosecond"):  # what the outside clock saw counts
            self.assertGreater(min(self.rows[f"kmeans_fake_{fault}"]["samples_ms"]), 1e-3, fault)

    def test_what_is_computed_after_a_run_belongs_to_it(self):
        row = self.rows["kmeans_fake_computes_late"]
        self.assertGreaterEqual(min(row["samples_ms"]), 400.0)
        self.assertGreaterEqual(min(whole["ms"] for whole in row["whole"]), 400.0)
        self.assertGreaterEqual(row["clock"]["answers_late"], len(row["samples_ms"]))

    def test_nobody_is_bound_who_starts_threads_later(self):
        if not pathlib.Path("/proc/self/schedstat").exists():
            self.skipTest("the kernel keeps no account of threads")
        row = self.rows["kmeans_fake_starts_a_thread"]
        self.assertNotIn("processors", row)
        bound = {len(other["processors"]) for other in self.rows.values() if "processors" in other}
        self.assertEqual(bound, {1})  # the others
        self.assertEqual(len(row["fixed_work_us"]), len(row["samples_ms"]))

    def test_nothing_is_left_running(self):
        self.assertEqual(self.left, [])


class Vanishing(Peers):
    def test_who_was_there_before_failed(self):
        """A library that is gone in a later round is no lack of the machine's."""
        program, gone = shutil.copy(FAKE, self.folder), self.folder / "gone"
        self.campaign_during(lambda _: gone.touch(), "--peer", program, *PROBLEM, "--precision",
                             "f64", "--variant", "kmeans_fake", "--rounds", 40, lines=2,
                             undo=gone.unlink)
        _, rows = ledger(self.folder / "out")
        self.assertEqual(rows[0]["status"], "ok", rows[0]["message"])
        self.assertEqual(rows[-1]["status"], "error")
        self.assertEqual(rows[-1]["message"],
                         "it could be loaded before, and now says: planted: gone")


class Added(Peers):
    def test_the_example_of_the_page(self):
        """The program in docs/peers.md, word for word, is right."""
        page = (SOURCE / "docs" / "peers.md").read_text()
        example = re.search(r"```perl\n(.*?)```", page, re.DOTALL).group(1)
        self.assertLessEqual(len(example.splitlines()), 40)
        if subprocess.run(["perl", "-MJSON::PP", "-e", "1"], capture_output=True).returncode != 0:
            self.skipTest("no Perl with JSON::PP here")
        program = self.folder / "kmeans_perl.pl"
        program.write_text(example)
        program.chmod(0o755)
        rows = self.campaign("--peer", program, *PROBLEM, "--precision", "f32", "--precision",
                             "f64", "--variant", "kmeans_perl", "--variant", "kmeans_serial")
        for row in rows:
            self.assertEqual((row["status"], row["message"]), ("ok", ""))
        self.assertEqual(len(rows), 4)

    def test_a_program_that_is_not_there(self):
        for command in (["list"], ["run", *PROBLEM]):
            done = self.run_program(*command, "--peer", "gone.pl", exit_code=64)
            self.assertIn("--peer gone.pl: there is no such file", done.stderr)
        self.assertFalse((self.folder / "results").exists())

    def test_a_program_that_cannot_be_asked(self):
        for name, text in (("gone", None), ("silent.sh", "#!/bin/sh\n"),
                           ("rubbish.sh",
                            "#!/bin/sh\nread line\necho '{\"reply\": \"describe\"}'\n"),
                           ("future.sh", "#!/bin/sh\nread line\necho '{\"reply\": \"describe\", "
                                         "\"protocol\": 99, \"variants\": []}'\n")):
            program = self.folder / name
            if text is not None:
                program.write_text(text)
                program.chmod(0o755)
            self.environment["CLUSTERBENCH_PEERS"] = str(program)
            done = self.run_program("list", exit_code=64)
            with self.subTest(name):
                self.assertIn(name, done.stderr)
                self.assertIn("descri" if name != "future.sh" else "protocol 99", done.stderr)


if __name__ == "__main__":
    unittest.main()
