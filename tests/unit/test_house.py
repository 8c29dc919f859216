"""The house rules: who may include whom, one file is one variant under its own name, files that a
student can read. Every rule is also tried on a file that breaks it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
BINARY = os.environ["CLUSTERBENCH_BINARY"]

FOLDERS = ("impls", "harness", "datasets", "tests", "plots")
CODE = (".cpp", ".hpp", ".cu", ".cuh", ".h", ".in", ".py")

LONGEST_LINE = 100  # of C++ and CUDA; .clang-format lays out all but comments
LONGEST_HEADER = 15
LONGEST_VARIANT = 600  # lines that are neither blank nor comment
# Of scripts/house.py: what a reader of one variant opens, and what the house weighs. Bounds go down.
MOST = {
    "headers that a CUDA variant opens, median": 6,
    "headers that a CUDA variant opens, most": 13,
    "headers that a published variant opens, most": 4,
    "lines that a published variant opens, most": 895,
    "depth of includes of CUDA variants, most": 4,
    "headers of impls/ with one includer": 12,
    "headers of impls/cuda/common": 10,
    "lines of impls/cuda/common": 2029,
    "headers of impls/cuda/common that serve one family": 0,
}

# Folders of the harness: each may use those of earlier lines, and nothing runs back up.
LAYERS = (("system",), ("machine",), ("problem",), ("worker", "judge", "ledger"),
          ("campaign", "gate", "report"), ("submission",), ("cli",))
# Within a line: a gate runs cells of campaigns, and a report shows what a gate found.
BESIDE = {("gate", "campaign"), ("report", "gate")}
# The process of a variant holds contract, memory and clock, and nothing that judges.
RUNNER = (r"harness/worker/(runner|server|work|shared_file|session|module|protocol|recorder|placed_array|"
          r"device_memory|shards|plugin|rank_calls|rank_marks|request_rows)\.")
# Plug-ins of the runner, and the calls that each makes; why CUDA does not start, all that use it say alike.
PLUGINS = {"harness/worker/cuda/": ("harness/worker/device_memory.hpp", "harness/machine/cuda/cuda_start.hpp"),
           "harness/worker/mpi/": ("harness/worker/rank_calls.hpp",)}
# A rank of MPI does what one process does, on a CPU or a GPU: it has its kernels.
ALSO = {"impls/mpi": ("impls/simd/support/", "impls/cuda/common/", "impls/cuda/many_clusters/")}


# ---- the rules: each takes a path and a text, and returns complaints

def includes(text):
    """What a C++ file includes of ours: quoted, or in angle brackets from one of our folders."""
    for delimiter, name in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)[">]', text, re.MULTILINE):
        if delimiter == '"' or name.split("/")[0] in FOLDERS:
            yield name


def is_header(name):
    return name.endswith((".hpp", ".cuh"))


def may_include(path, name):
    folder = path.split("/")[0]
    if folder == "impls":
        if path.count("/") == 1:  # the contract itself
            return False
        backend = "/".join(path.split("/")[:2])
        if backend == "impls/cuda":  # a family: itself, and what families share
            return (name == "impls/contract.hpp" or name.startswith("impls/cuda/common/")
                    or name.startswith(f"{pathlib.PurePath(path).parent}/") and is_header(name))
        return name == "impls/contract.hpp" or is_header(name) and name.startswith(
            (backend + "/support/", *ALSO.get(backend, ())))
    if folder == "harness":
        return (name == "impls/contract.hpp" or name.startswith("datasets/")
                or name.startswith("harness/") and is_below(path, name))
    if folder == "datasets":
        return name.startswith("datasets/")
    if folder == "tests":  # tests may look at plumbing, and reach variants through the registry
        return (name == "impls/contract.hpp" or name.startswith(("harness/", "datasets/", "tests/"))
                or re.match(r"impls/(cuda/\w+|\w+/support)/", name) and is_header(name)
                # to plant a bug into it, a variant is compiled once more, around something wrong
                or ("_planted_" in path and re.match(r"impls/\w+/\w+\.cpp", name)))
    return False


def layer(folder):
    return next((i for i, folders in enumerate(LAYERS) if folder in folders), len(LAYERS))


def is_below(path, name):
    """Whether a file of the harness may use another one of it."""
    if path.count("/") == 1:  # main.cpp
        return name.startswith("harness/cli/")
    for plugin, calls in PLUGINS.items():
        if path.startswith(plugin):
            return name in calls or name.startswith(plugin)
    if re.match(RUNNER, path):
        return name.startswith("harness/system/") or re.match(RUNNER, name) is not None
    own, other = path.split("/")[1], name.split("/")[1]
    if own == other == "report" and name.count("/") > 2:  # its rooms use what they share, alone
        return pathlib.PurePath(path).parent == pathlib.PurePath(name).parent
    return (own == other and layer(own) < len(LAYERS) or layer(other) < layer(own) < len(LAYERS)
            or (own, other) in BESIDE)


def complaints_about_includes(path, text):
    if path.endswith(".py"):
        return complaints_about_imports(path, text)
    return [f"{path} includes {name}" for name in includes(text) if not may_include(path, name)]


def complaints_about_imports(path, text):
    """A program that holds variants imports of ours only what its folder shares."""
    ours = r"^\s*(?:import|from)\s+((?:\.|kmeans_|fcm_|harness\b|datasets\b|impls\b|tests\b)\S*)"
    return [f"{path} imports {name}" for name in re.findall(ours, text, re.MULTILINE)
            if path.startswith("impls/")]


def is_variant(path):
    return (re.fullmatch(r"impls/(cuda/)?\w+/\w+\.(cpp|cu|py)", path) is not None
            and not re.search("/(support|common)/", path))


def registered_names(text):
    """The names that a file registers, in order, as far as they are written out."""
    names = re.findall(r'\bVariant\(name="((?:kmeans|fcm)_\w+)"', text)  # in Python
    for statement in re.findall(r"\bRegistration\s+\w+\s*[({].*?;", text, re.DOTALL):
        names += re.findall(r'"((?:kmeans|fcm)_\w+)"', statement)[:1]
    return names


def complaints_about_registration(path, text):
    stem = pathlib.Path(path).stem
    names = registered_names(text)
    if stem not in names:
        return [f"{path} does not register {stem}, but {names}"]
    if not path.endswith(".py") and len(names) > 1:
        return [f"{path} registers {names}: a module holds one variant"]
    return [f"{path} registers {name}, which does not begin with {stem}"
            for name in names if not name.startswith(stem)]


def complaints_about_length(path, text):
    lines = text.splitlines()
    comment = "#" if path.endswith(".py") else "//"
    header = next((i for i, line in enumerate(lines) if not line.startswith(comment)), len(lines))
    body = sum(1 for line in lines if line.strip() and not line.strip().startswith(comment))
    found = []
    if not 3 <= header <= LONGEST_HEADER:
        found.append(f"{path}: the header has {header} lines, 3 to {LONGEST_HEADER} are asked for")
    for word in ("Source:", "Cost per iteration:"):
        if not any(word in line for line in lines[:header]):
            found.append(f"{path}: the header says no '{word}'")
    if body > LONGEST_VARIANT:
        found.append(f"{path}: {body} lines of code, {LONGEST_VARIANT} are allowed")
    return found


def complaints_about_lines(path, text):
    return [f"{path}:{number}: {len(line)} characters, {LONGEST_LINE} are allowed"
            for number, line in enumerate(text.splitlines(), 1) if len(line) > LONGEST_LINE]


def complaints_about_plots(path, text):
    """Pictures are made of files: no program is run, nothing of ours is loaded."""
    ours = r"^\s*(?:import|from)\s+(?:harness|impls|datasets|tests|subprocess|ctypes)\b"
    return [f"{path}: {match.strip()}" for match in re.findall(ours, text, re.MULTILINE)]


def complaints_about_index(index, pages, where="docs/README.md"):
    """A list of pages names each of them once, and no page that is not there."""
    named = re.findall(r"^(?:-|\d+\.) \[[^]]+\]\(([\w/-]+\.md)\): \S", index, re.MULTILINE)
    pages = sorted(page for page in pages if page != "README.md")
    return ([f"{where} does not list {page}" for page in pages if page not in named]
            + [f"{where} lists {page}, which is not there" for page in named
               if page not in pages]
            + [f"{where} lists {page} twice" for page in sorted(set(named))
               if named.count(page) > 1])


# Written apart, so that this file does not mention them itself.
WORKPLACE = ["/" + "work/", "../" + "shared", "shared" + "/design", "shared" + "/articles"]


def complaints_about_places(path, text):
    return [f"{path}: line {number} mentions {place}"
            for number, line in enumerate(text.splitlines(), 1)
            for place in WORKPLACE if re.search(r"(?<![\w.-])" + re.escape(place), line)]


# ---- the house

def house():
    """All files that belong to the house, by path."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True)
    if listed.returncode == 0:
        paths = [path for path in listed.stdout.decode().split("\0") if path]
    else:  # unpacked from an archive
        paths = [str(path.relative_to(SOURCE)) for folder in (*FOLDERS, "docs", "cmake", "results")
                 for path in (SOURCE / folder).rglob("*")]
    return {path: (SOURCE / path).read_text(errors="replace") for path in paths
            if (SOURCE / path).is_file()}


