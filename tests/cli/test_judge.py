"""`clusterbench judge`: a file from anywhere, and what becomes of every kind of bad one. Whatever it is,
nothing of it is left behind: no process, no file."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import jsonschema

from program import BINARY, SOURCE, Program, ledger

FAST = ["--samples", 3, "--budget", 0, "--no-probe", "--threads", 1]
NO_BOUND = "No percentage of the model bound is known: --no-probe was given."
FEWEST = ["--samples", 1, "--budget", 0, "--no-probe"]
SMALL = ["--data", "mixture:3000,3,5,1,1", "--k", 4, "--iterations", 5]

# Lloyd in one sweep. What stands in capitals is replaced.
LLOYD = r"""
#include <clusterbench/contract.hpp>
#include <algorithm>
EXTRA
namespace {
using namespace clusterbench;
template <typename T>
class Mine final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    rows_ = points.rows;
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const std::size_t d = shape_.d, k = shape_.k;
    std::ranges::copy(start.centroids, answer.centroids.begin());
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      facts = {.labels_changed = stop.passes() == 0};
      std::ranges::copy(answer.centroids, answer.entering.begin());
      std::vector<double> sums(k * d), counts(k);
      {
        const Phase<T> phase(observer, "assign");
        for (std::size_t i = 0; i < shape_.n - LOST; ++i) {
          std::size_t best = 0;
          double least = 1e300;
          for (std::size_t j = 0; j < k; ++j) {
            double sum = 0;
            for (std::size_t f = 0; f < d; ++f) {
              const double x = double(rows_[i * d + f]) - double(answer.entering[j * d + f]);
              sum += x * x;
            }
            if (sum < least) {
              least = sum;
              best = j;
            }
          }
          facts.loss += std::sqrt(least);
          facts.labels_changed |= answer.labels[i] != std::int32_t(best);
          answer.labels[i] = std::int32_t(best);
          counts[best] += 1;
          for (std::size_t f = 0; f < d; ++f) {
            sums[best * d + f] += double(rows_[i * d + f]);
          }
        }
      }
      const Phase<T> phase(observer, "update");
      for (std::size_t e = 0; e < k * d; ++e) {
        if (counts[e / d] > 0) {
          const T mean = T(sums[e] / counts[e / d]);
          const double shift = double(mean) - double(answer.centroids[e]);
          facts.squared_shift += shift * shift;
          answer.centroids[e] = mean;
        }
      }
      observer.pass(answer.centroids);
      AFTER
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }
private:
  Shape shape_;
  std::span<const T> rows_;
};
const Registration kMine({.name = "NAME", .idea = "a test's", .source = "tests" META},
                         both_precisions<Mine>());
}
"""

DESCRIBES = """#!/usr/bin/python3
import json, os, sys, time
def describe(**more):
    print(json.dumps({"reply": "describe", "protocol": 2, "variants": [dict(
        name="kmeans_own", idea="a test's", source="tests", **more)]}), flush=True)
"""

HELPED = """
from clusterbench_peer import Answer, Module, Solver, Variant, serve

class Own(Solver):
    def __init__(self, problem):
        self.problem = problem
    def run(self, start, record):
        import numpy as np
        p, c = self.problem, start.centroids.copy()
        for _ in range(p.max_iterations):
            entering = c.copy()
            labels = (((p.points[:, None, :] - c[None, :, :]) ** 2).sum(axis=2)).argmin(axis=1)
            for j in range(p.k):
                if (labels == j).any():
                    c[j] = p.points[labels == j].mean(axis=0, dtype=np.float64)
        return Answer(p.max_iterations, labels, c, entering)

def load(threads):
    import numpy
    return {"numpy": numpy.__version__}

if __name__ == "__main__":
    serve([Variant(name="kmeans_own", idea="a test's", source="tests", make=Own, gives_entering=True,
                   modules=(Module("numpy", "numpy"),))], load)
