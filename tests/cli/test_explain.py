"""`clusterbench explain`: ideas, headers, sources and figures of two variants, from files alone."""

import pathlib
import shutil
import unittest

import ledgers
from program import BINARY, SOURCE, Program

PROBLEM = ["--data", "uniform:2000,2,1", "--k", 3, "--iterations", 3]
SOURCES = ["--source", SOURCE]


def header(path):
    lines = (SOURCE / path).read_text().splitlines()
    return [line[3:] for line in lines[:next(i for i, line in enumerate(lines)
                                            if not line.startswith("//"))]]


class Text(Program):
    def test_ideas_headers_and_difference(self):
        page = self.run_program("explain", "kmeans_serial_distances", "kmeans_serial",
                                *SOURCES).stdout
        self.assertIn("kmeans_serial_distances -> kmeans_serial", page)
        self.assertIn("kmeans_serial: assign and sum each point in one sweep", page)
        for name in ("kmeans_serial_distances", "kmeans_serial"):
            for line in header(f"impls/serial/{name}.cpp"):
                self.assertIn(line + "\n", page)
        self.assertIn("--- impls/serial/kmeans_serial_distances.cpp\n"
                      "+++ impls/serial/kmeans_serial.cpp\n@@", page)
        self.assertIn("\n+class KmeansSerial final : public Variant<T> {\n", page)
        self.assertIn("\n-class KmeansSerialDistances final : public Variant<T> {\n", page)
        self.assertNotIn("+// K-means in one sweep", page)  # the headers were shown already

    def test_one_name_means_its_previous_rung(self):
        two = self.run_program("explain", "kmeans_serial", "kmeans_openmp", *SOURCES).stdout
        self.assertEqual(self.run_program("explain", "kmeans_openmp", *SOURCES).stdout, two)

    def test_a_first_rung_has_none(self):
        done = self.run_program("explain", "fcm_serial", *SOURCES, exit_code=64)
        self.assertIn("fcm_serial improves on no other variant", done.stderr)

    def test_a_variant_that_is_not_built_is_read_from_its_file(self):
        page = self.run_program("explain", "kmeans_cuda_block_sums", *SOURCES).stdout
        self.assertIn("kmeans_cuda_soa -> kmeans_cuda_block_sums", page)
        self.assertIn(header("impls/cuda/published/kmeans_cuda_block_sums.cu")[0], page)

    def test_two_names_of_one_file(self):
        page = self.run_program("explain", "kmeans_sklearn", "kmeans_sklearn_elkan",
                                *SOURCES).stdout
        self.assertIn("Both are in impls/python/kmeans_sklearn.py.", page)

    def test_no_diff(self):
        page = self.run_program("explain", "kmeans_serial", "--no-diff", *SOURCES).stdout
        self.assertNotIn("@@", page)

    def test_markdown(self):
        page = self.run_program("explain", "kmeans_serial", "--markdown", *SOURCES).stdout
        self.assertTrue(page.startswith("## kmeans_serial_distances -> kmeans_serial\n"))
        self.assertIn("\n```diff\n--- impls/", page)
        self.assertEqual(page.count("```") % 2, 0)

    def test_without_a_source_tree(self):
        binary = self.folder / "clusterbench"  # nothing of ours is above a copy
        shutil.copy(BINARY, binary)
        (self.folder / "modules").symlink_to(pathlib.Path(BINARY).parent / "modules")
        page = self.run_program("explain", "kmeans_serial", program=binary).stdout
        self.assertIn("kmeans_serial: assign and sum each point in one sweep", page)
        self.assertIn("its source file was not found", page)
        self.assertNotIn("@@", page)

    def test_bad_input(self):
        for arguments, says in ((["kmeans_seril", *SOURCES], "did you mean kmeans_serial?"),
                                (["kmeans_cuda_bg_x", *SOURCES], "no variant kmeans_cuda_bg_x"),
                                (["kmeans_serial", "--source", self.folder], "--source"),
                                (["kmeans_serial", "--from", "nowhere", *SOURCES], "nowhere"),
                                ([], "variants")):
            done = self.run_program("explain", *arguments, exit_code=64)
            self.assertIn(says, done.stderr)


