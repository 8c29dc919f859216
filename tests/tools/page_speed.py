#!/usr/bin/env python3
"""How long the page of a large ledger takes to open and to filter in a headless Chromium.

    CLUSTERBENCH=build/release/clusterbench tests/tools/page_speed.py [ROWS] [TIMES]

Both times are the page's own: from the navigation until everything is shown, and from the change
of the filter until table and plot are drawn again. Prints medians in milliseconds. Needs a quiet machine: no
test asks for these times."""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

import browser  # noqa: E402
import ledgers  # noqa: E402

FILTER = """(async () => {
  const box = document.querySelector('#filters input[type=search]'), body = document.body;
  delete body.dataset.tookMs;
  box.value = %r; box.dispatchEvent(new Event('input', {bubbles: true}));
  while (body.dataset.tookMs === undefined || body.dataset.shown !== '%d') {
    await new Promise(done => setTimeout(done, 5));
  }
  return Number(body.dataset.tookMs);
})()"""


def main():
    rows, times = (int(word) for word in (sys.argv[1:] + ["10000", "5"])[:2])
    program = os.environ.get("CLUSTERBENCH", "build/release/clusterbench")
    opened, filtered = [], []
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        lines = [ledgers.row(samples=[1.0 + i, 1.1 + i, 1.2 + i], name=f"t/p/kmeans_v{i:05}/f32",
                             variant=f"kmeans_v{i:05}") for i in range(rows)]
        ledgers.write(out, [ledgers.header(), *lines])
        page = out / "report.html"
        subprocess.run([program, "report", str(out), "--out", str(page)], check=True, stdout=subprocess.DEVNULL)
        for _ in range(times):
            look = browser.Browser()
            try:
                look.open(page)
                opened.append(float(look.run("document.body.dataset.openedMs")))
                for word, shown in (("v00039", 1), ("v000", 100), ("v0003", 10), ("", rows)):
                    filtered.append(look.run(FILTER % (word, shown)))
            finally:
                look.close()
    print(f"{rows} rows, {times} times: opens in {statistics.median(opened):.0f} ms (at most {max(opened):.0f}), "
          f"filters in {statistics.median(filtered):.0f} ms (at most {max(filtered):.0f})")


if __name__ == "__main__":
    main()
