"""What cannot be written is said, ends with exit code 74, and leaves nothing half-written behind."""

import os
import shutil
import subprocess
import time
import unittest

from program import BINARY, GOOD, PATIENCE, Program, QUICK, ledger, replaced


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
        (self.folder / "full.npy").symlink_to("/dev/full")
        self.cannot_write("uniform:9,2,1", "--out", "full.npy", command="data",
                          says=["/dev/full", "No space left"])
        self.cannot_write("uniform:9,2,1", "--out", "none/x.npy", command="data",
                          says=["none/x.npy"])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["full.npy"])

    def test_standard_output(self):
        self.campaign(*GOOD, out="done")
        for words in (["data", "uniform:9,2,1"], ["data", "--list"], ["list"], ["list", "--json"],
                      ["probe", "--quick", "--json", "--threads", "1"],
                      ["table", "article004", "--from", "done"], ["compare", "done", "done", "--json"],
                      ["explain", "kmeans_serial"], ["quality", "--from", "done"],
                      ["run", *map(str, GOOD), *QUICK, "--out", "out"], ["--help"], ["run", "--help"],
                      ["--version"]):
            with self.subTest(" ".join(words)), open("/dev/full", "wb") as full:
                done = subprocess.run([BINARY, *words], cwd=self.folder, env=self.environment,
                                      stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 74, done.stderr)
                self.assertIn(b"standard output cannot be written: No space left", done.stderr)
        self.assertEqual([row["status"] for row in ledger(self.folder / "out")[1]], ["ok"])

    def test_cache_that_cannot_be_written(self):
        (self.folder / "file").write_text("mine")
        self.environment["CLUSTERBENCH_CACHE"] = str(self.folder / "file")
        self.cannot_write("uniform:9,2,99", command="data", says=["file"])

    def test_ledger_on_a_full_device(self):
        (self.folder / "out").mkdir()
        (self.folder / "out" / "ledger.jsonl").symlink_to("/dev/full")
        self.cannot_write(*GOOD, *QUICK, "--out", "out", says=["ledger.jsonl"])

    def test_what_other_tools_read_on_a_full_device(self):
        """It can be made again of the ledger, so it costs neither the ledger nor the table."""
        (self.folder / "out").mkdir()
        (self.folder / "out" / "gbench.json").symlink_to("/dev/full")
        done = self.run_program("run", *GOOD, *QUICK, "--out", "out", exit_code=74)
        self.assertRegex(done.stderr, "out/gbench.json: cannot write .*: No space left.*; the ledger is whole")
        self.assertIn("kmeans_serial", done.stdout)
        self.assertIn("ledger: out/ledger.jsonl", done.stdout)
        self.assertEqual(len(ledger(self.folder / "out")[1]), 1)

    def test_saved_file_on_a_full_device(self):
        (self.folder / "saved").mkdir()
        (self.folder / "saved" / "kmeans_serial.labels.npy").symlink_to("/dev/full")
        self.cannot_write(*GOOD, *QUICK, "--out", "out", "--save", "saved",
                          says=["/dev/full", "No space left"])
        # What was measured stays measured, and the next time only the answer is missing.
        self.assertEqual([row["status"] for row in ledger(self.folder / "out")[1]], ["ok"])
        (self.folder / "saved" / "kmeans_serial.labels.npy").unlink()
        done = self.run_program("run", *GOOD, *QUICK, "--out", "out", "--save", "saved", "--resume")
        self.assertIn("ran 1 cells again", done.stderr)

    def start_slowly(self, iterations=200000):
        """A campaign into `out` that has written its header and is busy with its first cell."""
        slow = replaced("--data", "uniform:2000,2,1", "--variant", "kmeans_serial",
                        "--iterations", iterations)
        path = self.folder / "out" / "ledger.jsonl"
        for _ in range(5):
            process = self.start("run", *slow, *QUICK, "--out", "out")
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            while not path.exists() or not path.read_bytes().endswith(b"\n"):
                self.assertIsNone(process.poll())
                time.sleep(0.005)
            if path.read_bytes().count(b"\n") == 1:
                return process
            process.communicate()  # this test was given no processor until the row was there
            shutil.rmtree(path.parent)
        self.fail("its first row was always there already")

    def test_two_campaigns_in_one_folder(self):
        self.start_slowly()
        self.cannot_write(*GOOD, *QUICK, "--out", "out", says=["out", "another campaign"])

    def test_two_campaigns_in_one_ledger(self):
        """Also where the lock is gone, or another folder's link leads to the ledger."""
        self.start_slowly()
        path = self.folder / "out" / "ledger.jsonl"
        before = path.read_bytes()
        (self.folder / "out" / "lock").unlink()
        (self.folder / "other").mkdir()
        (self.folder / "other" / "ledger.jsonl").symlink_to("../out/ledger.jsonl")
        for out in ("out", "other"):
            self.cannot_write(*GOOD, *QUICK, "--out", out,
                              says=[f"{out}: another campaign is writing to this folder"])
        self.assertTrue(path.read_bytes().startswith(before))

    def test_a_ledger_that_goes_during_the_run(self):
        """It is said, and nothing is written to what took its place."""
        path = self.folder / "out" / "ledger.jsonl"

        def replace():
            (self.folder / "new").write_text("mine")
            os.replace(self.folder / "new", path)

        for harm, left in ((path.unlink, None), (replace, b"mine"),
                           (lambda: os.truncate(path, 10), 10), (lambda: os.truncate(path, 0), 0)):
            process = self.start_slowly(iterations=2000)  # seconds
            before = path.read_bytes()
            harm()
            errors = process.communicate(timeout=PATIENCE)[1].decode()
            self.assertEqual(process.returncode, 74, errors)
            self.assertIn("out/ledger.jsonl: it was replaced, removed or cut by another program "
                          "during the run; the rows so far", errors)
            self.assertEqual(self.left_running(), [])
            found = path.read_bytes() if path.exists() else None
            self.assertEqual(found, before[:left] if isinstance(left, int) else left)
            path.unlink(missing_ok=True)

    def test_limit_of_a_files_size(self):
        """Beyond it a write is an error and no signal: whole lines are left, and it goes on."""
        # Shared memory is a file as well: this variant refuses the qualification's large problems.
        cells = replaced("--variant", "kmeans_serial_points", "--rounds", 30)
        done = self.run_program("--fsize=50000:unlimited", BINARY, "run", *cells, *QUICK, "--out",
                                "out", program="prlimit", exit_code=74)
        self.assertIn("ledger.jsonl: File too large", done.stderr)
        _, before = ledger(self.folder / "out")
        self.assertGreater(len(before), 0)
        done = self.run_program("run", *cells, *QUICK, "--out", "out", "--resume")
        self.assertIn(f"re-used {len(before)} rows", done.stderr)
        self.run_program("--fsize=1000:unlimited", BINARY, "data", "uniform:999,2,1", "--out",
                         "copy.npy", program="prlimit", exit_code=74)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["out"])

    def test_a_reader_that_goes(self):
        """As `| head -1` does."""
        for words in (["list"], ["run", *map(str, GOOD), *QUICK, "--out", "out"]):
            with self.subTest(words[0]):
                reader, writer = os.pipe()
                os.close(reader)
                done = subprocess.run([BINARY, *words], cwd=self.folder, env=self.environment,
                                      stdin=subprocess.DEVNULL, stdout=writer,
                                      stderr=subprocess.PIPE)
                os.close(writer)
                self.assertEqual(done.returncode, 74, done.stderr)
                self.assertIn(b"standard output cannot be written", done.stderr)
        self.assertEqual([row["status"] for row in ledger(self.folder / "out")[1]], ["ok"])

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
