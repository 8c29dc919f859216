"""`clusterbench gate`: what it does with a slowdown, a wrong answer, a crash and a program that is
none of ours. Slowdowns are planted as a multiple of the run, so that no machine is too noisy."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest

from program import BINARY, FAULTY, PATIENCE, Program

CELL = "small/tiny/kmeans_serial/f32"
LATE = "it gives no reply within 5 s"
RUNNER = pathlib.Path(BINARY).parent / "clusterbench-runner"


class Gate(Program):
    def setUp(self):
        super().setUp()
        tables = self.folder / "tables"
        tables.mkdir()
        self.environment["CLUSTERBENCH_TABLES"] = str(tables)
        table = {"name": "small", "title": "Small", "source": "tests",
                 "problems": [{"id": "tiny", "data": "uniform:2000,2,1", "k": 3, "init": "first",
                               "stop": "iterations", "max_iterations": 20},
                              {"id": "long", "data": "uniform:20000,2,1", "k": 3, "init": "first",
                               "stop": "iterations", "max_iterations": 500}],
                 "rows": [{"variant": "kmeans_serial", "precisions": ["f32"],
                           "problems": ["tiny", "long"]}]}
        (tables / "small.json").write_text(json.dumps(table))

    def build(self, name, plant=""):
        """A build of its own: the folder of the test program with something planted into a variant."""
        build = self.folder / name
        shutil.rmtree(build, ignore_errors=True)
        (build / "modules").mkdir(parents=True)
        real = pathlib.Path(os.environ["CLUSTERBENCH_REAL_MODULES"])
        faulty = pathlib.Path(FAULTY).parent / "modules"
        for path in faulty.iterdir():
            (build / "modules" / path.name).symlink_to(path)
        variant = plant.split("=")[0]
        if "_faulty_" in variant:  # not a stand-in yet
            stand_in = build / "modules" / f"{variant}.so"
            stand_in.unlink()
            stand_in.symlink_to((faulty / "kmeans_serial.so").resolve())
            real = faulty
        return self.with_runner(build, f"#!/bin/sh\nexport CLUSTERBENCH_PLANT='{plant}'\n"
                                f"export CLUSTERBENCH_REAL_MODULES='{real}'\n"
                                f"exec '{RUNNER}' \"$@\"\n")

    def with_runner(self, build, script, mode=0o755):
        """The build, whose runner is the script."""
        build.mkdir(exist_ok=True)
        runner = build / "clusterbench-runner"
        runner.write_text(script)
        runner.chmod(mode)
        return build

    def run_program(self, *arguments, exit_code=0, **options):
        """Again where a runner could not say in time what it speaks, on a busy machine."""
        codes = exit_code if isinstance(exit_code, tuple) else (exit_code,)
        for _ in range(5):
            done = super().run_program(*arguments, exit_code=(*codes, 64), **options)
            if LATE not in done.stderr:
                break
        self.assertIn(done.returncode, codes, done.stderr)
        return done

    def ask(self, *arguments, exit_code=0, program=FAULTY):
        """The gate's answer; asks again where the machine was too busy to tell, as it says."""
        for exit_codes in 4 * ((exit_code, 3),) + (exit_code,):
            done = self.run_program("gate", *arguments, exit_code=exit_codes, program=program)
            if done.returncode == exit_code:
                return done

    def gate(self, base, new, *cells, exit_code=0, program=FAULTY):
        done = self.ask("--base", base, "--new", new, "--json", "--threads", 1, *(cells or [CELL]),
                        exit_code=exit_code, program=program)
        result = json.loads(done.stdout)
        self.assertEqual(result["exit_code"], exit_code)
        return result["cells"][0]

    def test_a_slowdown_is_an_alarm_twice(self):
        cell = self.gate(self.build("base", "kmeans_serial=0"),
                         self.build("new", "kmeans_serial=2"), exit_code=1)
        self.assertEqual(cell["verdict"], "slower")
        self.assertGreater(cell["ratio"], 1.5)  # 3 on a quiet machine
        self.assertGreaterEqual(len(cell["first_alarm"]), 6)
        self.assertGreaterEqual(len(cell["log_ratios"]), 6)

    def test_a_speed_up_that_no_bound_allows_is_suspicious(self):
        cell = self.gate(self.build("base", "kmeans_serial=500"),
                         self.build("new", "kmeans_serial=0"), exit_code=2)
        self.assertEqual(cell["verdict"], "suspicious")
        self.assertIn("more than 100 times less", cell["message"])

    def test_an_improvement_passes(self):
        cell = self.gate(self.build("base", "kmeans_serial=2"),
                         self.build("new", "kmeans_serial=0"))
        self.assertEqual(cell["verdict"], "same")
        self.assertLess(cell["ratio"], 1.0)  # a third on a quiet machine

    def test_the_same_build_passes(self):
        # Whatever the machine does meanwhile: the effect asked for is beyond any noise.
        done = self.ask("--base", BINARY, "--new", BINARY, CELL, "--min-effect", 300, "--out", "out",
                        "--threads", 1, program=BINARY)
        self.assertIn("same", done.stdout)
        written = json.loads((self.folder / "out" / "gate.json").read_text())
        self.assertEqual([cell["verdict"] for cell in written["cells"]], ["same"])
        self.assertIn(f"| {CELL} |", (self.folder / "out" / "gate.md").read_text())

    def test_long_runs_are_cut_to_a_turn(self):
        long = "small/long/kmeans_serial/f32"
        for options, whole in (((), False), (("--full",), True)):
            done = self.run_program("gate", "--base", BINARY, "--new", BINARY, long, "--min-effect",
                                    300, "--threads", 1, "--json", *options, exit_code=(0, 3))
            [cell] = json.loads(done.stdout)["cells"]  # 3: the machine is too busy to tell
            self.assertEqual(cell["iterations"] == 500, whole, cell["iterations"])

    def test_a_cut_leaves_the_passes_that_skip(self):
        # One pass takes longer than a turn.
        problem = {"data": "uniform:200000,8,1", "k": 16, "init": "first", "stop": "iterations"}
        for table, most in (("slow", 12), ("short", 3)):
            (self.folder / "tables" / f"{table}.json").write_text(json.dumps(
                {"name": table, "title": table, "source": "tests",
                 "problems": [{"id": "p", "max_iterations": most, **problem}],
                 "rows": [{"variant": "kmeans_serial", "precisions": ["f32"], "problems": ["p"]}]}))
            name = f"{table}/p/kmeans_serial/f32"
            self.run_program("gate", "--base", BINARY, "--new", BINARY, name, "--min-effect", 300,
                             "--threads", 1, "--out", table, exit_code=(0, 3))
            [cell] = json.loads((self.folder / table / "gate.json").read_text())["cells"]
            self.assertGreaterEqual(cell["iterations"], min(most, 4))
            page = (self.folder / table / "gate.md").read_text()
            self.assertRegex(page, r"\| cell +\| iterations \|")
            self.assertRegex(page, rf"\| {name} +\| +{cell['iterations']} \|")

    def test_a_base_that_is_wrong_is_not_compared(self):
        cell = self.gate(self.build("base", "kmeans_serial=wrong"), self.build("new"), exit_code=5)
        self.assertEqual(cell["verdict"], "not_compared")
        self.assertIn("the base's answer is wrong", cell["message"])

    def test_both_answers_are_wrong(self):
        cell = self.gate(FAULTY, FAULTY, "small/tiny/kmeans_faulty_drops_tail/f32", exit_code=2)
        self.assertEqual(cell["verdict"], "wrong")

    def test_a_variant_that_the_base_does_not_have_is_verified(self):
        def cell(variant, exit_code):
            return self.gate(BINARY, FAULTY, f"small/tiny/{variant}/f32", exit_code=exit_code)
        right = cell("kmeans_faulty_none", 0)
        self.assertEqual(right["verdict"], "new")
        self.assertIn("base: this build has no kmeans_faulty_none", right["message"])
        wrong = cell("kmeans_faulty_not_a_number", 2)
        self.assertEqual(wrong["verdict"], "wrong")
        self.assertIn("new: ", wrong["message"])
        self.assertEqual(cell("kmeans_faulty_segfaults", 5)["verdict"], "failed")
        self.assertEqual(cell("kmeans_faulty_throws", 5)["verdict"], "failed")
        self.assertIn("exited with code 7", cell("kmeans_faulty_exits_with_code", 5)["message"])
        # Neither has it, and nothing else was compared.
        self.assertEqual(cell("kmeans_faulty_refuses", 5)["verdict"], "absent")

    def test_a_base_that_crashes_compares_nothing(self):
        done = self.run_program("gate", "--base", self.build("base", "kmeans_serial=crash"),
                                "--new", BINARY, CELL, exit_code=5)
        self.assertRegex(done.stdout, r"not_compared\n    kmeans_serial: base: signal 11 ")
        self.assertIn("the new build's answer is right", done.stdout)
        self.assertIn("1 not_compared of 1 cells; no cell was compared", done.stdout)
        cell = self.gate(self.build("base", "kmeans_serial=crash"),
                         self.build("new", "kmeans_serial=wrong"), exit_code=2)
        self.assertEqual(cell["verdict"], "wrong")

    def test_one_compared_cell_is_enough(self):
        # The other's base is wrong.
        done = self.run_program("gate", "--base", self.build("base", "kmeans_serial_points=wrong"),
                                "--new", BINARY, CELL, "small/tiny/kmeans_serial_points/f32",
                                "--min-effect", 300, "--threads", 1, exit_code=(0, 3))
        self.assertRegex(done.stdout, r"not_compared\n    kmeans_serial_points: the base's answer is wrong")

    def test_only_the_new_answer_is_wrong(self):
        cell = self.gate(self.build("base"), self.build("new", "kmeans_serial=wrong"),
                         exit_code=2)
        self.assertEqual(cell["verdict"], "wrong")

    def test_a_wrong_label_is_seen_on_either_side(self):
        # Its centroids are the means of its labels, its objective is the oracle's but for rounding.
        right, wrong = self.build("right"), self.build("wrong", "kmeans_serial=mislabels")
        cell = self.gate(right, wrong, exit_code=2)
        self.assertEqual(cell["verdict"], "wrong")
        self.assertIn("labels: point 0", cell["message"])
        cell = self.gate(wrong, right, exit_code=5)
        self.assertEqual(cell["verdict"], "not_compared")
        self.assertIn("labels: point 0", cell["message"])
        crash = self.build("crash", "kmeans_serial=crash")  # the new build alone
        self.assertEqual(self.gate(crash, wrong, exit_code=2)["verdict"], "wrong")

    def test_a_wrong_label_of_a_variant_that_gives_other_bits_each_time(self):
        # What its last pass began with is gone with the run: a pass from another run's is judged.
        cell = "small/tiny/kmeans_faulty_wobbles/f32"
        done = self.run_program("gate", "--base", FAULTY, "--new", FAULTY, cell, "--min-effect", 300,
                                "--threads", 1, program=FAULTY, exit_code=(0, 3))
        self.assertRegex(done.stdout, "1 (same|inconclusive) of 1 cells")
        wrong = self.build("wrong", "kmeans_faulty_wobbles=mislabels")
        done = self.run_program("gate", "--base", FAULTY, "--new", wrong, cell, "--threads", 1,
                                program=FAULTY, exit_code=2)
        self.assertIn("labels: point 0", done.stdout)

    def test_crashes(self):
        cell = self.gate(FAULTY, FAULTY, "small/tiny/kmeans_faulty_segfaults/f32", exit_code=5)
        self.assertEqual(cell["verdict"], "failed")  # whatever the base does
        self.assertIn("signal 11", cell["message"])
        cell = self.gate(FAULTY, BINARY, "small/tiny/kmeans_faulty_none/f32", exit_code=5)
        self.assertEqual(cell["verdict"], "failed")
        self.assertIn("this build has no kmeans_faulty_none", cell["message"])

    def test_half_a_copy_is_no_build(self):
        """Whatever it lacks is not taken for a variant that it never had."""
        def without_list(modules):
            (modules / "list").unlink()
        def empty_list(modules):
            without_list(modules)
            (modules / "list").write_text("")
        def cut_list(modules):
            text = (modules / "list").read_text()
            without_list(modules)
            (modules / "list").write_text(text[:len(text) // 2].rstrip("\n"))
        def without(name):
            return lambda modules: (modules / name).unlink()
        whole = self.build("whole")
        for number, (harm, names) in enumerate((
                (shutil.rmtree, "list"), (without_list, "list"), (empty_list, "list"), (cut_list, "list"),
                (without("kmeans_serial.so"), "kmeans_serial.so"),
                (without("kmeans_serial.json"), "kmeans_serial.json"))):
            half = self.build(f"half{number}")
            harm(half / "modules")
            for base, new in ((half, whole), (whole, half)):
                with self.subTest(names, number=number, base=base.name):
                    done = self.run_program("gate", "--base", base, "--new", new, CELL, "--json",
                                            "--out", "out", program=FAULTY, exit_code=64)
                    self.assertEqual(done.stdout, "")
                    self.assertIn(str(half / "modules" / names), done.stderr)
            done = self.run_program("gate", "--base", half, "--calibrate", CELL, program=FAULTY,
                                    exit_code=64)
            self.assertIn(str(half / "modules" / names), done.stderr)

    def test_a_module_that_cannot_be_loaded_fails(self):
        base, new = self.build("base"), self.build("new")
        (base / "modules" / "kmeans_serial.so").unlink()
        (base / "modules" / "kmeans_serial.so").write_bytes(b"")
        cell = self.gate(base, new, exit_code=5)
        self.assertEqual(cell["verdict"], "failed")
        self.assertRegex(cell["message"], r"^base: .*kmeans_serial\.so: .*file too short.* \(not_loaded\)")
        self.assertIn("the new build's answer is right", cell["message"])
        # Though another cell is compared.
        self.gate(base, new, CELL, "small/tiny/kmeans_serial_points/f32", exit_code=5)
        wrong = self.build("wrong", "kmeans_serial=wrong")
        self.assertEqual(self.gate(base, wrong, exit_code=2)["verdict"], "wrong")

    def test_a_module_that_goes_while_the_gate_runs(self):
        base = self.build("base")
        module = base / "modules" / "kmeans_serial.so"
        runner = base / "clusterbench-runner"
        runner.write_text(runner.read_text().replace(
            "exec ", f"[ \"$1\" = --protocol ] || rm -f '{module}'\nexec "))
        cell = self.gate(base, self.build("new"), exit_code=5)
        self.assertEqual(cell["verdict"], "failed")
        self.assertIn("kmeans_serial.so", cell["message"])
        self.assertIn("No such file", cell["message"])
        self.assertFalse(module.exists())

    def test_other_programs(self):
        junk = self.folder / "junk"
        junk.write_bytes(b"\0 no program")
        junk.chmod(0o755)
        for program in ("/bin/true", "/bin/cat", junk):
            for base, new, option in ((program, BINARY, "--base"), (BINARY, program, "--new")):
                done = self.run_program("gate", "--base", base, "--new", new, CELL, exit_code=64)
                self.assertIn(f"{option} {program}: neither a build nor its program: there is no "
                              "clusterbench-runner", done.stderr)

    def test_other_runners(self):
        """Folders that look like a build: said before any cell runs."""
        def runner(name, script, mode=0o755):
            return self.with_runner(self.folder / name, script, mode)
        for build, says in (
                (runner("says_nothing", "#!/bin/sh\nexec /bin/true \"$@\"\n"), "nothing"),
                (runner("other_program", "#!/bin/sh\nexec /bin/cat \"$@\"\n"), "unrecognized option"),
                (runner("no_program", "\0 no program"), "Exec format error"),
                (runner("not_executable", "#!/bin/sh\n", 0o644), "Permission denied"),
                (runner("newer", "#!/bin/sh\necho 9; sleep 1\n"), "9"),
                (runner("writes_for_ever", "#!/bin/sh\nexec yes\n"), "y y y"),
                (runner("newer_by_far", "#!/bin/sh\necho 20\n"), "20")):
            for base, new, option in ((build, BINARY, "--base"), (BINARY, build, "--new")):
                with self.subTest(build.name, option=option):
                    done = self.run_program("gate", "--base", base, "--new", new, CELL, exit_code=64)
                    self.assertRegex(done.stderr, f"{option} {build}: its clusterbench-runner does not "
                                                  "speak the gate's protocol 2; asked for its own it "
                                                  f"says: .*{says}")
                    self.assertNotIn(CELL, done.stdout + done.stderr)
            self.run_program("gate", "--calibrate", "--base", build, CELL, exit_code=64)
        self.assertEqual(self.left_running(), [])

    def test_a_runner_that_hangs(self):
        hangs = self.with_runner(self.folder / "hangs", "#!/bin/sh\nsleep 100 & wait\n")
        begin = time.monotonic()
        done = super().run_program("gate", "--base", hangs, "--new", hangs, CELL, exit_code=64)
        self.assertIn(f"it says: nothing: {LATE}", done.stderr)
        self.assertLess(time.monotonic() - begin, 90)  # it sleeps longer
        self.assertEqual(self.left_running(), [])

    def test_what_a_runner_said_before_it_ended(self):
        broken = self.with_runner(self.folder / "broken",
                                  "#!/bin/sh\n[ \"$1\" = --protocol ] && exec "
                                  f"'{RUNNER}' \"$@\"\necho 'a library is missing' >&2; exit 7\n")
        (broken / "modules").symlink_to(RUNNER.parent / "modules")
        cell = self.gate(BINARY, broken, exit_code=5)
        self.assertEqual(cell["verdict"], "failed")
        self.assertIn("exited with code 7", cell["message"])
        self.assertIn("a library is missing", cell["message"])

    def test_a_build_is_named_by_its_folder_its_program_or_its_tree(self):
        tree = self.folder / "tree"
        (tree / "build").mkdir(parents=True)
        (tree / "build" / "release").symlink_to(RUNNER.parent)
        for name in (BINARY, RUNNER.parent, RUNNER, tree, os.path.relpath(RUNNER.parent, self.folder)):
            done = self.run_program("gate", "--base", name, "--new", name, CELL, "--min-effect", 300,
                                    "--cell-seconds", 0.1, "--threads", 1, exit_code=(0, 3))
            self.assertRegex(done.stdout, "1 (same|inconclusive) of 1 cells")

    def test_globs_name_variants_that_stand_in_no_table(self):
        cells = {"*/kmeans_serial_points/f32": ["small/tiny/kmeans_serial_points/f32",
                                                "small/long/kmeans_serial_points/f32"],
                 "small/tiny/kmeans_serial_points/*": ["small/tiny/kmeans_serial_points/f32",
                                                       "small/tiny/kmeans_serial_points/f64"],
                 "small/*/kmeans_serial*/f32": ["small/tiny/kmeans_serial/f32",  # rows alone
                                                "small/long/kmeans_serial/f32"]}
        for glob, expected in cells.items():
            done = self.run_program("gate", "--base", BINARY, "--new", BINARY, glob, "--json",
                                    "--cell-seconds", 0.1, "--threads", 1, exit_code=(0, 1, 3))
            self.assertEqual([cell["name"] for cell in json.loads(done.stdout)["cells"]], expected)

    def test_words_that_name_nothing_to_compare(self):
        table = json.loads((self.folder / "tables" / "small.json").read_text())
        for name, variants in {"elsewhere": ["kmeans_of_another_build"],
                               "mixed": ["kmeans_serial", "kmeans_of_another_build",
                                         "kmeans_sklearn"]}.items():
            rows = [{"variant": variant, "precisions": ["f32"], "problems": ["tiny"]}
                    for variant in variants]
            (self.folder / "tables" / f"{name}.json").write_text(
                json.dumps({**table, "name": name, "rows": rows}))
        gate = ["gate", "--base", BINARY, "--new", BINARY, "--cell-seconds", 0.1, "--threads", 1]
        for word, reason in {
                "elsewhere": "this build has no kmeans_of_another_build",
                "elsewhere/*": "this build has no kmeans_of_another_build",
                "mixed/tiny/kmeans_sklearn/f32": "kmeans_sklearn is a program of its own",
                "small/tiny/kmeans_sklearn/f32": "kmeans_sklearn is a program of its own",
                "small/tiny/fcm_serial/f32": "fcm_serial is a variant of fcm",
                "small/tiny/kmeans_serial_point/f32": "did you mean small/tiny/kmeans_serial_points/f32?"
                }.items():
            with self.subTest(word):
                done = self.run_program(*gate, word, exit_code=64)
                self.assertIn(reason, done.stderr)
                self.assertIn(f'"{word}"', done.stderr)
                done = self.run_program("gate", "--base", BINARY, "--calibrate", word, exit_code=64)
                self.assertIn(reason, done.stderr)
        for word in ("mixed", "mixed/*"):
            done = self.run_program(*gate, word, "--json", exit_code=(0, 1, 3))
            self.assertEqual([cell["name"] for cell in json.loads(done.stdout)["cells"]],
                             ["mixed/tiny/kmeans_serial/f32"])
        # No words, and no table of an article's.
        done = self.run_program(*gate, exit_code=64)
        self.assertIn("no table article*", done.stderr)

    def test_options_without_effect_are_refused(self):
        both = ["gate", "--base", BINARY, "--new", BINARY, CELL]
        for option in (["--new", BINARY], ["--instructions"], ["--min-effect", 3], ["--markdown"],
                       ["--cell-seconds", 3], ["--json"], ["--out", "out"]):
            done = self.run_program("gate", "--base", BINARY, "--calibrate", CELL, *option,
                                    exit_code=64)
            self.assertIn(f"{option[0]}: --calibrate compares nothing", done.stderr)
        for option in (["--threads", 1], ["--cell-seconds", 3]):
            done = self.run_program(*both, "--instructions", *option, exit_code=64)
            self.assertIn(f"{option[0]}: --instructions", done.stderr)
        self.assertFalse((self.folder / "out").exists())

    def test_an_output_that_cannot_be_written(self):
        (self.folder / "file").write_text("")
        begin = ["gate", "--base", BINARY, "--new", BINARY, CELL, "--min-effect", 300]
        done = self.run_program(*begin, "--out", "file/out", exit_code=74)
        self.assertNotIn(CELL, done.stdout + done.stderr)  # before any cell
        (self.folder / "out" / "gate.json").mkdir(parents=True)
        done = self.run_program(*begin, "--out", "out", exit_code=74)
        self.assertIn("of 1 cells", done.stdout)
        self.assertIn("gate.json", done.stderr)

    def test_bad_input(self):
        for arguments in (["--base", BINARY], ["--base", "nowhere", "--new", BINARY],
                          ["--base", BINARY, "--new", BINARY, "no/such/cell"],
                          ["--base", BINARY, "--new", BINARY, "--min-effect", 0],
                          ["--base", BINARY, "--new", BINARY, "--threads", 0]):
            with self.subTest(arguments):
                self.run_program("gate", *arguments, exit_code=64)

    def test_calibration_is_kept(self):
        done = self.run_program("gate", "--calibrate", "--base", BINARY, CELL, "--threads", 1)
        path = done.stdout.split(":")[0]
        self.assertTrue(path.startswith(self.cache), path)
        self.addCleanup(os.unlink, path)
        stored = json.loads(pathlib.Path(path).read_text())
        self.assertGreater(stored["cells"][CELL], 0)
        cell = self.gate(self.build("base"), self.build("new", "kmeans_serial=4"), exit_code=1)
        self.assertEqual(cell["noise_floor"], stored["cells"][CELL])
        for damage in ({"pair_sd": -1}, {"cells": {CELL: -1e-3}}, {"pair_sd": None}):
            pathlib.Path(path).write_text(json.dumps({**stored, **damage}))
            done = self.run_program("gate", "--base", BINARY, "--new", BINARY, CELL, exit_code=64)
            self.assertIn(path, done.stderr)

    def test_calibration_passes_over_what_cannot_run(self):
        def calibrate(*variants, exit_code=0):
            done = self.run_program("gate", "--calibrate", "--base", FAULTY, "--threads", 1,
                                    *(f"small/tiny/{name}/f32" for name in variants),
                                    exit_code=exit_code, program=FAULTY)
            path = done.stdout.split(":")[0]
            self.addCleanup(pathlib.Path(path).unlink, missing_ok=True)
            return done, path

        done, path = calibrate("kmeans_faulty_refuses", "kmeans_serial")
        self.assertIn("planted: not today", done.stderr)
        self.assertEqual(list(json.loads(pathlib.Path(path).read_text())["cells"]), [CELL])
        done, path = calibrate("kmeans_serial", "kmeans_faulty_segfaults", exit_code=5)
        self.assertIn("signal 11", done.stderr)
        self.assertIn("1 of them from this run, of 2 asked for", done.stdout)
        done, _ = calibrate("kmeans_faulty_refuses", exit_code=5)
        self.assertIn("no cell was calibrated", done.stdout)

    def interrupted(self, *arguments):
        """The program, interrupted after its first cell; its output, as text."""
        process = self.start("gate", *arguments, program=FAULTY)
        self.addCleanup(process.stderr.close)
        timer = threading.Timer(PATIENCE, process.kill)  # should no cell ever end
        timer.start()
        self.addCleanup(timer.cancel)
        while CELL not in process.stderr.readline().decode():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        output = process.stdout.read().decode()
        process.stdout.close()
        self.assertEqual(process.wait(), 130)
        self.assertEqual(self.left_running(), [])
        return output

    def test_what_an_interrupt_leaves(self):
        hanging = "small/tiny/kmeans_faulty_hangs/f32"
        output = self.interrupted("--calibrate", "--base", FAULTY, CELL, hanging)
        path = pathlib.Path(output.split(":")[0])
        self.addCleanup(path.unlink)
        self.assertEqual(list(json.loads(path.read_text())["cells"]), [CELL])
        output = self.interrupted("--base", FAULTY, "--new", FAULTY, CELL, hanging, "--min-effect",
                                  300)
        self.assertIn("1 interrupted", output)
        self.assertIn("of 2 cells", output)

    def test_an_interrupt_while_data_are_made_leaves_what_was_stored(self):
        (self.folder / "tables" / "large.json").write_text(json.dumps(
            {"name": "large", "title": "Large", "source": "tests",
             "problems": [{"id": "p", "data": "uniform:10000000,4,1", "k": 3, "init": "first",
                           "stop": "iterations", "max_iterations": 1}],
             "rows": [{"variant": "kmeans_serial", "precisions": ["f32"], "problems": ["p"]}]}))
        output = self.interrupted("--calibrate", "--base", FAULTY, CELL, "large/p/kmeans_serial/f32",
                                  "--full")
        path = pathlib.Path(output.split(":")[0])
        self.addCleanup(path.unlink)
        self.assertEqual(list(json.loads(path.read_text())["cells"]), [CELL])

    @unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed")
    def test_instructions(self):
        done = subprocess.run([BINARY, "gate", "--base", BINARY, "--new", BINARY, CELL,
                               "--instructions", "--json"], cwd=self.folder, timeout=PATIENCE,
                              env=self.environment, capture_output=True)
        if b"ASan runtime" in done.stdout:
            self.skipTest("valgrind cannot run what AddressSanitizer instruments")
        cell, = json.loads(done.stdout)["cells"]
        self.assertEqual(done.returncode, 5 if cell["verdict"] == "failed" else 0)
        if cell["verdict"] == "failed":  # built for a processor that valgrind does not know
            self.assertIn("x86-64-v3", cell["message"])
        else:
            base, new = cell["instructions"]
            self.assertGreater(base, 2000 * 3 * 20)  # points, clusters, passes
            self.assertAlmostEqual(new / base, 1.0, delta=0.001)

    @unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed")
    def test_instructions_of_a_variant_that_the_base_does_not_have(self):
        done = self.run_program("gate", "--base", BINARY, "--new", FAULTY, "--instructions",
                                "--markdown", "--out", "out", "small/tiny/kmeans_faulty_none/f32",
                                exit_code=5, program=FAULTY)
        written = json.loads((self.folder / "out" / "gate.json").read_text())
        if "ASan runtime" in written["cells"][0]["message"]:
            self.skipTest("valgrind cannot run what AddressSanitizer instruments")
        self.assertEqual(written["exit_code"], 5)
        if written["cells"][0]["verdict"] != "failed":  # built for a processor valgrind knows
            self.assertEqual(written["cells"][0]["verdict"], "not_compared")
            self.assertIn("base: this build has no", written["cells"][0]["message"])
        self.assertTrue(done.stdout.startswith("**1 "), done.stdout)
        self.assertEqual((self.folder / "out" / "gate.md").read_text(), done.stdout)

    @unittest.skipIf(shutil.which("valgrind") is None, "valgrind is not installed")
    def test_instructions_see_a_slowdown(self):
        base, new = self.build("base", "kmeans_serial=0"), self.build("new", "kmeans_serial=4")
        done = subprocess.run([FAULTY, "gate", "--base", base, "--new", new, CELL, "--instructions",
                               "--json"], cwd=self.folder, timeout=PATIENCE, env=self.environment,
                              capture_output=True)
        cell, = json.loads(done.stdout)["cells"]
        if re.search("ASan runtime|x86-64-v3", cell["message"]):
            self.skipTest("built for a processor that valgrind does not know, or with a sanitizer")
        self.assertEqual((done.returncode, cell["verdict"]), (1, "slower"))
        self.assertGreater(cell["instructions"][1], 1.1 * cell["instructions"][0])

    def test_instructions_need_valgrind(self):
        self.environment["PATH"] = "/nowhere"
        done = self.run_program("gate", "--base", BINARY, "--new", BINARY, CELL, "--instructions",
                                exit_code=64)
        self.assertIn("valgrind", done.stderr)

    def test_nothing_is_left_running(self):
        self.gate(self.build("base", "kmeans_serial=0"), self.build("new", "kmeans_serial=2"),
                  exit_code=1)
        self.assertEqual(self.left_running(), [])


if __name__ == "__main__":
    unittest.main()