# Products on tensor cores, by what a variant includes or writes itself.
TENSOR = re.compile(r"tile_run\.cuh|split_rows\.cuh|split_teams\.cuh|incremental_run\.cuh|tensor_tiles\.cuh|"
                    r"wgmma_sweep\.cuh|mma\.sync")


def complaints_about_multiplier(path, text):
    """A variant whose products tensor cores make has their rate as its limit."""
    if re.fullmatch(r"impls/cuda/(\w+/)?\w+\.cu", path) and TENSOR.search(text) and (
            ".multiplier = Multiplier::tensor_" not in text):
        return [f"{path}: multiplies on tensor cores, but its Meta has no multiplier"]
    return []


# What a header defines in its namespace: nothing there is indented.
DEFINITION = re.compile(r"^(?:template <.*>\s+)?(?:(?:inline )?constexpr [\w:]+(?:<[\w:, ]+>)? (\w+)\b(?! *\()"
                        r"|(?:struct|class|union|enum class) (\w+)(?: final)?(?: : [^;]*)? ?\{)",
                        re.MULTILINE)


def complaints_about_definitions(headers):
    """Of headers that are linked into one program, no two give different things the same name."""
    defined = {}
    for path, text in sorted(headers.items()):
        for name in {constant or kind for constant, kind in DEFINITION.findall(text)}:
            defined.setdefault((path.split("/")[1], name), []).append(path)
    return [f"{name} is defined in {' and '.join(paths)}"
            for (_, name), paths in defined.items() if len(paths) > 1]


