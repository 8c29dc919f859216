"""What `cmake --install` and the Debian package put in place: projects outside are built and judged
with nothing but that. The folders of source and build are out of reach of the installed program's words."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["CLUSTERBENCH_FOLDER"])
SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
EXAMPLES = SOURCE / "examples"
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"

FAST = ["--data", "mixture:3000,3,5,1,1", "--k", "4", "--iterations", "5", "--samples", "3", "--budget", "0",
        "--no-probe", "--threads", "1", "--json"]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="clusterbench-installed-"))
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.root / "usr"], check=True,
                       stdout=subprocess.DEVNULL)
        cls.program = cls.root / "usr" / "bin" / "clusterbench"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="clusterbench-outside-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        own = {"CLUSTERBENCH_CACHE": str(self.root / "cache"), "CMAKE_PREFIX_PATH": str(self.root / "usr")}
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("CLUSTERBENCH_")} | own

    def run_here(self, *words, exit_code=0):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, timeout=1200)
        if "this machine has no whole sandbox" in done.stderr:  # judge runs no stranger's file then
            self.skipTest(done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, exit_code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def judged(self, file, *more, exit_code=0):
        """The one variant of the report."""
        done = self.run_here(self.program, "judge", file, *FAST, "--out", "out", *more, exit_code=exit_code)
        entry, = json.loads(done.stdout)["variants"]
        ledger = (self.folder / "out" / "ledger.jsonl").read_text().splitlines()
        row, = [line for line in map(json.loads, ledger) if line.get("variant") == entry["variant"]]
        self.assertEqual(row["status"], entry["cells"][0]["status"])
        return entry

    def right(self, file, variant, *more):
        entry = self.judged(file, *more)
        self.assertEqual((entry["variant"], entry["verdict"]), (variant, "right"))
        return entry

    def project(self, name):
        """A copy of an example's folder, built as its CMakeLists.txt says."""
        shutil.copytree(EXAMPLES / name, self.folder / "project")
        self.run_here("cmake", "-G", "Ninja", "-S", "project", "-B", "build")
        self.run_here("cmake", "--build", "build")

    def test_what_is_there(self):
        listed = json.loads(self.run_here(self.program, "list", "--json").stdout)
        names = {variant["name"]: variant for variant in listed["variants"]}
        self.assertLessEqual({"kmeans_serial", "kmeans_simd", "kmeans_numpy"}, set(names))
        tables = {path.stem for path in (SOURCE / "results" / "tables").glob("*.json")}
        self.assertEqual({table["name"] for table in listed["tables"]}, tables)
        planted = [path.name for path in (self.root / "usr").rglob("*") if "cheat" in path.name]
        self.assertEqual(planted, [])

    def test_builds_for_the_gate(self):
        """By the folder where it is installed, or by its program, which is a link."""
        for build in (self.root / "usr", self.root / "usr" / "bin" / "clusterbench"):
            done = self.run_here(self.program, "gate", "--base", build, "--new", build, "nosuch", exit_code=64)
            self.assertIn("nosuch", done.stderr)
            self.assertNotIn("neither a build nor its program", done.stderr)

    def test_an_empty_folder_to_a_row(self):
        shutil.copy(EXAMPLES / "cpp_openmp" / "kmeans_mine_openmp.cpp", self.folder / "kmeans_mine.cpp")
        entry = self.right("kmeans_mine.cpp", "kmeans_mine_openmp", "--beside", "kmeans_serial")
        self.assertEqual(entry["cells"][0]["ranked"], 2)

    def test_cpp_by_cmake(self):
        self.project("cpp_openmp")
        self.right("build/kmeans_mine_openmp.so", "kmeans_mine_openmp", "--alone")

    def test_numpy(self):
        shutil.copy(EXAMPLES / "python_numpy" / "kmeans_mine_numpy.py", self.folder)
        self.right("kmeans_mine_numpy.py", "kmeans_mine_numpy", "--beside", "kmeans_numpy")

    def test_c_by_the_protocol(self):
        self.run_here("cc", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror",
                      EXAMPLES / "c_protocol" / "kmeans_mine_c.c", "-o", "kmeans_mine_c")
        self.right("kmeans_mine_c", "kmeans_mine_c", "--alone")

    def test_cuda(self):
        if not os.access(NVCC, os.X_OK):
            self.skipTest("there is no nvcc")
        self.environment["CUDACXX"] = NVCC
        shutil.copy(EXAMPLES / "cuda" / "kmeans_mine_cuda.cu", self.folder)
        done = subprocess.run([self.program, "judge", "kmeans_mine_cuda.cu", *FAST, "--alone"],
                              cwd=self.folder, env=self.environment, capture_output=True, text=True)
        self.assertIn("kmeans_mine_cuda.cu: compiled in", done.stderr)
        entry, = json.loads(done.stdout)["variants"]
        # Without a GPU nothing is measured, and that is said.
        self.assertIn((done.returncode, entry["verdict"]), ((0, "right"), (6, "unavailable")), done.stderr)

    def test_cuda_by_cmake(self):
        """For the architectures of the build that was installed."""
        if not os.access(NVCC, os.X_OK):
            self.skipTest("there is no nvcc")
        self.environment["CUDACXX"] = NVCC
        built = re.search(r"(?m)^CMAKE_CUDA_ARCHITECTURES:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text())
        architectures = (built[1] if built else "80-virtual").split(";")
        self.project("cuda")
        self.assertTrue((self.folder / "build" / "kmeans_mine_cuda.so").is_file())
        self.assertEqual(set(re.findall(r"arch=compute_(\w+)", (self.folder / "build" / "build.ninja").read_text())),
                         {re.sub("-.*", "", name) for name in architectures})

    def test_debian_package(self):
        for tool in ("cpack", "dpkg-deb", "dpkg", "dpkg-shlibdeps", "file"):
            if shutil.which(tool) is None:
                self.skipTest(f"there is no {tool}")
        self.run_here("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.folder / "packages",
                      "-D", "CPACK_STRIP_FILES=OFF")
        package, = (self.folder / "packages").glob("*.deb")
        about = self.run_here("dpkg-deb", "--field", package).stdout
        self.assertRegex(about, r"(?m)^Package: clusterbench$")
        self.assertRegex(about, r"(?m)^Depends: .*libseccomp2")
        # The page names every package that apt-get brings along or may bring along.
        page = (SOURCE / "docs" / "judge.md").read_text()
        for field in ("Depends", "Recommends", "Suggests"):
            for name in re.findall(r"(?:^|, )([\w.+-]+)", re.search(rf"(?m)^{field}: (.*)$", about)[1]):
                self.assertIn(f"`{name}`", page, field)
        # A system of its own: an empty folder.
        system = self.folder / "system"
        for folder in ("info", "updates", "triggers"):
            (system / "var/lib/dpkg" / folder).mkdir(parents=True)
        (system / "var/lib/dpkg/status").touch()
        dpkg = ["dpkg", f"--root={system}", "--force-not-root", "--force-depends", "--log=/dev/null"]
        self.run_here(*dpkg, "-i", package)
        self.program = system / "usr/bin/clusterbench"
        shutil.copy(EXAMPLES / "python_numpy" / "kmeans_mine_numpy.py", self.folder)
        self.right("kmeans_mine_numpy.py", "kmeans_mine_numpy", "--alone")
        self.run_here(*dpkg, "-r", "clusterbench")
        left = [path for path in system.rglob("*") if "var" not in path.relative_to(system).parts]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