class Figures(Program):
    def page(self, *arguments, exit_code=0):
        done = self.run_program("explain", *arguments, "--no-diff", *SOURCES, exit_code=exit_code)
        return done.stdout + done.stderr

    def lines(self, *arguments):
        return {line[:line.index("  ", 5)].strip(): line.split()
                for line in self.page(*arguments).splitlines()
                if line.startswith("  ") and "  " in line[5:]}

    def made_up(self, before, after, *more, seed=7):
        """A ledger of kmeans_serial and kmeans_openmp with these samples."""
        return ledgers.write(self.folder / "out", [
            ledgers.header(seed=seed), ledgers.row("kmeans_serial", before),
            ledgers.row("kmeans_openmp", after), *more])

    def test_of_a_campaign(self):
        rows = self.campaign(*PROBLEM, "--variant", "kmeans_serial", "--variant", "kmeans_openmp",
                             "--rounds", 2)
        lines = self.lines("kmeans_openmp", "--from", "out")
        self.assertEqual(lines["iterations"], ["iterations", "3", "3"])
        self.assertRegex(" ".join(lines["ms per iteration"]), "faster|slower|no difference told")
        for phase in rows[0]["phases_ms"]:
            self.assertIn(f"phase {phase}, ms per iteration", lines)

    def test_windows_and_phases(self):
        self.made_up([20.0] * 9, [10.0] * 9)
        lines = self.lines("kmeans_openmp", "--from", "out")
        self.assertEqual(lines["ms per iteration"][3:5], ["2.00", "1.00"])
        self.assertIn("2.00 x faster [2.00, 2.00]", " ".join(lines["ms per iteration"]))
        self.assertEqual(lines["whole answer, ms"][3:], ["21.0", "11.0", "1.91", "x", "faster", "[1.91,", "1.91]"])
        self.assertEqual(lines["of it prepare, ms"][4:6], ["0.500", "0.500"])
        self.assertEqual(lines["phase assign, ms per iteration"][5:7], ["0.300", "0.300"])

    def test_phases_are_compared_where_both_have_the_same(self):
        """What one calls update the other may do in a phase that the first has not."""
        before = ledgers.row("kmeans_serial", [20.0] * 9, phases_ms={"assign and sum": 19.0, "update": 0.1})
        for phases, tells in (({"assign and sum": 5.0, "update": 4.0}, True), ({"assign": 5.0, "update": 4.0}, False)):
            with self.subTest(phases):
                after = ledgers.row("kmeans_openmp", [10.0] * 9, phases_ms=phases)
                ledgers.write(self.folder / "out", [ledgers.header(), before, after])
                update, = (line for line in self.page("kmeans_openmp", "--from", "out").splitlines()
                           if "phase update" in line)
                self.assertEqual("slower" in update, tells, update)

    def test_all_ledgers_below_a_folder_that_is_no_campaign(self):
        for name, variant, ms in (("one", "kmeans_serial", 20.0), ("two", "kmeans_openmp", 10.0)):
            ledgers.write(self.folder / "runs" / name, [ledgers.header(), ledgers.row(variant, [ms] * 9)])
        lines = self.lines("kmeans_openmp", "--from", "runs")
        self.assertEqual(lines["ms per iteration"][3:5], ["2.00", "1.00"])
        (self.folder / "runs" / "ledger.jsonl").write_bytes(
            (self.folder / "runs" / "one" / "ledger.jsonl").read_bytes())
        said = self.page("kmeans_openmp", "--from", "runs", exit_code=64)  # now it is one
        self.assertIn("no such cell has right answers of both", said)

    def test_phases_differ_by_more_than_their_passes_scatter(self):
        """Phases are figures of one run, with no interval of their own."""
        def rows(scatter):
            for variant, phase in (("kmeans_serial", 6.6), ("kmeans_openmp", 3.8)):
                yield ledgers.row(variant, [20.0, 20.0 + scatter, 20.0 - scatter] * 3,
                                  phases_ms={"update": phase})
        for scatter, says in ((3.0, "no difference told"), (0.3, "1.74 x faster")):
            ledgers.write(self.folder / "out", [ledgers.header(), *rows(scatter)])
            update, = (line for line in self.page("kmeans_openmp", "--from", "out").splitlines()
                       if "phase update" in line)
            self.assertTrue(update.endswith(says), update)

    def test_start_by_start(self):
        self.made_up([10.0, 2.0, 300.0, 4.0, 5.0], [20.0, 4.0, 600.0, 8.0, 10.0])
        page = self.page("kmeans_openmp", "--from", "out")
        self.assertEqual(page.count("2.000 x slower [2.000, 2.000]"), 2)  # a pass and a run
        self.assertIn("compared start by start", page)
        self.made_up([10.0, 2.0, 300.0, 4.0, 5.0], [20.0, 4.0, 600.0, 8.0, 10.0], seed=None)
        page = self.page("kmeans_openmp", "--from", "out")
        self.assertNotIn("2.000 x slower", page.split("whole answer")[0])
        self.assertNotIn("start by start", page)

    def test_cells_are_of_one_problem(self):
        def of_k(k, variant, ms):
            return ledgers.row(variant, [ms] * 9, words=ledgers.problem(k=k, hash=f"of {k}"))

        folder = ledgers.write(self.folder / "out", [
            ledgers.header(), of_k(4, "kmeans_serial", 20.0), of_k(16, "kmeans_serial", 80.0),
            of_k(16, "kmeans_openmp", 40.0)])
        page = self.page("kmeans_openmp", "--from", "out")
        self.assertEqual(page.count(" on Intel(R)"), 1)
        self.assertIn("2.00 x faster", page)
        lines = [ledgers.header(), of_k(4, "kmeans_serial", 20.0), of_k(4, "kmeans_openmp", 10.0),
                 of_k(16, "kmeans_serial", 80.0), of_k(16, "kmeans_openmp", 20.0)]
        ledgers.write(folder, lines)
        page = self.page("kmeans_openmp", "--from", "out")
        for cell, change in (("t/p/f32, k 4 on", "2.00 x faster"), ("t/p/f32, k 16 on", "4.00 x faster")):
            self.assertIn(cell, page)
            self.assertIn(change, page[page.index(cell):])

    def test_rounds_are_pooled(self):
        rounds = [ledgers.row(variant, [float(10 ** number)] * 3, round_number=number)
                  for variant in ("kmeans_serial", "kmeans_openmp") for number in (2, 3)]
        self.made_up([10.0] * 3, [10.0] * 3, *rounds)
        page = self.page("kmeans_openmp", "--from", "out")
        # Of three rounds no 95 % is said.
        self.assertIn("no difference told (0.010 .. 100)", page)
        self.assertIn("per iteration: no difference told on 1 of 1 cell\n", page)

    def test_a_newer_wrong_row_is_wrong(self):
        self.made_up([20.0] * 9, [10.0] * 9, ledgers.row("kmeans_openmp", status="wrong"))
        said = self.page("kmeans_openmp", "--from", "out", exit_code=64)
        self.assertIn("no such cell has right answers of both", said)

    def test_an_edited_ledger_is_told(self):
        path = self.made_up([20.0] * 9, [10.0] * 9) / "ledger.jsonl"
        path.write_text(path.read_text().replace("20.0,", "90.0,", 1))
        self.assertIn("out/ledger.jsonl: edited: line 2", self.page("kmeans_openmp", "--from", "out"))

    def test_cells_that_are_not_there(self):
        self.made_up([20.0] * 9, [10.0] * 9)
        for arguments in (["kmeans_serial", "kmeans_simd"],
                          ["kmeans_openmp", "--cell", "article999/*"]):
            said = self.page(*arguments, "--from", "out", exit_code=64)
            self.assertIn("no such cell has right answers of both", said)
        self.assertIn("--cell article999/*", said)


if __name__ == "__main__":
    unittest.main()
