"""`clusterbench explain`: ideas, headers, sources and figures of two rungs, from files alone."""

import json
import shutil
import unittest

from program import FAULTY, SOURCE, Program, ledger

H200 = SOURCE / "results" / "reference" / "nvidia-h200-2026-11-21"
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
        self.assertIn("fcm_serial is a first rung", done.stderr)

    def test_a_variant_that_is_not_built_is_read_from_its_file(self):
        page = self.run_program("explain", "kmeans_cuda_block_sums", *SOURCES).stdout
        self.assertIn("kmeans_cuda_soa -> kmeans_cuda_block_sums", page)
        self.assertIn(header("impls/cuda/kmeans_cuda_block_sums.cu")[0], page)

    def test_two_names_of_one_file(self):
        page = self.run_program("explain", "kmeans_cuda_bg", "kmeans_cuda_bg_device",
                                *SOURCES).stdout
        self.assertIn("Both are in impls/cuda/kmeans_cuda_bg.cu.", page)

    def test_no_diff(self):
        page = self.run_program("explain", "kmeans_serial", "--no-diff", *SOURCES).stdout
        self.assertNotIn("@@", page)

    def test_markdown(self):
        page = self.run_program("explain", "kmeans_serial", "--markdown", *SOURCES).stdout
        self.assertTrue(page.startswith("## kmeans_serial_distances -> kmeans_serial\n"))
        self.assertIn("\n```diff\n--- impls/", page)
        self.assertEqual(page.count("```") % 2, 0)

    def test_without_a_source_tree(self):
        binary = self.folder / "clusterbench_faulty"  # nothing of ours is above a copy
        shutil.copy(FAULTY, binary)
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
    def lines(self, *arguments):
        page = self.run_program("explain", *arguments, "--no-diff", *SOURCES).stdout
        return {line[:line.index("  ", 3)].strip(): line.split() for line in page.splitlines()
                if line.startswith("  ") and "  " in line[3:]}

    def test_of_a_campaign(self):
        rows = {row["variant"]: row for row in self.campaign(
            *PROBLEM, "--variant", "kmeans_serial", "--variant", "kmeans_openmp", "--rounds", 2)
            if row["round"] == 1}
        lines = self.lines("kmeans_openmp", "--from", "out")
        self.assertEqual(lines["iterations"], ["iterations", "3", "3"])
        self.assertRegex(lines["ms per iteration"][-1], "faster|slower")
        for phase in rows["kmeans_serial"]["phases_ms"]:
            self.assertIn(f"phase {phase}, ms per iteration", lines)

    def test_of_a_reference_run(self):
        _, rows = ledger(H200)
        wanted = {row["variant"]: row for row in rows if row["table"] == "article003"
                  and row["precision"] == "f32"}
        before, after = wanted["kmeans_cuda_soa"], wanted["kmeans_cuda_block_sums"]
        lines = self.lines("kmeans_cuda_soa", "kmeans_cuda_block_sums", "--from", H200,
                           "--cell", "article003/1M/f32")
        factor = before["ms_per_iteration"] / after["ms_per_iteration"]
        self.assertEqual(lines["ms per iteration"][3:],
                         [f"{before['ms_per_iteration']:.4g}", f"{after['ms_per_iteration']:.4g}",
                          f"{factor:.2f}", "x", "faster"])
        self.assertEqual(lines["phase sum, ms per iteration"][5:7],
                         [f"{row['phases_ms']['sum'] / row['recorded_passes']:.4g}"
                          for row in (before, after)])
        share = next(line for name, line in lines.items() if name.startswith("% of limit"))
        self.assertEqual(share[-1], f"{after['percent_of_limit']:.1f}")

    def test_rounds_are_pooled(self):
        self.campaign(*PROBLEM, "--variant", "kmeans_serial", "--variant", "kmeans_openmp",
                      "--rounds", 3)
        path = self.folder / "out" / "ledger.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["type"] == "cell":
                line["samples_ms"] = [float(10 ** line["round"])]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        line = self.lines("kmeans_openmp", "--from", "out")["ms [95 %] or (least .. greatest)"]
        self.assertIn("100 (10 .. 1000)", " ".join(line))  # of three rounds no 95 % is said

    def test_cells_that_are_not_there(self):
        done = self.run_program("explain", "kmeans_serial", "kmeans_openmp", "--from", H200,
                                *SOURCES, exit_code=64)
        self.assertIn("no such cell has right answers of both", done.stderr)
        done = self.run_program("explain", "kmeans_cuda_soa", "kmeans_cuda_block_sums", "--from",
                                H200, "--cell", "article999/*", *SOURCES, exit_code=64)
        self.assertIn("--cell article999/*", done.stderr)


if __name__ == "__main__":
    unittest.main()
