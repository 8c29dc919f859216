#!/usr/bin/env bash
# Strong scaling: the table `threads` with 1, 2, 4, ... threads up to all cores, verified.
#
#   scripts/thread_scaling.sh OUT [options of `clusterbench run`, such as --quick]
#
# CLUSTERBENCH names the program (default build/release/clusterbench), ROUNDS the rounds (default 3).
# OUT/threads-T gets the ledger of T threads. Every round takes every number of threads in turn, so
# that the drift of the machine is shared. Interrupted, it goes on where it stopped.
set -euo pipefail
(( $# )) || { sed -n '2,8p' "$0" >&2; exit 64; }
out=$(realpath -m "$1")
shift
program=$(realpath "${CLUSTERBENCH:-$(dirname "$0")/../build/release/clusterbench}")
cd "$(dirname "$0")/.."

counts=()
for (( threads = 1; threads < $(nproc); threads *= 2 )); do
  counts+=("$threads")
done
counts+=("$(nproc)")

worst=0
for (( round = 1; round <= ${ROUNDS:-3}; ++round )); do
  for threads in "${counts[@]}"; do
    "$program" run threads --threads "$threads" --rounds "$round" --resume \
      --out "$out/threads-$threads" "$@" || worst=$?
    (( worst != 130 )) || exit 130
  done
done
exit "$worst"