"""


def lloyd(name="kmeans_mine", extra="", lost=0, after="", meta=""):
    for word, text in (("EXTRA", extra), ("LOST", str(lost)), ("AFTER", after), ("NAME", name),
                       ("META", meta)):
        text_before = lloyd.text if word == "EXTRA" else source
        source = text_before.replace(word, text)
    return source


lloyd.text = LLOYD


class Judge(Program):
    def setUp(self):
        super().setUp()
        self.environment.pop("CLUSTERBENCH_PEERS", None)
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.environment["TMPDIR"] = str(self.scratch)

    def write(self, name, text, executable=False):
        path = self.folder / name
        path.write_text(text)
        if executable:
            path.chmod(0o755)
        return path

    def judge(self, *arguments, exit_code=0, out="out", sampling=FAST):
        done = self.run_program("judge", *arguments, *sampling, "--out", out, exit_code=exit_code)
        self.assertEqual(self.left_running(), [])
        self.assertEqual(list(self.scratch.iterdir()), [])
        return done

    def refused(self, file, message, *arguments):
        """The file is bad input, with such a message, and no ledger is begun."""
        done = self.judge(file, *arguments, exit_code=64)
        self.assertRegex(done.stderr, message)
        self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "out").exists())
        return done


class Right(Judge):
    def test_source(self):
        file = self.write("mine.cpp", lloyd())
        done = self.judge(file, *SMALL, "--beside", "kmeans_serial")
        self.assertIn("kmeans_mine f32: right on the small awkward problems", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^kmeans_mine: right$")
        for words in (r"ms per iteration +whole answer, ms", r"[12] of 2 +[\d.]+ [\[(].*[])] kmeans_serial",
                      r"assign [\d.]+ %, update [\d.]+ %", r"(?m)^ledger: out/ledger.jsonl$",
                      rf"(?m)^  {NO_BOUND}$"):
            self.assertRegex(done.stdout, words)
        rows = {row["variant"]: row for row in ledger(self.folder / "out")[1]}
        self.assertEqual(set(rows), {"kmeans_mine", "kmeans_serial"})
        schema = json.loads((SOURCE / "results" / "schema.json").read_text())
        for line in (self.folder / "out" / "ledger.jsonl").read_text().splitlines():
            jsonschema.validate(json.loads(line), schema)
        origin = rows["kmeans_mine"]["submission"]
        self.assertEqual((origin["file"], origin["kind"]), ("mine.cpp", "C++"))
        self.assertRegex(origin["compiled_with"], r"c\+\+ -std=c\+\+20 .*-O")
        self.assertNotIn("submission", rows["kmeans_serial"])
        self.assertEqual(rows["kmeans_mine"]["sample_starts"], rows["kmeans_serial"]["sample_starts"])

    def test_json_of_a_library_with_the_default_problems(self):
        self.judge(self.write("mine.cpp", lloyd()), *SMALL, "--alone")  # compiles, and throws it away
        source = self.write("kept.cpp", lloyd("kmeans_kept", meta=", .max_d = 1"))
        include = self.folder / "include"
        shutil.copytree(os.path.join(os.environ["CLUSTERBENCH_FOLDER"], "include"), include)
        library = self.folder / "kept.so"
        subprocess.run(["c++", "-std=c++20", "-O2", "-shared", "-fPIC", "-I", include, source, "-o",
                        library], check=True)
        shutil.rmtree(self.folder / "out")
        done = self.judge(library, "--json", "--alone")
        report = json.loads(done.stdout)
        self.assertEqual((report["type"], report["exit_code"]), ("judge", 0))
        entry, = report["variants"]
        self.assertEqual((entry["variant"], entry["verdict"]), ("kmeans_kept", "right"))
        self.assertEqual(entry["submission"]["kind"], "a shared library")
        self.assertEqual([cell["problem"] for cell in entry["cells"]], ["50k x 1, k=7"])
        cell = entry["cells"][0]
        low, high = cell["per_iteration"]["interval"]
        self.assertLessEqual(low, cell["per_iteration"]["ms"])
        self.assertGreaterEqual(high, cell["per_iteration"]["ms"])
        self.assertEqual((cell["rank"], cell["ranked"], cell["status"]), (1, 1, "ok"))
        self.assertNotIn("over_best", cell)
        self.assertAlmostEqual(sum(cell["phases_percent"].values()), 100.0)
        self.assertEqual(entry["no_model_bound"], NO_BOUND)

    def test_all_default_problems(self):
        # A variant in vector registers and a sample of each, because the problems are as large as they are.
        file = SOURCE / "examples" / "cpp_openmp" / "kmeans_mine_openmp.cpp"
        done = self.judge(file, "--json", "--alone", sampling=FEWEST)
        entry, = json.loads(done.stdout)["variants"]
        defaults = json.loads((SOURCE / "results" / "judge" / "kmeans.json").read_text())
        self.assertEqual([cell["problem"] for cell in entry["cells"]],
                         [problem["id"] for problem in defaults["problems"][:5]])
        self.assertTrue(all(cell["status"] == "ok" for cell in entry["cells"]))

    def test_usual_company(self):
        done = self.judge(self.write("kmeans_own.py", HELPED), *SMALL, "--json")
        entry, = json.loads(done.stdout)["variants"]
        names = {other["variant"] for other in entry["cells"][0]["beside"]}
        self.assertLessEqual({"kmeans_own", "kmeans_simd_auto", "kmeans_simd"}, names)

    def test_table(self):
        done = self.judge(self.write("mine.cpp", lloyd()), "--table", "article004", "--quick", "--json",
                          "--beside", "kmeans_serial_points", "--precision", "f64")
        entry, = json.loads(done.stdout)["variants"]
        self.assertEqual({cell["problem"] for cell in entry["cells"]}, {"n=100", "n=100k"})
        self.assertEqual({cell["precision"] for cell in entry["cells"]}, {"f64"})

    def test_page(self):
        template = pathlib.Path(BINARY).parent / "page" / "template.html"
        file = self.write("kmeans_own.py", HELPED)
        words = [file, *SMALL, "--beside", "kmeans_serial", "--html", "page.html"]
        if not template.exists():
            self.assertIn("bundle_page.sh", self.judge(*words, exit_code=64).stderr)
            return
        self.judge(*words)
        page = (self.folder / "page.html").read_text()
        data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page,
                                    re.DOTALL)[1])
        self.assertEqual({cell["variant"] for cell in data["cells"]}, {"kmeans_own", "kmeans_serial"})
        self.assertIn("kmeans_own: right", data["judged"])
        self.assertIn(NO_BOUND, data["judged"])
        self.assertRegex(page, r'<pre id="?judged"? hidden')

    def test_a_page_that_cannot_be_written_is_named_before_anything_is_run(self):
        if not (pathlib.Path(BINARY).parent / "page" / "template.html").exists():
            self.skipTest("the page was not bundled")
        file = self.write("kmeans_own.py", HELPED)
        done = self.judge(file, *SMALL, "--html", "none/page.html", exit_code=74)
        self.assertIn("none/page.html", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_program_with_the_helper(self):
        file = self.write("kmeans_own.py", HELPED)
        done = self.judge(file, *SMALL, "--alone", "--json")
        entry, = json.loads(done.stdout)["variants"]
        self.assertEqual((entry["variant"], entry["verdict"]), ("kmeans_own", "right"))
        self.assertEqual(entry["submission"]["kind"], "a program")

    def test_one_of_several_variants(self):
        done = self.judge(SOURCE / "tests/programs/kmeans_fake.py", *SMALL, "--alone", "--json",
                          "--variant", "kmeans_fake")
        entry, = json.loads(done.stdout)["variants"]
        self.assertEqual(entry["variant"], "kmeans_fake")
        self.assertEqual(entry["cells"][0]["precision"], "f64")  # it has no other

    def test_names_beside_exist(self):
        listed = json.loads(self.run_program("list", "--json").stdout)
        names = {variant["name"] for variant in listed["variants"]}
        for backend in listed["backends"]:
            if not backend["built"]:
                names |= {path.stem for path in (SOURCE / "impls" / backend["name"]).rglob("*.cu")}
        for file in (SOURCE / "results" / "judge").glob("*.json"):
            self.assertLessEqual(set(json.loads(file.read_text())["order"]), names)


class Wrong(Judge):
    def test_a_lost_point(self):
        done = self.judge(self.write("mine.cpp", lloyd(lost="(shape_.n > 1)")), *SMALL, "--beside",
                          "kmeans_serial", exit_code=2)
        self.assertRegex(done.stdout, r"kmeans_mine f32: wrong on the small awkward problems: .*: "
                                      r"(labels|means|form|written|point|cluster)")
        self.assertRegex(done.stdout, r"(?m)^kmeans_mine: wrong$")
        self.assertIn("as many clusters as points n=5 d=2 k=5: written: labels: value 4", done.stdout)
        row, = ledger(self.folder / "out")[1]  # nobody else is run
        self.assertEqual(row["status"], "wrong")

    def test_a_wrong_label(self):
        other = "answer.labels[0] = (answer.labels[0] + 1) % std::int32_t(k);"
        done = self.judge(self.write("mine.cpp", lloyd(after=other)), *SMALL, "--alone", "--json",
                          exit_code=2)
        entry, = json.loads(done.stdout)["variants"]
        self.assertEqual(entry["verdict"], "wrong")
        self.assertRegex(entry["message"], r"point 0: label \d+ at squared distance [\d.e+-]+, expected "
                                           r"\d+ at [\d.e+-]+")

    def test_wrong_where_it_is_timed(self):
        file = self.write("mine.cpp", lloyd(lost="(shape_.n > 2000)"))
        done = self.judge(file, *SMALL, "--alone", exit_code=2)
        self.assertIn("right on the small awkward problems", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^kmeans_mine: wrong$")

    def test_a_crash_is_a_row(self):
        file = self.write("mine.cpp", lloyd(after="if (shape_.n > 2000) __builtin_trap();"))
        done = self.judge(file, *SMALL, "--alone", exit_code=5)
        self.assertRegex(done.stdout, r"(?m)^kmeans_mine: crashed$")

    def test_nothing_it_can_take(self):
        file = self.write("mine.cpp", lloyd(meta=", .max_d = 2"))
        done = self.judge(file, *SMALL, "--alone", exit_code=6)
        self.assertRegex(done.stdout, r"(?m)^kmeans_mine: refused$")
        self.assertIn("d = 3, but the variant takes d from 1 to 2", done.stdout)


class BadFiles(Judge):
    def test_no_file(self):
        self.refused("gone.cpp", r"^clusterbench: gone\.cpp: there is no such file$")
        self.refused(self.folder, r": there is no such file$")
        self.refused(self.write("empty.cpp", ""), r"empty\.cpp: it is empty$")
        self.refused(self.write("notes.txt", "hello"), r"notes\.txt: it is no \.cpp, \.cu, \.so or \.py "
                                                       r"file, nor a program that may be started")
        self.refused(self.write("text.so", "hello"), r"text\.so: it is no shared library$")

    def test_does_not_compile(self):
        file = self.write("mine.cpp", lloyd(after="this is no C++;"))
        done = self.refused(file, r"mine\.cpp: it does not compile; the command was\n  \S+ -std=c\+\+20")
        self.assertRegex(done.stderr, r"mine\.cpp:\d+:\d+: error: ")  # as the compiler wrote it

    def test_registrations(self):
        self.refused(self.write("none.cpp", "#include <clusterbench/contract.hpp>\n"),
                     r"none\.cpp: holds 0 registrations, a module has one$")
        second = ('const clusterbench::Registration kOther({.name = "kmeans_other", .idea = "", '
                  '.source = ""}, {});')
        self.refused(self.write("two.cpp", lloyd() + second),
                     r"two\.cpp: holds 2 registrations, a module has one$")
        self.refused(self.write("known.cpp", lloyd("kmeans_serial")),
                     r"known\.cpp: there is a variant kmeans_serial already, in .*kmeans_serial\.cpp; "
                     r"give yours another name$")
        self.refused(self.write("blank.cpp", lloyd("kmeans mine")),
                     r'blank\.cpp: its registration: the variant "kmeans mine": the name has a slash')

    def test_two_files_of_one_name(self):
        one, other = self.write("one.py", HELPED.replace("kmeans_own", "one")), self.folder / "x" / "one.py"
        other.parent.mkdir()
        shutil.copy(one, other)
        self.refused(one, r"x/one\.py: there is a variant one already", other)

    def test_contract(self):
        modules = os.path.join(os.environ["CLUSTERBENCH_FOLDER"], "tests", "modules")
        self.refused(f"{modules}/no_contract.so", r"no_contract\.so: no module of version 3 of the contract$")
        self.refused(f"{modules}/other_version.so", r"other_version\.so: a module of version 2 of the contract")
        self.refused(f"{modules}/missing_symbol.so", r"missing_symbol\.so: .*undefined symbol")

    def test_architecture_and_library(self):
        modules = pathlib.Path(os.environ["CLUSTERBENCH_REAL_MODULES"])
        module = bytearray((modules / "kmeans_serial.so").read_bytes())
        machine = module[18]
        module[18] = 183 if machine != 183 else 62
        (self.folder / "other.so").write_bytes(module)
        self.refused(self.folder / "other.so", r"other\.so: it is built for (64-bit ARM|x86-64), and this "
                                               r"machine is ")
        source = self.write("old.cpp", "#include <string>\nstd::string f(const char* a, int n) {\n"
                                       "  std::string s(a); s.append(n, 'x'); return s; }\n")
        subprocess.run(["c++", "-D_GLIBCXX_USE_CXX11_ABI=0", "-shared", "-fPIC", source, "-o",
                        self.folder / "old.so"], check=True)
        self.refused(self.folder / "old.so", r"old\.so: it is built with -D_GLIBCXX_USE_CXX11_ABI=0")

    def test_modules_that_misbehave_when_they_are_loaded(self):
        def loads(statement):
            return lloyd(extra="#include <fstream>\n#include <unistd.h>\n"
                               "const bool kLoaded = [] { " + statement + "; return true; }();")
        self.refused(self.write("crash.cpp", loads("__builtin_trap()")),
                     r"crash\.cpp: it does not describe itself: signal \d+ \(.*\) ended it before")
        self.refused(self.write("hang.cpp", loads("for (;;) pause()")),
                     r"hang\.cpp: it does not describe itself: it gives no reply within 1 s$",
                     "--timeout", 1)
        # The limit is on what it asks for: blocks that it hardly touches come to it sooner than filled ones; and
        # who is given 64 TiB, as without a limit, hangs.
        self.refused(self.write("fill.cpp", loads("static char* volatile block; for (int i = 0;; ++i) { "
                                                  "block = new char[1 << 30]; *block = 1; "
                                                  "while (i > 65536) pause(); }")),
                     r"fill\.cpp: it does not describe itself: signal \d+ \(.*\) ended it before")
        target = self.folder / "written"
        file = self.write("write.cpp", loads(f'std::ofstream("{target}") << 1; '
                                             'if (fork() == 0) for (;;) pause()'))
        self.judge(file, *SMALL, "--alone")  # it may try
        self.assertFalse(target.exists())

    def test_programs_that_misbehave(self):
        for name, body, message, *more in (
                ("rubbish", "print('hello')", "it gives no reply$"),
                ("flood", "while True: print('hello' * 1000)", r"it writes more than \d+ bytes and no reply$"),
                ("hang", "time.sleep(1000)", "it gives no reply within 1 s$", "--timeout", 1),
                ("fork", "os.fork() or os.setsid(); time.sleep(1000)", "no reply within 1 s$", "--timeout", 1),
                ("memory", "x = bytearray(1 << 50)", "exited with code 1: MemoryError$"),
                ("other", "describe(precisions=['f16'])", "its description: .*f16"),
                ("stem", "describe()", "variant kmeans_own does not begin with the file's stem$")):
            with self.subTest(name):
                file = self.write(f"{name}.py", DESCRIBES + body + "\n")
                self.refused(file, rf"{name}\.py: .*{message}", *more)
        self.refused(self.write("cannot", "no program", executable=True), "cannot: it does not describe itself")

    def test_words(self):
        file = self.write("kmeans_own.py", HELPED)
        for words, message in ((["--data", "uniform:9,2,1"], "--k: at least one"),
                               (["--quick"], "--quick takes the smaller sizes of a --table"),
                               (["--k", 3], "--k describes an ad-hoc problem"),
                               (["--table", "article00"], 'unknown table "article00"; did you mean'),
                               (["--beside", "kmeans_simt"], "--beside kmeans_simt: no variant matches; did "
                                                             "you mean kmeans_simd"),
                               (["--beside", "fcm_*"], r"--beside fcm_\*: none of these is a variant of kmeans"),
                               (["--variant", "x"], "--variant x: it holds no such variant"),
                               (["--table", "article001"], "table article001 has no problem of that family"),
                               (["--data", "nothing.npy", "--k", 2], "nothing.npy")):
            with self.subTest(words):
                self.refused(file, message, *words)

    def test_cuda(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not os.access(nvcc, os.X_OK):
            self.refused(self.write("mine.cu", "int x;"), r"no CUDA compiler \(nvcc\) was found")
            return
        file = self.write("mine.cu", "#include <clusterbench/contract.hpp>\n__global__ void f() { none(); }\n")
        done = self.refused(file, r"mine\.cu: it does not compile")
        self.assertRegex(done.stderr, r'mine\.cu\(\d+\): error: identifier "none" is undefined')


if __name__ == "__main__":
    unittest.main()
