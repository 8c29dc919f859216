"""A measured grid of shapes: where one variant is behind the best of the others."""

import json

ALLOWED = 1.10


def cells_of(path):
    """The cells of a ledger, without its header lines."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["type"] == "cell"]


def missing(cells, table):
    """The (variant, problem) of a table's rows that were not run to an end."""
    ended = {(cell["variant"], cell["name"].split("/")[1]) for cell in cells
             if cell["status"] not in ("interrupted", "unavailable")}
    return [(row["variant"], problem) for row in table["rows"] for problem in row["problems"]
            if (row["variant"], problem) not in ended]


def time_of(cell):
    """The lower quartile of the samples, per iteration. A host's neighbours add 0.3 ms to a third of the
    runs at times, which moves the median of a run of 0.1 ms; no run is faster for a neighbour."""
    samples = sorted(cell.get("samples_ms", []))
    return (samples[len(samples) // 4] / cell["iterations"] if samples
            else cell["ms_per_iteration"])


def behind(cells, own, allowed=ALLOWED):
    """Problems at which the variant `own` takes more than `allowed` times the best right variant, and by
    how much. Of cells that were measured again the last one counts."""
    times = {}
    for cell in cells:
        if cell["precision"] == "f32" and cell["status"] == "ok":
            problem = cell["name"].split("/")[1]
            times.setdefault(problem, {})[cell["variant"]] = time_of(cell)
    found = {}
    for problem, others in times.items():
        mine = others.pop(own, None)
        if mine is None:
            found[problem] = "not run"
        elif others and mine > allowed * min(others.values()):
            found[problem] = mine / min(others.values())
    return found


def cell(variant, ms, status="ok"):
    """A cell as a ledger has it, for tests of the comparison itself."""
    return {"variant": variant, "name": f"grid/p/{variant}/f32", "precision": "f32",
            "status": status, "ms_per_iteration": ms}


def newest(pattern, reference):
    """The last ledger that the pattern finds in the folder of reference runs."""
    found = sorted(reference.glob(pattern))
    assert found, f"{reference} has no {pattern}"
    return found[-1]


def check_that_it_can_fail(test, own, other):
    """Shows `test` a grid that passes and some that must not."""
    fast, slow = cell(other, 1.0), cell(other, 9.0)
    test.assertEqual(behind([fast, cell(own, 1.05)], own), {})
    test.assertEqual(behind([fast, cell(own, 1.2)], own), {"p": 1.2})
    test.assertEqual(behind([fast], own), {"p": "not run"})
    test.assertEqual(behind([cell(other, 1.0, "wrong"), slow, cell(own, 9.0)], own), {})
    table = {"rows": [{"variant": own, "problems": ["p"]}, {"variant": other, "problems": ["p"]}]}
    test.assertEqual(missing([fast, cell(own, 1.0, "refused")], table), [])
    test.assertEqual(missing([fast, cell(own, 1.0, "interrupted")], table), [(own, "p")])
