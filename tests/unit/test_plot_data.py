"""What the pictures show: the series that plots/ makes of small reports and tables."""

import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "plots"))

import articles  # noqa: E402
import bounds  # noqa: E402
import fastest  # noqa: E402
import gpu_map  # noqa: E402
import convergence  # noqa: E402
import performance  # noqa: E402
import phases  # noqa: E402
import model  # noqa: E402
import results  # noqa: E402
import scaling  # noqa: E402
import shape_panels  # noqa: E402
import shapes  # noqa: E402
import style  # noqa: E402
import threads  # noqa: E402
from pictures import Inputs, NothingToDraw  # noqa: E402

PROBE = {"threads": 2, "cpu_share": 1.0, "fma_f32_gflops": 400.0, "fma_f64_gflops": 200.0,
         "read_by_size": [{"bytes": 1000, "gbs": 100.0}, {"bytes": 100000, "gbs": 20.0}]}


MACHINE = {"id": "A", "name": "x", "ledgers": ["x"], "cpu": "Intel(R) Xeon(R) Processor",
           "limits": {"cpu": [PROBE], "gpu": None}}


def cell(variant="kmeans_serial", ms=2.0, problem="p", **changes):
    """A right cell as `clusterbench ledger --json` has it: runs of 10 passes, `ms` each."""
    sizes = {"n": 1000, "d": 2, "k": 4} | changes.pop("sizes", {})
    per_pass = ms / 10
    entry = {"name": f"article004/{problem}/{variant}/f32", "table": "article004",
             "variant": variant, "precision": "f32", "threads": 2, "device": "cpu",
             "machine": "A", "status": "ok", "shown_first": True, "trace": None,
             "median_ms": ms, "ms_per_iteration": per_pass, "by_round": {"1": per_pass},
             "own_start_ms": 2 * ms, "own_start_ms_per_iteration": 2 * per_pass,
             "limit_ms_per_iteration": 0.01, "limit": "FMA rate",
             "gb_per_second": 8 * sizes["n"] / per_pass * 1e-6,
             "gflop_per_second": 4 * sizes["n"] * sizes["k"] / per_pass * 1e-6,
             "phases_ms": {"assign": 3.0, "update": 1.0},
             "problem": {"id": problem, "family": "kmeans", **sizes}}
    return entry | changes


def failed(variant="kmeans_serial", status="wrong", **changes):
    return cell(variant, status=status, message="why", **changes)


def report(*cells, machine=None):
    return {"type": "ledgers", "schema": 2, "machines": [machine or MACHINE], "edited": [],
            "cells": list(cells)}


DEFINITION = {
    "name": "article004", "title": "a table",
    "problems": [{"id": "p", "data": "x", "k": 4, "max_iterations": 10}],
    "rows": [{"variant": "kmeans_serial", "precisions": ["f32", "f64"], "problems": ["p"]},
             {"variant": "kmeans_numpy", "precisions": ["f32"], "problems": ["p"]}],
}
PUBLISHED = {
    "baseline": "C++", "speedup_of": "run", "columns": [{"problem": "p", "column": "small"}],
    "rows": [{"label": "C++", "key": "seconds.cpp", "variant": "kmeans_serial", "precision": "f32"},
             {"label": "Python", "key": "seconds.numpy", "variant": "kmeans_numpy",
              "precision": "f32", "other_work": "ten restarts"}],
}
ARTICLE = {"columns": ["large", "small"], "seconds": {"cpp": [9.0, 0.5], "numpy": [9.0, 0.25]}}


