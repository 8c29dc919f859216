#!/usr/bin/env bash
# A reference run: every table at full size, the scaling studies and the other studies, each verified.
#
#   scripts/reference_run.sh OUT [options of `clusterbench run`, such as --variant '*cuda*']
#
# CLUSTERBENCH names the program (default build/release/clusterbench). OUT gets ledger.jsonl and
# gbench.json of the articles' tables, OUT/scaling, OUT/bounds and so on those of the studies. Unless
# --variant or --threads is given, OUT/threads gets those of the thread scaling, OUT/cpu_shapes-T the
# shapes with T threads, and OUT/quality the time to quality. An interruption (130) ends it; started again,
# it goes on where it stopped. The exit code is the gravest of all parts (README.md, Exit codes).
set -euo pipefail
(( $# )) || { sed -n '2,10p' "$0" >&2; exit 64; }
out=$(realpath -m "$1")
shift
program=$(realpath "${CLUSTERBENCH:-$(dirname "$0")/../build/release/clusterbench}")
export CLUSTERBENCH=$program
cd "$(dirname "$0")/.."
. scripts/exit_codes.sh

articles=()
for table in results/tables/article*.json; do
  articles+=("$(basename "$table" .json)")
done
studies=(scaling bounds cpu_map large_k large_k_gpu gpu_shapes gpu_borders gpu_map gpu_fcm)

# Whether a table has a row that one of the --variant patterns among the options fits.
has_a_row() {
  local table=$1 patterns=() pattern name
  shift
  while (( $# )); do
    [[ $1 != --variant ]] || patterns+=("$2")
    shift
  done
  (( ${#patterns[@]} )) || return 0
  # shellcheck disable=SC2013
  for name in $(grep -o '"variant": "[^"]*"' "$table" | cut -d '"' -f 4); do
    for pattern in "${patterns[@]}"; do
      # shellcheck disable=SC2053
      [[ $name != $pattern ]] || return 0
    done
  done
  return 1
}

worst=0
attempt() {
  local code=0
  "$@" || code=$?
  worst=$(graver "$worst" "$code")
  (( code != 130 )) || exit "$worst"
}
run() { attempt "$program" run "$@" --resume; }
run "${articles[@]}" --out "$out" "$@"
for study in "${studies[@]}"; do
  # Without a device, or where --variant chooses none of a study's, there is nothing to run.
  table=results/tables/$study.json
  [[ $study != *gpu* ]] || nvidia-smi -L >/dev/null 2>&1 || continue
  has_a_row "$table" "$@" || continue
  run "$study" --out "$out/$study" "$@"
done
case " $*" in
  *" --variant"* | *" --threads"*) ;;
  *)
    for threads in 1 2; do # what the committed grids have
      run cpu_shapes --threads "$threads" --out "$out/cpu_shapes-$threads" "$@"
    done
    attempt "$program" quality --data article002 --take 50000 --k 8 --data article002 --take 50000 --k 16 \
      --data article004-100k --take 0 --k 5 --seeds 1..3 --budget 0.3 --out "$out/quality" --resume \
      --json "$out/quality/quality.json"
    attempt scripts/thread_scaling.sh "$out/threads" "$@"
    ;;
esac
exit "$worst"
