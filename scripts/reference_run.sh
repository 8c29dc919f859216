#!/usr/bin/env bash
# A reference run: every table at full size, and the scaling studies, each verified.
#
#   scripts/reference_run.sh OUT [options of `clusterbench run`, such as --variant '*cuda*']
#
# CLUSTERBENCH names the program (default build/release/clusterbench). OUT gets ledger.jsonl and
# gbench.json of the articles' tables, and OUT/scaling those of the scaling studies. Unless --variant
# or --threads is given, OUT/threads gets those of the thread scaling. Interrupted, it goes on where
# it stopped.
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
worst=0
"$program" run "${articles[@]}" --out "$out" --resume "$@" || worst=$?
"$program" run scaling --out "$out/scaling" --resume "$@" || worst=$(( worst ? worst : $? ))
case " $*" in
  *" --variant"* | *" --threads"*) ;;
  *) CLUSTERBENCH=$program scripts/thread_scaling.sh "$out/threads" "$@" || worst=$(( worst ? worst : $? )) ;;
esac
exit "$worst"