def overlapping(figure):
    """Pairs of texts of a figure that lie over each other, as they would be drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer()))
             for text in figure.findobj(Text) if text.get_text() and text.get_visible()
             and not text.get_text().startswith("$")]  # powers of ten: those off the axis are not drawn
    return [(one, other) for i, (one, a) in enumerate(boxes) for other, b in boxes[i + 1:]
            if a.x0 < b.x1 - 1 and b.x0 < a.x1 - 1 and a.y0 < b.y1 - 1 and b.y0 < a.y1 - 1]


class WithReports(unittest.TestCase):
    def cells(self, *cells, machine=None):
        return results.campaigns_of(report(*cells, machine=machine)).cells

    def inputs(self, *cells, definition=DEFINITION, published=None, machine=None):
        return Inputs(results.campaigns_of(report(*cells, machine=machine)),
                      {definition["name"]: definition}, published or {})


class Reading(WithReports):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "measurements.json"

    def test_a_cell(self):
        found, = self.cells(cell())
        self.assertEqual((found.own_ms, found.own_ms_per_iteration, found.ms_per_iteration),
                         (4.0, 0.4, 0.2))
        self.assertEqual((found.machine, found.limit.name), ("Intel Xeon, 2 threads", "FMA rate"))
        self.assertEqual(found.by_round, {1: 0.2})

    def test_what_has_no_time_that_others_stand_beside(self):
        cells = self.cells(failed(), cell("kmeans_simd", approximate={"within": 0.1}),
                           cell("kmeans_openmp", unsandboxed=True))
        self.assertFalse(any(each.right for each in cells))
        self.assertEqual(results.excluded(cells),
                         ["kmeans_serial: wrong (p)", "kmeans_simd: approximate (p)",
                          "kmeans_openmp: unsandboxed (p)"])

    def test_of_several_threads_the_shown_one_or_all(self):
        campaigns = results.campaigns_of(report(cell(), cell(threads=1, shown_first=False)))
        self.assertEqual([each.threads for each in campaigns.of_table("article004")], [2])
        self.assertEqual([each.threads for each in campaigns.of_table("article004", True)], [2, 1])
        self.assertEqual(list(campaigns.probes), ["Intel Xeon, 2 threads"])

    def test_a_probe_of_a_busy_processor_is_none(self):
        busy = MACHINE | {"limits": {"cpu": [PROBE | {"cpu_share": 0.4}], "gpu": None}}
        self.assertEqual(results.campaigns_of(report(cell(), machine=busy)).probes, {})

    def test_a_gpu_is_named_by_its_probe_or_itself(self):
        gpu = MACHINE | {"gpu": "NVIDIA H200, NVIDIA H200"}
        self.assertEqual(self.cells(cell(device="gpu"), machine=gpu)[0].machine, "NVIDIA H200")
        probed = gpu | {"limits": {"cpu": [], "gpu": {"name": "H200"}}}
        self.assertEqual(self.cells(cell(device="gpu"), machine=probed)[0].machine, "H200")

    def complaint(self, content):
        self.path.write_bytes(content if isinstance(content, bytes)
                              else json.dumps(content).encode())
        with self.assertRaises(results.BadInput) as caught:
            results.read_campaigns(self.path)
        self.assertIn(str(self.path), str(caught.exception))
        return str(caught.exception)

    def test_bad_reports_are_named(self):
        self.path.write_text(json.dumps(report(cell())))
        self.assertEqual(len(results.read_campaigns(self.path).cells), 1)
        self.assertIn(":1:", self.complaint(b'{"type": '))
        self.assertIn("UTF-8", self.complaint(b"\xff\xfe\n"))
        self.assertIn("no report of `clusterbench ledger --json`", self.complaint({"type": "cell"}))
        newer = self.complaint(report(cell()) | {"schema": 7})
        self.assertIn("schema 7", newer)
        self.assertIn("reads 2", newer)
        lacking = cell()
        del lacking["variant"]
        self.assertIn("'variant'", self.complaint(report(lacking)))
        with self.assertRaises(results.BadInput):
            results.read_campaigns(self.path.parent / "none.json")


class Articles(WithReports):
    def table(self, *cells, definition=DEFINITION, article=None):
        return articles.table(definition, self.cells(*cells), article or {})

    def test_bars_here(self):
        data = self.table(cell(), failed(precision="f64"), cell("kmeans_unlisted"))
        self.assertEqual(data["unit"], "iteration")  # nothing is published to compare runs with
        (panel,) = data["panels"]
        self.assertEqual([each["variant"] for each in panel["rows"]], ["kmeans_serial"])
        self.assertEqual([(bar["precision"], bar["ms"], bar["status"])
                          for bar in panel["rows"][0]["bars"]],
                         [("f32", 0.2, "ok"), ("f64", None, "wrong")])

    def test_published_bars_come_first_and_ours_are_runs_then(self):
        data = self.table(cell(), definition=DEFINITION | {"published": PUBLISHED},
                          article=ARTICLE)
        self.assertEqual(data["unit"], "run")
        serial, numpy = data["panels"][0]["rows"]
        self.assertEqual([(bar["source"], bar["ms"]) for bar in serial["bars"]],
                         [("published", 500.0), ("here", 4.0), ("here", None)])
        self.assertEqual([(bar["ms"], bar.get("doubt"), bar.get("status"))
                          for bar in numpy["bars"]],
                         [(250.0, "other work", None), (None, None, "not run")])

    def test_verdict(self):
        definition = DEFINITION | {"published": PUBLISHED}
        claim = {"table": "article004", "problem": "p", "row": "seconds.numpy", "over": "seconds.cpp"}
        data = self.table(cell(ms=30.0), cell("kmeans_numpy", ms=2.0), definition=definition, article=ARTICLE)
        self.assertEqual(articles.verdict_of(claim, data, definition), {
            "verdict": "Printed: 2 times faster than C++ per run. The kernel gains 15 times over that C++ here."})
        wrong = PUBLISHED | {"rows": [PUBLISHED["rows"][0], PUBLISHED["rows"][1] | {"wrong": "why"}]}
        data = self.table(cell(ms=30.0), cell("kmeans_numpy", ms=2.0), definition=DEFINITION | {"published": wrong},
                          article=ARTICLE)
        self.assertIn("by a program that is wrong. A right one gains 15 times",
                      articles.verdict_of(claim, data, DEFINITION | {"published": wrong})["verdict"])
        self.assertEqual(articles.verdict_of(None, data, definition), {})
        self.assertEqual(articles.verdict_of(claim, self.table(cell(), definition=definition, article=ARTICLE),
                                             definition), {})  # the kernel was not run
        unprinted = {"table": "article004", "problem": "p", "variant": "kmeans_numpy", "precision": "f32",
                     "baseline_kind": "serial"}
        data = self.table(cell(ms=30.0), cell("kmeans_numpy", ms=2.0))
        self.assertIn("numpy is 15 times faster than the best plain C++",
                      articles.verdict_of(unprinted, data, DEFINITION)["verdict"])

    def test_a_quick_run_stands_beside_no_published_figure(self):
        fewer_rows = {"id": "p", "max_iterations": 50, "quick": {"take": 1000}}
        fewer_passes = {"id": "p", "max_iterations": 50, "quick": {"max_iterations": 8}}
        for problem, own in ((fewer_rows, cell()), (fewer_passes, cell(trace={"inertia": [1.0] * 8}))):
            data = self.table(own, definition=DEFINITION | {"published": PUBLISHED, "problems": [problem]},
                              article=ARTICLE)
            self.assertTrue(data["quick"])
            self.assertEqual({bar["source"] for row in data["panels"][0]["rows"] for bar in row["bars"]},
                             {"here"})
            drawn = articles.draw({"title": "t", **data})
            self.assertIn("QUICK RUN", "".join(text.get_text() for text in drawn.texts))
        full = self.table(cell(sizes={"n": 5000}, trace={"inertia": [1.0] * 50}),
                          definition=DEFINITION | {"published": PUBLISHED, "problems": [fewer_rows]}, article=ARTICLE)
        self.assertNotIn("quick", full)

    def test_published_times_of_an_iteration(self):
        block = PUBLISHED | {"speedup_of": "iteration", "columns": [{"problem": "p"}], "rows": [
            {"label": "a", "key": "milliseconds.a", "variant": "v", "precision": "f32",
             "passes": "inferred.passes.a"},
            {"label": "b", "key": "milliseconds.b", "variant": "v", "precision": "f32",
             "passes_of_trace": "traces.b"}]}
        article = {"milliseconds": {"a": 100, "b": 90}, "inferred": {"passes": {"a": 25}},
                   "traces": {"b": [3, 2, 1]}}
        bars = articles.printed_times(DEFINITION | {"published": block}, article)
        self.assertEqual([bar["ms"] for bar in bars], [4.0, 30.0])
        with self.assertRaisesRegex(results.BadInput, "milliseconds.b"):
            articles.printed_times(DEFINITION | {"published": block},
                                   article | {"milliseconds": {"a": 1}})

    def test_the_same_work_for_fewer_iterations_shares_a_panel(self):
        problems = [{"id": "few", "data": "x", "max_iterations": 5},
                    {"id": "many", "data": "x", "max_iterations": 50},
                    {"id": "other", "data": "y", "max_iterations": 5}]
        rows = [{"variant": "fcm_serial", "precisions": ["f32"], "problems": ["few", "other"]},
                {"variant": "fcm_cuda_cub", "precisions": ["f32"], "problems": ["many"]}]
        cells = [cell("fcm_serial", problem="few"), cell("fcm_cuda_cub", problem="many"),
                 cell("fcm_serial", problem="other")]
        definition = DEFINITION | {"problems": problems, "rows": rows}
        data = self.table(*cells, definition=definition)
        self.assertEqual([panel["problem"] for panel in data["panels"]],
                         ["few and many", "other"])
        rows[1]["problems"].append("few")
        data = self.table(*cells, cell("fcm_cuda_cub", problem="few"), definition=definition)
        self.assertEqual(len(data["panels"]), 3)

    def test_a_problem_without_a_time_of_ours_has_no_panel(self):
        definition = DEFINITION | {"problems": [*DEFINITION["problems"], {"id": "q"}]}
        self.assertEqual([panel["problem"] for panel in
                          self.table(cell(), failed(problem="q"), definition=definition)["panels"]], ["p"])

    def test_only_tables_with_a_verified_cell(self):
        with self.assertRaises(NothingToDraw):
            articles.pictures(self.inputs(failed()))
        self.assertEqual([picture.name for picture in
                          articles.pictures(self.inputs(cell()))], ["article004"])

    def test_committed_definitions_find_their_published_figures(self):
        published = results.read_published(SOURCE / "results/published.json")
        for name, definition in results.read_definitions(SOURCE / "results/tables").items():
            for bar in articles.printed_times(definition, published.get(name, {})):
                self.assertGreater(bar["ms"], 0.0)


class Scaling(WithReports):
    def line(self, problem, n, ms, variant="kmeans_cublas", **changes):
        return cell(variant, ms, problem, table="scaling", sizes={"n": n}, **changes)

    def test_lines_and_limits(self):
        definition = {"name": "scaling", "problems": [],
                      "rows": [{"variant": name, "precisions": ["f32"]}
                               for name in ("kmeans_cublas", "kmeans_serial")]}
        picture, = scaling.pictures(self.inputs(
            self.line("n=1e4", 10000, 50.0), self.line("n=1e3", 1000, 8.0),
            self.line("n=1e3", 1000, 4.0, "kmeans_serial"), self.line("k=4", 500, 1.0),
            failed("kmeans_serial", "refused", table="scaling", problem="n=1e4"),
            definition=definition))
        machine, = picture.data["machines"]
        panel = machine["panels"]["n"]
        self.assertEqual(list(panel["lines"].items()),
                         [("kmeans_cublas", [(1000, 0.8), (10000, 5.0)]),
                          ("kmeans_serial", [(1000, 0.4)])])
        self.assertEqual([size for size, _ in panel["limit"]], [1000, 10000])
        self.assertEqual(scaling.fastest(panel["lines"]), [(1000, 0.4), (10000, 5.0)])
        self.assertEqual(machine["panels"]["d"]["lines"], {})
        self.assertEqual(machine["fixed"]["n"], "d = 2, k = 4")
        self.assertEqual(picture.notes, ("kmeans_serial: refused (n=1e4)",))

    def test_nothing_without_cells(self):
        with self.assertRaisesRegex(NothingToDraw, "scaling"):
            scaling.pictures(self.inputs(cell()))


class Shapes(WithReports):
    def cell(self, variant, ms, d=2, k=4, n=1000, **changes):
        return cell(variant, ms, f"{n} x {d}, k={k}", table="cpu_map", sizes={"n": n, "d": d, "k": k}, **changes)

    def data(self, *cells):
        picture, = shapes.pictures(self.inputs(*cells))
        return picture.data["rows"]

    def test_the_best_of_ours_beside_the_best_other(self):
        row, = self.data(self.cell("kmeans_simd", 2.0), self.cell("kmeans_simd_int16", 1.0),
                         self.cell("kmeans_sklearn", 9.0), self.cell("kmeans_faiss", 5.0),
                         self.cell("kmeans_simd", 1.0, d=8), self.cell("kmeans_sklearn", 3.0, d=8),
                         self.cell("kmeans_faiss", 1.0, d=8, status="wrong", message="why"))
        self.assertEqual(row["precision"], "float32")
        panel, = row["panels"]
        self.assertEqual(panel["n"], 1000)
        self.assertEqual([(shape["d"], shape["k"], shape["beside"], round(shape["times"], 9))
                          for shape in panel["shapes"]], [(2, 4, "F", 5.0), (8, 4, "S", 3.0)])

    def test_who_is_no_library_is_not_beside(self):
        with self.assertRaises(NothingToDraw):
            self.data(self.cell("kmeans_simd", 1.0), self.cell("kmeans_openmp", 2.0))

    def test_a_row_for_each_precision_and_no_texts_over_each_other(self):
        cells = [self.cell(variant, ms, d, k, n, precision=precision)
                 for variant, ms in (("kmeans_simd", 1.0), ("kmeans_sklearn", 140.0))
                 for d in (1, 2048) for k in (2, 4096) for n in (2000, 2000000) for precision in ("f32", "f64")]
        picture, = shapes.pictures(self.inputs(*cells))
        self.assertEqual([row["precision"] for row in picture.data["rows"]], ["float32", "float64"])
        if not style.have_matplotlib():
            self.assertEqual(overlapping(picture.draw(picture.data)), [])

    def test_two_digits(self):
        self.assertEqual([shape_panels.two_digits(times) for times in (1.94, 9.96, 13.4, 146.0)],
                         ["1.9", "10", "13", "150"])


class GpuMap(WithReports):
    def cell(self, variant="kmeans_cuda_auto", per_pass=0.02, limit=0.01, d=2, k=4, n=1000, **changes):
        return cell(variant, 10 * per_pass, f"{n} x {d}, k={k}", table="gpu_map", sizes={"n": n, "d": d, "k": k},
                    limit_ms_per_iteration=limit, device="gpu", **changes)

    def data(self, *cells):
        picture, = gpu_map.pictures(self.inputs(*cells))
        return picture.data["rows"]

    def test_the_share_of_the_bound_and_the_fastest_other(self):
        row, = self.data(self.cell(), self.cell("kmeans_torch_tf32", 0.3, approximate={"within": 0.1}),
                         self.cell("kmeans_flash", 0.06, approximate={"within": 0.1}),
                         self.cell(d=8, per_pass=0.2))
        panel, = row["panels"]
        first, second = panel["shapes"]
        self.assertAlmostEqual(first["percent"], 50.0)
        self.assertAlmostEqual(first["times"], 3.0)
        self.assertEqual(first["beside"], "F")
        self.assertAlmostEqual(second["percent"], 5.0)
        self.assertNotIn("times", second)

    def test_what_is_far_from_its_bound_is_marked(self):
        for per_pass, far in ((0.0599, False), (0.0601, True)):
            row, = self.data(self.cell(per_pass=per_pass))
            self.assertEqual(row["panels"][0]["shapes"][0]["far"], far, per_pass)

    def test_a_cell_without_a_bound_is_left_out(self):
        with self.assertRaises(NothingToDraw):
            self.data(self.cell(limit=None))

    def test_a_row_for_each_precision_and_no_texts_over_each_other(self):
        cells = [self.cell(variant, ms, 0.001, d, k, n, precision=precision, **more)
                 for variant, ms, more in (("kmeans_cuda_auto", 0.1, {}),
                                           ("kmeans_torch_tf32", 14.0, {"approximate": {"within": 0.1}}))
                 for d in (1, 2048) for k in (2, 4096) for n in (2000, 2000000) for precision in ("f32", "f64")]
        picture, = gpu_map.pictures(self.inputs(*cells))
        self.assertEqual([row["precision"] for row in picture.data["rows"]], ["float32", "float64"])
        if not style.have_matplotlib():
            self.assertEqual(overlapping(picture.draw(picture.data)), [])


class Threads(WithReports):
    def test_speed_ups(self):
        cells = self.cells(cell(table="threads", threads=1, ms=8.0),
                           cell(table="threads", threads=2, ms=5.0),
                           cell("kmeans_openmp", table="threads", threads=2))
        panel, = threads.panels(cells, {"rows": [], "problems": []})
        self.assertEqual(panel["lines"], {"kmeans_serial": [[1, 0.8, 1.0], [2, 0.5, 1.6]]})
        self.assertEqual(panel["machine"], "Intel Xeon")

    def test_ratios_are_taken_within_a_round(self):
        one = results.Cell("threads", "p", "v", "f32", 1, "cpu", "kmeans", "ok",
                           by_round={1: 10.0, 2: 40.0, 3: 12.0})
        two = results.Cell("threads", "p", "v", "f32", 2, "cpu", "kmeans", "ok",
                           by_round={1: 5.0, 2: 25.0, 4: 1.0})
        self.assertEqual(threads.speed_up(one, two), (2.0 + 1.6) / 2)
        self.assertIsNone(threads.speed_up(two, results.Cell(
            "threads", "p", "v", "f32", 4, "cpu", "kmeans", "ok", by_round={9: 1.0})))

    def test_nothing_with_one_number_of_threads(self):
        with self.assertRaises(NothingToDraw):
            threads.pictures(self.inputs(cell(table="threads", threads=1)))


class Phases(WithReports):
    def test_shares(self):
        cells = self.cells(cell(phases_ms={"update": 1.0, "distances": 2.0, "odd": 1.0}),
                           failed("kmeans_numpy"), cell(precision="f64"))
        data = phases.panels(cells, DEFINITION)
        self.assertEqual(data["variants"], ["kmeans_serial"])
        self.assertEqual(data["panels"], [{"problem": "p", "bars": [
            {"ms_per_iteration": 0.2,
             "shares": [["distances", 0.5], ["update", 0.25], ["odd", 0.25]]}]}])
        self.assertEqual(phases.kind_of("odd"), "other")


class Bounds(WithReports):
    def test_best_of_each_problem_first(self):
        picture, = bounds.pictures(self.inputs(
            cell(ms=2.0), cell("kmeans_openmp", ms=1.0), cell("kmeans_openmp", precision="f64", ms=0.1),
            cell(problem="longer", ms=4.0), cell(problem="q", sizes={"k": 8}), failed("kmeans_simd")))
        machine, = picture.data["machines"]
        self.assertEqual(machine["name"], "Intel Xeon, 2 threads")
        one, other = machine["rows"]  # a problem that differs in its iterations alone is the same
        self.assertEqual([(name, round(ratio, 6)) for name, ratio in one["times"]],
                         [("kmeans_openmp", 10.0), ("kmeans_serial", 20.0)])
        self.assertEqual((other["k"], other["times"]), (8, [("kmeans_serial", 20.0)]))
        self.assertEqual(bounds.title_of(one), "004: 1,000 × 2, k = 4")
        self.assertEqual([bounds.times_text(value) for value in (1.23, 26.4, 17321.0)], ["1.2", "26", "17,000"])

    def test_labels_do_not_overlap(self):
        picture, = bounds.pictures(self.inputs(
            *(cell(f"kmeans_serial_{i}", ms=2.0 + i, problem=f"p{k}", sizes={"k": k}) for i in range(9)
              for k in (4, 8, 16))))
        figure = picture.draw(picture.data)
        self.assertEqual(overlapping(figure), [])

    def test_nothing_without_a_bound(self):
        without = cell()
        del without["limit_ms_per_iteration"]
        with self.assertRaises(NothingToDraw):
            bounds.pictures(self.inputs(without))


class Fastest(WithReports):
    def test_the_best_of_each_kind_on_the_largest_problem(self):
        picture, = fastest.pictures(self.inputs(
            cell(ms=2.0), cell("kmeans_serial_points", ms=1.0), cell("kmeans_serial", problem="q", sizes={"n": 10}, ms=0.1),
            cell("kmeans_openmp", ms=0.7), cell("kmeans_simd", ms=0.5), cell("kmeans_simd", precision="f64", ms=0.2),
            cell("kmeans_sklearn", ms=3.0), failed("kmeans_eigen_gemm")))
        group, = picture.data["groups"]
        self.assertEqual([(row["kind"], row["variant"], row["ms"]) for row in group["rows"]],
                         [("plain C++, one thread", "kmeans_serial_points", 0.1),
                          ("Python library, CPU", "kmeans_sklearn", 0.3),
                          ("C++, all cores", "kmeans_simd", 0.05)])
        self.assertEqual(picture.data["machines"], ["Intel Xeon, 2 threads"])
        self.assertEqual([fastest.time_text(ms) for ms in (0.00247, 0.154, 75.3, 132.0)],
                         ["0.0025", "0.15", "75", "130"])
        self.assertEqual(overlapping(picture.draw(picture.data)), [])

    def test_one_kind_is_no_comparison(self):
        with self.assertRaises(NothingToDraw):
            fastest.pictures(self.inputs(cell(), failed("kmeans_simd")))


class Performance(WithReports):
    def cell(self, variant, problem, ms, inertia, status="ok"):
        return results.Cell("scaling", problem, variant, "f32", 2, "cpu", "kmeans", status,
                            own_ms_per_iteration=ms, inertia=tuple(inertia), machine="m")

    def test_profiles(self):
        cells = [self.cell("a", "p", 1.0, [200, 101, 100]), self.cell("b", "p", 4.0, [200, 100]),
                 self.cell("a", "q", 1.0, [50, 40]), self.cell("b", "q", 9.0, (), "refused")]
        best = performance.best_inertia(cells)
        self.assertEqual(best, {"p": 100, "q": 40})
        self.assertEqual(performance.time_to(cells[0], 100.0), 3.0)
        self.assertEqual(performance.time_to(cells[0], 101.0), 2.0)
        self.assertIsNone(performance.time_to(cells[0], 99.0))
        self.assertIsNone(performance.time_to(cells[3], 99.0))
        self.assertEqual(performance.profile(cells, best, 0.01),
                         {"within": 0.01, "problems": 2,
                          "lines": {"a": [[1.0, 0.5], [1.0, 1.0]], "b": [[4.0, 0.5]]}})
        self.assertEqual(performance.profile(cells, best, 0.001)["lines"]["b"], [[8.0 / 3.0, 0.5]])

    def test_profiles_of_a_quality_report(self):
        report = {"machines": [{"name": "m"}], "solvers": [{"variant": "a"}, {"variant": "b"}],
                  "profiles": [
                      {"measure": "one_start", "within": 0.01, "instances": 4, "lines": [
                          {"solver": 0, "ratios": [1.0, 2.0]}, {"solver": 1, "ratios": []}]},
                      {"measure": "restarts", "within": 0.01, "instances": 1, "lines": []}]}
        self.assertEqual(performance.from_report(report), {"name": "m", "profiles": [
            {"within": 0.01, "problems": 4, "lines": {"a": [[1.0, 0.25], [2.0, 0.5]]}}]})

    def test_not_drawn_where_hardly_anything_is_reached(self):
        def machine(share):
            return {"name": "m", "profiles": [{"within": 0.01, "problems": 4, "lines": {"a": [[1.0, share]]}}]}
        self.assertEqual(performance.picture_of([machine(0.5), machine(0.25)]).data, {"machines": [machine(0.5)]})
        with self.assertRaisesRegex(NothingToDraw, "half of the instances"):
            performance.picture_of([machine(0.25)])

    def test_nothing_with_one_variant(self):
        with self.assertRaises(NothingToDraw):
            performance.pictures(self.inputs(cell(table="scaling", trace={
                "loss": [1.0], "inertia": [1.0]})))


class Model(WithReports):
    MODEL = {"gpus_per_node": 8,
             "workloads": [{"title": title, "points": [[1, 1.0], [2, 0.9], [1024, 0.1]]} for title in "abcd"],
             "compared": [{"variant": variant, "problem": "1M×9, k = 16", "parts": 2, "of": "GPUs",
                           "predicted_efficiency": 0.8, "efficiency": share}
                          for variant, share in (("kmeans_nccl", 0.75), ("fcm_nccl", None), ("kmeans_mpi", 1.02))]}

    def test_is_what_the_model_says(self):
        picture, = model.pictures(dataclasses.replace(self.inputs(cell()), model=self.MODEL))
        self.assertEqual((picture.name, picture.data), ("scaling-model", self.MODEL))

    def test_drawn_without_texts_over_each_other(self):
        figure = model.draw(self.MODEL)
        self.assertEqual(overlapping(figure), [])
        measured = figure.axes[1]
        self.assertEqual([label.get_text() for label in measured.get_yticklabels()],
                         ["nccl, 2 GPUs\n1M×9, k = 16", "mpi, 2 GPUs\n1M×9, k = 16"])  # fcm_nccl ran on no single one

    def test_nothing_without_the_model(self):
        with self.assertRaisesRegex(NothingToDraw, "scaling_model.py --json"):
            model.pictures(self.inputs(cell()))


class Convergence(WithReports):
    TRACE = {"loss": [4.0, 2.0, 1.0], "inertia": [8.0, 4.0, 2.0]}
    ARTICLE = {"workload": {"n": 1000}, "loss_trace": {"cpp": [4.0, 2.5]},
               "inertia_trace": {"scikit-learn": [8.0]}}

    def picture(self, article):
        picture, = convergence.pictures(self.inputs(
            cell(table="article000", trace=self.TRACE),
            failed("kmeans_openmp", table="article000"), published={"article000": article}))
        return picture.data

    def test_traces(self):
        data = self.picture(self.ARTICLE)
        self.assertEqual(data["loss"]["published"], {"cpp": [4.0, 2.5]})
        self.assertEqual([(each["variant"], each["values"]) for each in data["inertia"]["here"]],
                         [("kmeans_serial", [8.0, 4.0, 2.0])])
        self.assertEqual(convergence.difference([4.0, 2.0, 1.0], [4.0, 2.5]), [0.0, 0.2])
        self.assertEqual(convergence.excess([4.0, 2.0], 2.0), [1.0, 0.0])

    def test_other_data_are_not_compared(self):
        data = self.picture(self.ARTICLE | {"workload": {"n": 1000000}})
        self.assertEqual(data["loss"]["published"], {})

    def test_nothing_without_traces(self):
        with self.assertRaises(NothingToDraw):
            convergence.pictures(self.inputs(cell(table="article000")))


class Style(unittest.TestCase):
    def test_every_family_has_a_colour_of_its_own(self):
        self.assertEqual(len(set(style.FAMILIES.values())), len(style.FAMILIES))
        self.assertEqual(style.family_of("fcm_eigen"), "eigen")
        self.assertEqual(style.family_of("kmeans_cuda_atomic"), "cuda")
        self.assertEqual(style.family_of("kmeans_cuda_mma"), "tensor")
        self.assertEqual(style.family_of("kmeans_thrust_atomic"), "thrust")
        self.assertEqual(style.family_of("kmeans_sklearn_elkan"), "python")
        self.assertEqual(style.family_of("kmeans_strange"), "other")

    def test_marks_differ_within_a_family(self):
        names = [f"kmeans_cuda_{letter}" for letter in "abcdefghijkl"]
        drawn = {json.dumps(mark) for mark in style.marks_of(names).values()}
        self.assertEqual(len(drawn), len(names))

    def test_the_digest_follows_the_data_alone(self):
        data = {"a": [1.0, 2.0], "b": (1, "x")}
        self.assertEqual(style.digest(data), style.digest({"b": [1, "x"], "a": [1.0 + 1e-14, 2.0]}))
        self.assertNotEqual(style.digest(data), style.digest(data | {"a": [1.0, 2.001]}))

    def test_tint(self):
        self.assertEqual(style.tint("#000000", 0.5), "#808080")
        self.assertEqual(style.tint("#FFFFFF", 0.5), "#FFFFFF")


if __name__ == "__main__":
    unittest.main()
