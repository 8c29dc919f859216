#!/usr/bin/env bash
# A reference run: every table at full size, the scaling studies and the other studies, each verified.
#
#   scripts/reference_run.sh OUT [options of `clusterbench run`, such as --variant '*cuda*']
#
# CLUSTERBENCH names the program (default build/release/clusterbench). OUT gets ledger.jsonl and
# gbench.json of the articles' tables, OUT/scaling, OUT/bounds and so on those of the studies. Unless
# --variant or --threads is given, OUT/threads gets those of the thread scaling and OUT/cpu_shapes-T the
# shapes with T threads. Interrupted, it goes on where it stopped.
set -euo pipefail
(( $# )) || { sed -n '2,9p' "$0" >&2; exit 64; }
out=$(realpath -m "$1")
shift
program=$(realpath "${CLUSTERBENCH:-$(dirname "$0")/../build/release/clusterbench}")
cd "$(dirname "$0")/.."

articles=()
for table in results/tables/article*.json; do
  articles+=("$(basename "$table" .json)")
done
studies=(scaling bounds large_k)
if nvidia-smi -L >/dev/null 2>&1; then
  studies+=(large_k_gpu gpu_shapes)
fi

worst=0
run() { "$program" run "$@" --resume || worst=$(( worst ? worst : $? )); }
run "${articles[@]}" --out "$out" "$@"
for study in "${studies[@]}"; do
  run "$study" --out "$out/$study" "$@"
done
case " $*" in
  *" --variant"* | *" --threads"*) ;;
  *)
    for threads in 1 2; do
      run cpu_shapes --threads "$threads" --out "$out/cpu_shapes-$threads" "$@"
    done
    CLUSTERBENCH=$program scripts/thread_scaling.sh "$out/threads" "$@" || worst=$(( worst ? worst : $? ))
    ;;
esac
exit "$worst"