class House(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = house()
        cls.code = {path: text for path, text in cls.files.items() if path.endswith(CODE)}
        cls.variants = {path: text for path, text in cls.code.items() if is_variant(path)}

    def check(self, rule, files):
        self.assertTrue(files)
        self.assertEqual([c for path, text in files.items() for c in rule(path, text)], [])

    def test_includes(self):
        self.check(complaints_about_includes, {path: text for path, text in self.code.items()
                                               if path.split("/")[0] in FOLDERS})

    def test_every_variant_registers_its_stem(self):
        self.check(complaints_about_registration, self.variants)

    def test_variants_can_be_read(self):
        self.check(complaints_about_length, self.variants)

    def test_lines_fit(self):
        self.check(complaints_about_lines, {path: text for path, text in self.code.items()
                                            if path.endswith((".cpp", ".hpp", ".cu", ".cuh"))})

    def test_tensor_cores_have_their_own_limit(self):
        self.check(complaints_about_multiplier, self.variants)

    def test_headers_of_a_backend_do_not_share_names(self):
        headers = {path: text for path, text in self.code.items()
                   if path.startswith("impls/") and path.count("/") > 2 and is_header(path)}
        self.assertGreater(len(headers), 50)
        self.assertEqual(complaints_about_definitions(headers), [])

    def test_variants_open_few_headers(self):
        sys.path.insert(0, str(SOURCE / "scripts"))
        import house as script
        measures = script.House({path: text for path, text in self.files.items()
                                 if path.endswith(script.CODE)}).measures()
        for name, most in MOST.items():
            with self.subTest(name):
                self.assertLessEqual(measures[name], most)

    def test_plots_read_files_only(self):
        scripts = {path: text for path, text in self.files.items()
                   if path.startswith("plots/") and path.endswith(".py")}
        if not scripts:
            self.skipTest("there are no plots yet")
        self.check(complaints_about_plots, scripts)

    def test_the_index_of_the_pages_is_complete(self):
        pages = [path[len("docs/"):] for path in self.files if re.fullmatch(r"docs/[^/]+\.md", path)]
        self.assertEqual(complaints_about_index(self.files["docs/README.md"], pages), [])
        chapters = [path[len("docs/"):] for path in self.files if path.startswith("docs/ladder/")]
        self.assertGreater(len(chapters), 5)
        self.assertEqual(complaints_about_index(self.files["docs/ladder.md"], chapters, "docs/ladder.md"), [])

    def test_the_house_names_no_workplace(self):
        self.check(complaints_about_places, self.files)

    def test_names_are_unique_and_rungs_exist(self):
        names = [name for text in self.variants.values() for name in registered_names(text)]
        self.assertEqual(sorted(names), sorted(set(names)))
        for path, text in self.variants.items():
            for rung in re.findall(r'\.previous = "(\w+)"', text):
                self.assertIn(rung, names, path)

    def test_the_program_lists_what_the_files_register(self):
        listed = json.loads(subprocess.run([BINARY, "list", "--json"], capture_output=True,
                                           check=True, cwd=SOURCE).stdout)
        not_built = {name for backend in listed["backends"] if not backend["built"]
                     for name in backend["not_built"]}
        for backend in listed["backends"]:
            with self.subTest(backend["name"]):
                names = {variant["name"] for variant in listed["variants"]
                         if variant["backend"] == backend["name"]}
                in_files = {name for path, text in self.variants.items()
                            if path.split("/")[1] == backend["name"]
                            for name in registered_names(text)}
                self.assertEqual(names, in_files - not_built if backend["built"] else set())

    def test_every_listed_table_names_existing_variants(self):
        names = {name for text in self.variants.values() for name in registered_names(text)}
        for path, text in self.files.items():
            if re.fullmatch(r"results/tables/\w+\.json", path):
                for row in json.loads(text)["rows"]:
                    self.assertIn(row["variant"], names, path)


class RulesCanFail(unittest.TestCase):
    """A rule that nothing can break is no rule."""

    GOOD = ('// An idea.\n//\n// Source: a paper.\n// Cost per iteration: little.\n'
            '#include "impls/contract.hpp"\n#include "impls/cuda/common/runtime.hpp"\n'
            '#include <vector>\n'
            'const Registration registration({.name = "kmeans_cuda_x", .previous = ""}, f());\n')
    PATH = "impls/cuda/published/kmeans_cuda_x.cu"

    def test_a_good_file(self):
        for rule in (complaints_about_includes, complaints_about_registration,
                     complaints_about_length, complaints_about_places):
            self.assertEqual(rule(self.PATH, self.GOOD), [])
        self.assertTrue(is_variant(self.PATH))
        self.assertFalse(is_variant("impls/cuda/common/check.cpp"))

    def test_includes(self):
        for path, name in ((self.PATH, "harness/problem/registry.hpp"),
                           (self.PATH, "impls/cuda/published/kmeans_cuda_y.cu"),
                           (self.PATH, "impls/cuda/few_clusters/tile_run.cuh"),
                           ("impls/cuda/common/runtime.hpp", "impls/cuda/published/pass_facts.cuh"),
                           (self.PATH, "impls/openmp/support/x.hpp"),
                           ("impls/mpi/kmeans_mpi.cpp", "impls/openmp/support/x.hpp"),
                           ("impls/openmp/kmeans_openmp.cpp", "impls/simd/support/team.hpp"),
                           ("harness/worker/mpi/x.cpp", "harness/worker/session.hpp"),
                           (self.PATH, "common/check.hpp"),
                           (self.PATH, "../contract.hpp"),
                           ("impls/contract.hpp", "harness/worker/session.hpp"),
                           ("impls/cuda/common/runtime.hpp", "impls/cuda/published/kmeans_cuda_x.cu"),
                           ("harness/gate/x.cpp", "impls/serial/kmeans_serial.cpp"),
                           ("harness/gate/x.cpp", "impls/cuda/common/runtime.hpp"),
                           ("harness/gate/x.cpp", "tests/verify/planted_bugs.hpp"),
                           ("harness/system/x.cpp", "harness/machine/provenance.hpp"),
                           ("harness/machine/x.cpp", "harness/problem/registry.hpp"),
                           ("harness/problem/x.cpp", "harness/worker/worker.hpp"),
                           ("harness/worker/worker.cpp", "harness/judge/verifier.hpp"),
                           ("harness/judge/x.cpp", "harness/ledger/row.hpp"),
                           ("harness/ledger/x.cpp", "harness/report/splice.hpp"),
                           ("harness/campaign/x.cpp", "harness/gate/gate.hpp"),
                           ("harness/campaign/x.cpp", "harness/cli/commands.hpp"),
                           ("harness/report/x.cpp", "harness/report/quality/plan.hpp"),
                           ("harness/report/explain/x.cpp", "harness/report/compare/timings.hpp"),
                           ("harness/gate/x.cpp", "harness/cli/options.hpp"),
                           ("harness/attic/x.cpp", "harness/system/files.hpp"),
                           ("harness/attic/x.cpp", "harness/attic/x.hpp"),
                           ("harness/cli/x.cpp", "harness/attic/x.hpp"),
                           ("harness/main.cpp", "harness/campaign/campaign.hpp"),
                           ("harness/worker/runner.cpp", "harness/worker/worker.hpp"),
                           ("harness/worker/session.cpp", "harness/problem/problem.hpp"),
                           ("harness/worker/protocol.hpp", "harness/judge/report.hpp"),
                           ("harness/worker/cuda/x.cu", "harness/worker/session.hpp"),
                           ("harness/worker/cuda/x.cu", "harness/machine/cuda/probe_gpu.hpp"),
                           ("datasets/npy.cpp", "harness/system/files.hpp"),
                           ("datasets/npy.cpp", "impls/contract.hpp"),
                           ("tests/unit/test_x.cpp", "impls/serial/kmeans_serial.cpp")):
            for line in (f'#include "{name}"\n', f'  #  include "{name}" // why\n'):
                with self.subTest(path=path, line=line):
                    self.assertEqual(len(complaints_about_includes(path, line)), 1)
        for path, name in (("impls/mpi/kmeans_mpi.cpp", "impls/simd/support/team.hpp"),
                           ("harness/worker/mpi/x.cpp", "harness/worker/rank_calls.hpp"),
                           ("harness/cli/x.cpp", "harness/gate/gate.hpp"),
                           ("harness/gate/x.cpp", "harness/campaign/oracles.hpp"),
                           ("harness/gate/x.cpp", "harness/gate/gate.hpp"),
                           ("harness/report/quality/x.cpp", "harness/report/text_table.hpp"),
                           ("harness/report/quality/x.cpp", "harness/report/quality/plan.hpp"),
                           ("harness/worker/worker.cpp", "harness/problem/programs.hpp"),
                           ("harness/worker/session.cpp", "harness/system/program_folder.hpp"),
                           ("harness/worker/session.cpp", "impls/contract.hpp"),
                           ("harness/main.cpp", "harness/cli/cli.hpp")):
            with self.subTest(path=path, name=name):
                self.assertEqual(complaints_about_includes(path, f'#include "{name}"\n'), [])
        self.assertEqual(len(complaints_about_includes("datasets/npy.cpp",
                                                       "#include <harness/system/files.hpp>\n")), 1)

    def test_registration(self):
        self.assertNotEqual(complaints_about_registration("impls/cuda/kmeans_cuda_z.cu", self.GOOD),
                            [])
        self.assertNotEqual(complaints_about_registration(self.PATH, "// nothing\n"), [])
        second = self.GOOD + 'const Registration other({.name = "kmeans_y"}, f());\n'
        self.assertEqual(len(complaints_about_registration(self.PATH, second)), 1)
        second = self.GOOD + 'const Registration other(\n  meta("kmeans_cuda_x_wide"), f());\n'
        self.assertEqual(len(complaints_about_registration(self.PATH, second)), 1)

    def test_multiplier(self):
        text = '#include "impls/cuda/few_clusters/tile_run.cuh"\n'
        self.assertEqual(len(complaints_about_multiplier("impls/cuda/kmeans_x.cu", text)), 1)
        text += ".multiplier = Multiplier::tensor_f16,\n"
        self.assertEqual(complaints_about_multiplier("impls/cuda/kmeans_x.cu", text), [])

    def test_definitions(self):
        for line in ("inline constexpr unsigned kRows = 16;\n", "struct Tile {\n",
                     "template <unsigned D>\nconstexpr unsigned kRows = D;\n",
                     "template <unsigned D>\nclass Sums : public Base<D> {\n"):
            one, other = "impls/cuda/common/one.cuh", "impls/cuda/common/other.cuh"
            self.assertEqual(len(complaints_about_definitions({one: line, other: line})), 1, line)
            self.assertEqual(complaints_about_definitions({one: line, "impls/simd/support/x.hpp": line}), [])
        for line in ("constexpr int bits(unsigned rows) {\n", "struct Tile;\n", "  struct Tile {\n"):
            self.assertEqual(complaints_about_definitions({"impls/cuda/common/one.cuh": line,
                                                           "impls/cuda/common/other.cuh": line}), [], line)

    def test_length(self):
        self.assertNotEqual(complaints_about_length(self.PATH, "// more\n" * 12 + self.GOOD), [])
        self.assertNotEqual(complaints_about_length(self.PATH, self.GOOD + "int x;\n" * LONGEST_VARIANT), [])
        self.assertNotEqual(complaints_about_length(self.PATH, self.GOOD.replace("Source", "S")), [])
        self.assertNotEqual(complaints_about_length(self.PATH, "\n" + self.GOOD), [])

    def test_lines(self):
        self.assertEqual(complaints_about_lines(self.PATH, "// ‖x‖" + "x" * (LONGEST_LINE - 6) + "\n"), [])
        self.assertEqual(complaints_about_lines(self.PATH, "\n" + "x" * (LONGEST_LINE + 1)),
                         [f"{self.PATH}:2: 101 characters, 100 are allowed"])

    def test_programs(self):
        path = "impls/python/kmeans_x.py"
        good = ("# An idea.\n#\n# Source: a paper.\n# Cost per iteration: little.\n"
                "from support.peer import Variant, serve\nimport numpy as np\n"
                'serve([Variant(name="kmeans_x", make=X), Variant(name="kmeans_x_wide")], load)\n')
        self.assertTrue(is_variant(path))
        self.assertFalse(is_variant("impls/python/support/peer.py"))
        for rule in (complaints_about_includes, complaints_about_registration,
                     complaints_about_length, complaints_about_places):
            self.assertEqual(rule(path, good), [])
        self.assertNotEqual(complaints_about_registration("impls/python/kmeans_y.py", good), [])
        self.assertNotEqual(complaints_about_length(path, good.replace("Source", "S")), [])
        self.assertNotEqual(complaints_about_length(path, good + "x = 1\n" * LONGEST_VARIANT), [])
        for line in ("import kmeans_numpy\n", "from fcm_numpy import Fcm\n",
                     "    from harness import x\n", "from .kmeans_numpy import Lloyd\n"):
            self.assertEqual(len(complaints_about_includes(path, good + line)), 1, line)

    def test_plots(self):
        for line in ("import subprocess\n", "from harness import x\n", "    import ctypes\n"):
            self.assertEqual(len(complaints_about_plots("plots/x.py", "import json\n" + line)), 1)

    def test_index(self):
        index = "- [A](a.md): first.\n- [Up](../README.md): above.\n"
        self.assertEqual(complaints_about_index(index, ["a.md", "README.md"]), [])
        for text, pages in ((index, ["a.md", "b.md"]), (index, []), (index + index, ["a.md"])):
            self.assertEqual(len(complaints_about_index(text, pages)), 1)

    def test_places(self):
        for place in WORKPLACE:
            self.assertEqual(complaints_about_places("docs/x.md", f"one\nsee {place}/x\n"),
                             [f"docs/x.md: line 2 mentions {place}"])
        self.assertEqual(complaints_about_places("docs/x.md", "frame" + WORKPLACE[0]), [])


if __name__ == "__main__":
    unittest.main()
