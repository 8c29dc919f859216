"""Every program of another ecosystem that computes on a GPU qualifies and is right; skipped, with the
reason, where its modules or a GPU are missing."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

import test_peers  # noqa: E402


class Right(test_peers.Peers):
    def test_all(self):
        self.check_all("gpu")


if __name__ == "__main__":
    unittest.main()
