#!/usr/bin/env bash
# Reproduces the articles' tables on this machine: installs what is missing, builds, runs every
# table, verifies every answer, writes the results, prints the tables and draws the pictures.
#
#   ./run_all.sh            full sizes, about ten minutes on two cores
#   ./run_all.sh --quick    small sizes, about two minutes
#
# Results go to results/runs/full or results/runs/quick, the pictures to the folder pictures in it.
# Interrupted, it goes on where it stopped. Further options are passed to `clusterbench run`, such as
# --threads 1 or --variant 'kmeans_*'; thread scaling is measured only without them.
set -euo pipefail
cd "$(dirname "$0")"

size=full
sizes=()
options=()
for option in "$@"; do
  if [ "$option" = --quick ]; then
    size=quick
    sizes=(--quick --budget 0.2)
  else
    options+=("$option")
  fi
done

scripts/setup.sh
cmake --preset release >build.log 2>&1 || { cat build.log; exit 5; }
cmake --build --preset release --target clusterbench >>build.log 2>&1 || { tail -50 build.log; exit 5; }

tables=()
for table in results/tables/article*.json; do
  tables+=("$(basename "$table" .json)")
done
out=results/runs/$size
worst=0
build/release/clusterbench run "${tables[@]}" --out "$out" --resume "${sizes[@]}" "${options[@]}" || worst=$?
case $worst in 64 | 74 | 130) exit "$worst" ;; esac

if [ ${#options[@]} -eq 0 ]; then
  code=0
  ROUNDS=1 scripts/thread_scaling.sh "$out/threads" "${sizes[@]}" || code=$?
  [ "$code" -ne 130 ] || exit 130
  worst=$(( worst ? worst : code ))
fi
code=0
/usr/bin/python3 plots/make.py --from "$out" --out "$out/pictures" || code=$?
worst=$(( worst ? worst : code ))
exit "$worst"
