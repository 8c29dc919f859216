"""What the pictures show: the series that plots/ makes of small ledgers and tables."""

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
import convergence  # noqa: E402
import limits  # noqa: E402
import performance  # noqa: E402
import phases  # noqa: E402
import results  # noqa: E402
import roofline  # noqa: E402
import scaling  # noqa: E402
import style  # noqa: E402
import threads  # noqa: E402
from pictures import Inputs, NothingToDraw  # noqa: E402

PROBE = {"threads": 2, "cpu_share": 1.0, "fma_f32_gflops": 400.0, "fma_f64_gflops": 200.0,
         "read_by_size": [{"bytes": 1000, "gbs": 100.0}, {"bytes": 100000, "gbs": 20.0}]}


def header(threads_=2, **changes):
    line = {"type": "header", "schema": 1, "threads": threads_,
            "limits": {"cpu": [dict(PROBE, threads=threads_)], "gpu": None},
            "provenance": {"cpu": {"model": "Intel(R) Xeon(R) Processor"}, "gpu": {"devices": []}}}
    return line | changes


def row(variant="kmeans_serial", samples=(3.0, 1.0, 2.0), problem="p", **changes):
    sizes = {"n": 1000, "d": 2, "k": 4} | changes.pop("sizes", {})
    line = {"type": "cell", "schema": 1, "table": "article004", "variant": variant,
            "precision": "f32", "threads": 2, "device": "cpu", "round": 1, "status": "ok",
            "iterations": 10, "samples_ms": list(samples),
            "phases_ms": {"assign": 3.0, "update": 1.0},
            "problem": {"id": problem, "family": "kmeans", **sizes}}
    return line | changes


def failed(variant="kmeans_serial", status="wrong", **changes):
    line = row(variant, status=status, message="why", **changes)
    for name in ("samples_ms", "phases_ms", "iterations"):
        del line[name]
    return line


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


