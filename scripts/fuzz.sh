#!/bin/sh
# Runs every fuzz target for COUNT executions in all that it has, under ASan and UBSan, and says what
# was run. Inputs that were found go to build/fuzz/corpus, inputs that crash to build/fuzz/crashes.
#
#     scripts/fuzz.sh COUNT [TARGET...]      a target: csv, npy, ...; none: all of tests/fuzz/corpus
#
# With clang the targets are libFuzzer programs, otherwise g++ builds them with the driver that mutates
# the corpus. JOBS targets run at a time (default 1). With RECORD=FILE the executions are added to FILE,
# a line for each target (target,seed,executions,crashed,commit), and the seed is the one after the last
# of that target there, else 1. Exit codes: 1 a target crashed, 64 usage.
set -u

if ! expr "${1:-}" : '[1-9][0-9]*$' >/dev/null; then
  echo "usage: $0 COUNT [TARGET...]" >&2
  exit 64
fi
count=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
build=${CLUSTERBENCH_FUZZ_BUILD:-$root/build/fuzz}
corpora=$root/tests/fuzz/corpus
[ $# -gt 0 ] || set -- $(ls "$corpora")
for target in "$@"; do
  if [ ! -d "$corpora/$target" ]; then
    echo "$0: no target $target; there are: $(ls "$corpora" | tr '\n' ' ')" >&2
    exit 64
  fi
done

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCLUSTERBENCH_CUDA=OFF \
  -DCLUSTERBENCH_TESTS=ON -DCLUSTERBENCH_SANITIZE=address,undefined >"$build.log" 2>&1 </dev/null &&
  cmake --build "$build" --target $(printf 'fuzz_%s ' "$@") >>"$build.log" 2>&1 </dev/null || {
  echo "$0: the targets cannot be built: $build.log" >&2
  exit 1
}

# One target; prints one line.
run() {
  target=$1
  program=$build/tests/fuzz_$target
  crashes=$build/crashes/$target
  grown=$build/corpus/$target
  mkdir -p "$crashes" "$grown"
  begin=$(date +%s)
  last=$(sed -n "s/^$target,\([0-9]*\),.*/\1/p" "${RECORD:-/dev/null}" 2>/dev/null | sort -n | tail -1)
  seed=$((${last:-0} + 1))
  if grep -q 'Fuzzing with libFuzzer: ON' "$build.log"; then
    kind=libFuzzer
    [ "$target" = ledger ] && longest=2048 || longest=512
    # The limit for one input is time on the clock, and has to hold on a machine with other work.
    "$program" -runs="$count" -seed=$seed -max_len=$longest -timeout=600 -print_final_stats=1 \
      -artifact_prefix="$crashes/" "$grown" "$corpora/$target" >"$crashes.log" 2>&1 </dev/null
    code=$?
    # Who ends it early, by SIGINT say, has run less, and has found nothing.
    [ $code -ne 0 ] && grep -q 'libFuzzer: run interrupted' "$crashes.log" && code=0
    ran=$(sed -n 's/^stat::number_of_executed_units: *//p' "$crashes.log")
  else
    kind=driver
    "$program" "$corpora/$target" "$count" >"$crashes.log" 2>&1 </dev/null
    code=$?
    ran=$(sed -n 's/.* and \([0-9]*\) mutations$/\1/p' "$crashes.log")
  fi
  seconds=$(($(date +%s) - begin))
  if [ $code -eq 0 ]; then
    echo "fuzz_$target: ${ran:-?} executions, no crash ($kind, ASan and UBSan, $seconds s)"
  else
    echo "fuzz_$target: CRASHED after ${ran:-?} executions: $crashes.log"
    touch "$build/crashed"
  fi
  if [ -n "${RECORD:-}" ]; then
    [ -s "$RECORD" ] || echo "target,seed,executions,crashed,commit" >>"$RECORD"
    echo "$target,$seed,${ran:-0},$((code != 0)),$commit" >>"$RECORD"
  fi
}

commit=$(git -C "$root" rev-parse --short=10 HEAD 2>/dev/null || echo unknown)
rm -f "$build/crashed"
mkdir -p "$build/crashes"
running=0
for target in "$@"; do
  run "$target" &
  running=$((running + 1))
  if [ $running -ge "${JOBS:-1}" ]; then
    wait
    running=0
  fi
done
wait
[ ! -e "$build/crashed" ]
