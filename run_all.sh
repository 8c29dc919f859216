#!/usr/bin/env bash
# Reproduces the articles' tables on this machine: installs what is missing, builds, runs every
# table, verifies every answer, writes the results, prints the tables, draws the pictures and writes a
# report to play with.
#
#   ./run_all.sh            full sizes, about half an hour on two cores
#   ./run_all.sh --quick    small sizes, less sampling
#
# Results go to results/runs/full or results/runs/quick, or where --out says, the pictures to the folder
# pictures in it, the report to report.html. Interrupted, it goes on where it stopped; what crashed or timed out is run again.
# Further options are passed to `clusterbench run`, such as --threads 1 or --variant 'kmeans_*'; thread
# scaling is measured only without them. The exit code is the gravest of all parts (README.md, Exit codes).
set -euo pipefail

size=full
sizes=()
options=()
out=
sampling=
rounds=()
while (( $# )); do
  case $1 in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --quick) size=quick sizes=(--quick) ;;
    --out | --out=*)
      if [[ $1 == --out ]]; then shift; fi
      out=${1-}
      out=${out#--out=}
      [[ $out ]] || { echo "--out: the name of a folder is missing" >&2; exit 64; }
      out=$(realpath -m "$out")
      ;;
    *)
      [[ $1 != --budget && $1 != --budget=* && $1 != --rounds && $1 != --rounds=* ]] || sampling=given
      options+=("$1")
      ;;
  esac
  shift
done

cd "$(dirname "$0")"
. scripts/exit_codes.sh
out=${out:-results/runs/$size}
if [[ $size == quick && ! $sampling ]]; then
  sizes+=(--budget 0.2)
  rounds=(--rounds 1) # the scaling over threads counts its own
fi

scripts/setup.sh --page
cmake --preset release >build.log 2>&1 || { cat build.log; exit 5; }
cmake --build --preset release --target clusterbench >>build.log 2>&1 || { tail -50 build.log; exit 5; }

tables=()
for table in results/tables/article*.json; do
  tables+=("$(basename "$table" .json)")
done
worst=0
build/release/clusterbench run "${tables[@]}" --out "$out" --resume "${sizes[@]}" "${rounds[@]}" "${options[@]}" || worst=$?
case $worst in 64 | 74 | 130) exit "$worst" ;; esac

if [ ${#options[@]} -eq 0 ]; then
  code=0
  ROUNDS=1 scripts/thread_scaling.sh "$out/threads" "${sizes[@]}" || code=$?
  worst=$(graver "$worst" "$code")
  [ "$code" -ne 130 ] || exit "$worst"
fi
code=0
mkdir -p "$out"
build/release/clusterbench ledger "$out" --json >"$out/measurements.json" || code=$?
worst=$(graver "$worst" "$code")
code=0
/usr/bin/python3 plots/make.py --from "$out/measurements.json" --out "$out/pictures" || code=$?
worst=$(graver "$worst" "$code")
code=0
if [ -e build/release/page/template.html ]; then
  build/release/clusterbench report "$out" --out "$out/report.html" || code=$?
else
  echo "No report.html: its page was not built (scripts/bundle_page.sh build/release makes it)"
fi
exit "$(graver "$worst" "$code")"
