"""Makes a build folder for tests: the program, the runner, faulty modules, and stand-ins for the real
ones.

usage: make_folder.py BUILD FOLDER PROGRAM PLANTED FAULTS WRONG [--gpu-faults FILE] [--gpu-rank-faults FILE]
       [--rank-faults FILE]"""

import argparse
import pathlib
import shutil
import subprocess

parser = argparse.ArgumentParser()
for argument in ("build", "folder", "program", "planted", "faults", "wrong"):
    parser.add_argument(argument, type=pathlib.Path)
for argument in ("--gpu-faults", "--gpu-rank-faults", "--rank-faults"):
    parser.add_argument(argument, type=pathlib.Path, action="append", default=[])
given = parser.parse_args()
build, folder, planted, faults, wrong = given.build, given.folder, given.planted, given.faults, given.wrong

FAULTS = """segfaults segfaults_early aborts killed hangs hangs_early fills_memory fills_memory_early
asks_for_too_much throws throws_early throws_garbage throws_number exits_early exits_with_code
prints_garbage prints_and_crashes leaves_a_process leaves_a_daemon writes_a_report fills_the_disk
refuses slow""".split()
BUGS = """none drops_tail drops_one_row stale_centroids racy_sums counts_of_one_block
returns_initial_state not_a_number labels_off_by_one wrong_labels_in_range squared_loss stops_early
one_pass_too_many hides_one_pass_too_many ties_to_highest wrong_later wrong_once
inertia_too_high""".split()
OF_KMEANS = """empty_to_origin ignores_weights forgets_weights claims_no_passes claims_all_passes wobbles wobbles_unrecorded
wobbles_wrong_once wobbles_wrong_late looks_for_the_oracle""".split()
OF_GPU = "none asks_for_too_much writes_to_nothing traps never_ends launches_nothing".split()
OF_GPU_RANKS = "none throws traps never_ends".split()
# FAULT_RANK_PLACE; "load", "prepare" and "return" are places of a request, the others phases of a pass.
OF_RANKS = [f"killed_{rank}_{place}" for rank in (0, 1)
            for place in ("load", "prepare", "assign", "exchange", "update", "return")]
OF_RANKS += """segfaults_1_update exits_1_assign leaves_0_exchange aborts_1_prepare throws_1_assign
throws_0_prepare hangs_1_assign hangs_0_load stops_1_exchange stops_0_return forks_1_assign
differs_1_return counts_1_return""".split()
OF_FCM = "wrong_exponent unweighted_power not_normalised".split()


def link(path, target):
    path.unlink(missing_ok=True)
    path.symlink_to(target)


modules = folder / "modules"
shutil.rmtree(modules, ignore_errors=True)
modules.mkdir(parents=True)
link(folder / "clusterbench-runner", build / "clusterbench-runner")
lines = []
for line in (build / "modules" / "list").read_text().splitlines():
    name = line.split()[0]
    is_real = "_cuda" in name or name.startswith(("kmeans_cublas", "kmeans_thrust")) or name.endswith("_mpi")
    if is_real:
        link(modules / f"{name}.so", build / "modules" / f"{name}.so")
    else:  # a file of its own: a process that loads two stand-ins would get the first one twice
        shutil.copy2(planted, modules / f"{name}.so")
    link(modules / f"{name}.json", build / "modules" / f"{name}.json")
    lines.append(line)
faulty = [(f"kmeans_faulty_{name}", faults) for name in FAULTS]
faulty += [(f"kmeans_faulty_{name}", wrong) for name in BUGS + OF_KMEANS]
faulty += [(f"fcm_faulty_{name}", wrong) for name in BUGS + OF_FCM]
faulty += [(f"kmeans_cuda_faulty_{name}", module) for module in given.gpu_faults for name in OF_GPU]
faulty += [(f"kmeans_nvlink_faulty_{name}", module) for module in given.gpu_rank_faults for name in OF_GPU_RANKS]
faulty += [(f"kmeans_mpi_faulty_{name}", module) for module in given.rank_faults for name in OF_RANKS]
for name, module in faulty:
    link(modules / f"{name}.so", module)
    description = subprocess.run([build / "clusterbench-runner", "--describe",
                                  modules / f"{name}.so"], check=True, capture_output=True)
    (modules / f"{name}.json").write_bytes(description.stdout)
    lines.append(f"{name} faulty {module}")
(modules / "list").write_text("\n".join(lines) + "\n")