class WithLedgers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ledger(self, *lines, name="ledger.jsonl"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def cells(self, *lines, **options):
        return results.read_campaigns([self.ledger(*lines)], **options).cells

    def inputs(self, *lines, definition=DEFINITION, published=None):
        path = self.ledger(*lines)
        return Inputs(results.read_campaigns([path]), results.read_campaigns([path], True),
                      {definition["name"]: definition}, published or {})


class Reading(WithLedgers):
    def test_a_cell_is_the_median_of_its_rounds_medians(self):
        cell, = self.cells(header(), row(samples=(3.0, 1.0, 2.0)),
                           row(samples=(50.0, 50.0), round=2), row(samples=(4.0,), round=3))
        self.assertEqual((cell.ms, cell.ms_per_iteration, cell.rounds), (4.0, 0.4, 3))
        self.assertEqual(cell.machine, "Intel Xeon, 2 threads")

    def test_a_round_that_failed_speaks_for_the_cell(self):
        cell, = self.cells(header(), row(), failed(round=2), row(round=3))
        self.assertFalse(cell.right)
        self.assertEqual(results.excluded([cell]), ["kmeans_serial: wrong (p)"])

    def test_later_lines_override_and_unavailable_ones_do_not(self):
        cells = self.cells(header(), row(samples=(1.0,)), row(samples=(2.0,)),
                           failed(status="unavailable"), failed("kmeans_cublas", "unavailable"))
        self.assertEqual([(cell.variant, cell.status, cell.ms) for cell in cells],
                         [("kmeans_serial", "ok", 2.0), ("kmeans_cublas", "unavailable", 0.0)])

    def test_numbers_of_threads_are_kept_apart_where_asked(self):
        lines = (header(), row(), row(threads=1, samples=(8.0,)))
        self.assertEqual([cell.ms for cell in self.cells(*lines)], [8.0])
        self.assertEqual([cell.ms for cell in self.cells(*lines, by_threads=True)], [2.0, 8.0])

    def test_a_folder_is_all_its_ledgers(self):
        self.ledger(header(), row(samples=(1.0,)), name="a/ledger.jsonl")
        self.ledger(header(), row("kmeans_openmp"), name="b/ledger.jsonl")
        campaigns = results.read_campaigns([self.folder])
        self.assertEqual([cell.variant for cell in campaigns.cells],
                         ["kmeans_serial", "kmeans_openmp"])
        self.assertEqual(list(campaigns.probes), ["Intel Xeon, 2 threads"])

    def test_a_probe_of_a_busy_processor_is_no_limit(self):
        busy = header(limits={"cpu": [PROBE | {"cpu_share": 0.4}], "gpu": None})
        self.assertIsNone(self.cells(busy, row())[0].limit)
        self.assertIsNotNone(self.cells(header(), row())[0].limit)

    def complaint(self, text):
        path = self.folder / "ledger.jsonl"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with self.assertRaises(results.BadInput) as caught:
            results.read_campaigns([path])
        self.assertIn(str(path), str(caught.exception))
        return str(caught.exception)

    def test_bad_ledgers_are_named_with_their_line(self):
        good = json.dumps(header()) + "\n"
        self.assertIn(":2:", self.complaint(good + '{"type": "cell", \n'))
        self.assertIn(":2:", self.complaint(good + "[1]\n"))
        self.assertIn(":1:", self.complaint(json.dumps(row())))
        self.assertIn(":1:", self.complaint(b"\xff\xfe\n"))
        self.assertIn("UTF-8", self.complaint(b"\xff\xfe\n"))
        newer = self.complaint(json.dumps(header(schema=7)))
        self.assertIn("schema 7", newer)
        self.assertIn("reads 1", newer)
        lacking = row()
        del lacking["variant"]
        self.assertIn("'variant'", self.complaint(good + json.dumps(lacking)))
        with self.assertRaises(results.BadInput):
            results.read_campaigns([self.folder / "none.jsonl"])
        lacking = row()
        del lacking["samples_ms"]
        with self.assertRaisesRegex(results.BadInput, "samples_ms"):
            self.cells(header(), lacking)


    def test_a_torn_last_line_is_left_out(self):
        path = self.ledger(header(), row())
        whole = path.read_bytes()
        last = json.dumps(row("kmeans_openmp", message="größer"), ensure_ascii=False).encode()
        for length in range(1, len(last)):
            path.write_bytes(whole + last[:length])
            cell, = results.read_campaigns([path]).cells
            self.assertEqual(cell.variant, "kmeans_serial")
        path.write_bytes(whole + last)  # whole but for its end
        self.assertEqual(len(results.read_campaigns([path]).cells), 2)

    def test_only_a_lines_end_ends_a_line(self):
        line = json.dumps(row(message="a\u2028b"), ensure_ascii=False)
        (self.folder / "ledger.jsonl").write_text(f"{json.dumps(header())}\n{line}\n")
        self.assertEqual(len(results.read_campaigns([self.folder / "ledger.jsonl"]).cells), 1)


class Limits(unittest.TestCase):
    def test_minimal_work(self):
        self.assertEqual(limits.intensity("kmeans", "f32", 8), 4.0)
        self.assertEqual(limits.intensity("kmeans", "f64", 8), 2.0)
        self.assertEqual(limits.intensity("fcm", "f32", 8), 8.0)

    def test_bandwidth_between_measured_sizes(self):
        self.assertEqual(limits.read_bandwidth(PROBE, 1), 100.0)
        self.assertAlmostEqual(limits.read_bandwidth(PROBE, 10000), 60.0)
        self.assertEqual(limits.read_bandwidth(PROBE, 1e9), 20.0)

    def test_the_harness_found_the_same_limits(self):
        checked = 0
        for path in (SOURCE / "results/reference").rglob("ledger.jsonl"):
            head = None
            for _, line in results.read_lines(path):
                if line["type"] == "header":
                    head = line
                elif line["status"] == "ok" and "limit_ms_per_iteration" in line:
                    problem = line["problem"]
                    limit = limits.limit_per_iteration(
                        results.probe_of(head, line["device"], line["threads"]),
                        problem["family"], line["precision"], problem["n"], problem["d"],
                        problem["k"], line.get("multiplier", "fma"))
                    self.assertAlmostEqual(limit.ms / line["limit_ms_per_iteration"], 1.0, 9)
                    self.assertEqual(limit.name, line["limit"])
                    checked += 1
        self.assertGreater(checked, 100)


class Articles(WithLedgers):
    def table(self, *lines, definition=DEFINITION, article=None):
        return articles.table(definition, self.cells(*lines), article or {})

    def test_bars_here(self):
        data = self.table(header(), row(), failed(precision="f64"), row("kmeans_unlisted"))
        self.assertEqual(data["unit"], "iteration")  # nothing is published to compare runs with
        (panel,) = data["panels"]
        self.assertEqual([each["variant"] for each in panel["rows"]], ["kmeans_serial"])
        self.assertEqual([(bar["precision"], bar["ms"], bar["status"])
                          for bar in panel["rows"][0]["bars"]],
                         [("f32", 0.2, "ok"), ("f64", None, "wrong")])

    def test_published_bars_come_first_and_ours_are_runs_then(self):
        data = self.table(header(), row(), definition=DEFINITION | {"published": PUBLISHED},
                          article=ARTICLE)
        self.assertEqual(data["unit"], "run")
        serial, numpy = data["panels"][0]["rows"]
        self.assertEqual([(bar["source"], bar["ms"]) for bar in serial["bars"]],
                         [("published", 500.0), ("here", 2.0), ("here", None)])
        self.assertEqual([(bar["ms"], bar.get("doubt"), bar.get("status"))
                          for bar in numpy["bars"]],
                         [(250.0, "other work", None), (None, None, "not run")])

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
        cells = [row("fcm_serial", problem="few"), row("fcm_cuda_cub", problem="many"),
                 row("fcm_serial", problem="other")]
        definition = DEFINITION | {"problems": problems, "rows": rows}
        data = self.table(header(), *cells, definition=definition)
        self.assertEqual([panel["problem"] for panel in data["panels"]],
                         ["few and many", "other"])
        rows[1]["problems"].append("few")
        data = self.table(header(), *cells, row("fcm_cuda_cub", problem="few"),
                          definition=definition)
        self.assertEqual(len(data["panels"]), 3)

    def test_a_problem_without_a_time_of_ours_has_no_panel(self):
        definition = DEFINITION | {"problems": [*DEFINITION["problems"], {"id": "q"}]}
        self.assertEqual([panel["problem"] for panel in
                          self.table(header(), row(), failed(problem="q"),
                                     definition=definition)["panels"]], ["p"])

    def test_only_tables_with_a_verified_cell(self):
        with self.assertRaises(NothingToDraw):
            articles.pictures(self.inputs(header(), failed()))
        self.assertEqual([picture.name for picture in
                          articles.pictures(self.inputs(header(), row()))], ["article004"])

    def test_committed_definitions_find_their_published_figures(self):
        published = results.read_published(SOURCE / "results/published.json")
        for name, definition in results.read_definitions(SOURCE / "results/tables").items():
            for bar in articles.printed_times(definition, published.get(name, {})):
                self.assertGreater(bar["ms"], 0.0)


class Scaling(WithLedgers):
    def line(self, problem, n, ms, variant="kmeans_cublas", **changes):
        return row(variant, (ms,), problem, table="scaling", sizes={"n": n}, **changes)

    def test_lines_and_limits(self):
        definition = {"name": "scaling", "problems": [],
                      "rows": [{"variant": name, "precisions": ["f32"]}
                               for name in ("kmeans_cublas", "kmeans_serial")]}
        picture, = scaling.pictures(self.inputs(
            header(), self.line("n=1e4", 10000, 50.0), self.line("n=1e3", 1000, 8.0),
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
            scaling.pictures(self.inputs(header(), row()))


class Threads(WithLedgers):
    def test_speed_ups(self):
        cells = self.cells(header(), row(table="threads", threads=1, samples=(8.0,)),
                           row(table="threads", threads=2, samples=(5.0,)),
                           row("kmeans_openmp", table="threads", threads=2),
                           by_threads=True)
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
            threads.pictures(self.inputs(header(), row(table="threads", threads=1)))


class Phases(WithLedgers):
    def test_shares(self):
        cells = self.cells(header(), row(phases_ms={"update": 1.0, "distances": 2.0, "odd": 1.0}),
                           failed("kmeans_numpy"), row(precision="f64"))
        data = phases.panels(cells, DEFINITION)
        self.assertEqual(data["variants"], ["kmeans_serial"])
        self.assertEqual(data["panels"], [{"problem": "p", "bars": [
            {"ms_per_iteration": 0.2,
             "shares": [["distances", 0.5], ["update", 0.25], ["odd", 0.25]]}]}])
        self.assertEqual(phases.kind_of("odd"), "other")


class Roofline(WithLedgers):
    def test_points_are_the_best_of_an_intensity(self):
        picture, = roofline.pictures(self.inputs(
            header(), row(samples=(20.0,)), row(problem="q", samples=(10.0,)),
            row(problem="r", sizes={"k": 8}), row("kmeans_openmp", table="threads")))
        machine, = picture.data["machines"]
        self.assertEqual([(point["variant"], point["intensity"], round(point["gflops"], 6))
                          for point in machine["points"]],
                         [("kmeans_serial", 2.0, 0.016), ("kmeans_serial", 4.0, 0.16)])
        self.assertEqual(machine["roofs"]["bandwidths"], {"memory": 20.0, "cache": 100.0})
        self.assertEqual(machine["roofs"]["rates"], {"FMA f32": 400.0, "FMA f64": 200.0})

    def test_nothing_without_a_probe(self):
        with self.assertRaises(NothingToDraw):
            roofline.pictures(self.inputs(header(limits={}), row()))


class Performance(WithLedgers):
    def cell(self, variant, problem, ms, inertia, status="ok"):
        return results.Cell("scaling", problem, variant, "f32", 2, "cpu", "kmeans", status,
                            ms_per_iteration=ms, inertia=tuple(inertia), machine="m")

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

    def test_nothing_with_one_variant(self):
        with self.assertRaises(NothingToDraw):
            performance.pictures(self.inputs(header(), row(table="scaling", trace={
                "loss": [1.0], "inertia": [1.0]})))


class Convergence(WithLedgers):
    TRACE = {"loss": [4.0, 2.0, 1.0], "inertia": [8.0, 4.0, 2.0]}
    ARTICLE = {"workload": {"n": 1000}, "loss_trace": {"cpp": [4.0, 2.5]},
               "inertia_trace": {"scikit-learn": [8.0]}}

    def picture(self, article):
        picture, = convergence.pictures(self.inputs(
            header(), row(table="article000", trace=self.TRACE),
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
            convergence.pictures(self.inputs(header(), row(table="article000")))


class Style(unittest.TestCase):
    def test_every_family_has_a_colour_of_its_own(self):
        self.assertEqual(len(set(style.FAMILIES.values())), len(style.FAMILIES))
        self.assertEqual(style.family_of("fcm_eigen"), "eigen")
        self.assertEqual(style.family_of("kmeans_cuda_atomic"), "cuda")
        self.assertEqual(style.family_of("kmeans_cuda_split"), "tensor")
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
