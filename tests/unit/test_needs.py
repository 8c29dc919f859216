"""The line `// Needs: ...` of a source file: words that the build knows, and a message for any other."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CLUSTERBENCH_SOURCE"])
CUDA = ("sm_80", "sm_90a", "a stream per thread")
MPI = ("sm_90a", "MPI")


@unittest.skipUnless(shutil.which("cmake"), "cmake is not on the PATH")
class Needs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def read(self, *sources, words=CUDA):
        """What CMake says of the needs of source files, a line each."""
        quoted = " ".join(f'"{word}"' for word in words)
        script = self.folder / "needs.cmake"
        script.write_text("cmake_minimum_required(VERSION 3.25)\n"
                          f'include("{SOURCE}/cmake/ClusterbenchNeeds.cmake")\n' +
                          "".join(f'clusterbench_needs(needs "{source}" WORDS {quoted})\nmessage("[${{needs}}]")\n'
                                  for source in sources))
        return subprocess.run(["cmake", "-P", script], capture_output=True, text=True)

    def needs(self, text):
        (self.folder / "kmeans_x.cu").write_text(text)
        return self.read(self.folder / "kmeans_x.cu")

    def test_words(self):
        for text, found in (("// A variant.\nint x;\n", ""),
                            ("// A variant.\n// Needs: sm_80\n", "sm_80"),
                            ("// Needs: sm_90a, a stream per thread\n", "sm_90a;a stream per thread"),
                            ("// Needs: sm_90a\n// Needs:a stream per thread \n", "sm_90a;a stream per thread"),
                            ("// It needs: much.\nint x; // Needs: care\n", "")):
            done = self.needs(text)
            self.assertEqual((done.returncode, done.stderr.strip()), (0, f"[{found}]"), text)

    def test_an_unknown_word_stops_the_build(self):
        for line, word in (("sm_90", "sm_90"), ("sm_90a and a stream per thread", "sm_90a and a stream per thread"),
                           ("sm_80,", ""), ("a stream per threads", "a stream per threads"), ("", "nothing")):
            done = self.needs(f"// A variant.\n// Needs: {line}\n")
            self.assertNotEqual(done.returncode, 0, line)
            said = " ".join(done.stderr.split())
            self.assertIn(f'kmeans_x.cu: Needs: "{word}" is not one of "sm_80", "sm_90a", "a stream per thread"', said)

    def test_every_file_of_the_tree(self):
        for folder, words in (("cuda", CUDA), ("mpi", MPI)):
            sources = sorted((SOURCE / "impls" / folder).rglob("*.cu"))
            done = self.read(*sources, words=words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), len(sources))

    def test_pages_list_all_words(self):
        page = (SOURCE / "CONTRIBUTING.md").read_text()
        self.assertEqual(set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)), {*CUDA, *MPI})
        for folder, words in (("cuda", CUDA), ("mpi", MPI)):
            recipe = (SOURCE / "impls" / folder / "CMakeLists.txt").read_text()
            self.assertEqual(tuple(re.findall(r'"[^"]+"|\w+', re.search(r"WORDS (.*)\)", recipe)[1])),
                             tuple(f'"{word}"' if " " in word else word for word in words))


if __name__ == "__main__":
    unittest.main()
