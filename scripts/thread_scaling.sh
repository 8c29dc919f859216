#!/usr/bin/env bash
# Strong scaling: the table `threads` with 1, 2, 4, ... threads up to all cores that may be used, verified.
#
#   scripts/thread_scaling.sh OUT [options of `clusterbench run`, such as --quick]
#
# CLUSTERBENCH names the program (default build/release/clusterbench), ROUNDS the rounds (default 3).
# OUT/threads-T gets the ledger of T threads. Every round takes every number of threads in turn, so
# that the drift of the machine is shared. Interrupted, it goes on where it stopped. The exit code is the
# gravest of all runs (README.md, Exit codes).
set -euo pipefail
(( $# )) || { sed -n '2,9p' "$0" >&2; exit 64; }
out=$(realpath -m "$1")
shift
program=$(realpath "${CLUSTERBENCH:-$(dirname "$0")/../build/release/clusterbench}")
cd "$(dirname "$0")/.."
. scripts/exit_codes.sh

most=$(nproc)
# Of a container, no more than its quota of processor time keeps running.
if [[ -r /sys/fs/cgroup/cpu.max ]] && read -r quota period </sys/fs/cgroup/cpu.max && [[ $quota != max ]]; then
  allowed=$(( quota / period ))
  (( allowed >= most )) || most=$(( allowed > 0 ? allowed : 1 ))
fi
counts=()
for (( threads = 1; threads < most; threads *= 2 )); do
  counts+=("$threads")
done
counts+=("$most")

worst=0
for (( round = 1; round <= ${ROUNDS:-3}; ++round )); do
  for threads in "${counts[@]}"; do
    code=0
    "$program" run threads --threads "$threads" --rounds "$round" --resume \
      --out "$out/threads-$threads" "$@" || code=$?
    worst=$(graver "$worst" "$code")
    (( code != 130 )) || exit "$worst"
  done
done
exit "$worst"
