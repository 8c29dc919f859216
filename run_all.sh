#!/usr/bin/env bash
# Reproduces the articles' tables on this machine: installs what is missing, builds, runs every
# table, verifies every answer, writes the results and prints the tables.
#
#   ./run_all.sh            full sizes, about ten minutes on two cores
#   ./run_all.sh --quick    small sizes, about two minutes
#
# Results go to results/runs/full or results/runs/quick. Interrupted, it goes on where it stopped.
# Further options are passed to `clusterbench run`, such as --threads 1 or --variant 'kmeans_*'.
set -euo pipefail
cd "$(dirname "$0")"

size=full
options=()
for option in "$@"; do
  if [ "$option" = --quick ]; then
    size=quick
    options+=(--quick --budget 0.5)
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
exec build/release/clusterbench run "${tables[@]}" --out "results/runs/$size" --resume "${options[@]}"
