#!/usr/bin/env bash
# Runs every CUDA variant on small awkward shapes under compute-sanitizer, with all four tools.
#
#   scripts/sanitize_gpu.sh [BUILD] [OUT]     default: build/release, sanitizer.txt
#   JOBS=8 SIZE=200000 TOOLS="memcheck racecheck" scripts/sanitize_gpu.sh ...
#
# SIZE bounds n * d * k. OUT gets a line for each variant and tool: how many errors were found, or that the
# variant takes no shape so small. What is in OUT already is not run again, so a run that was interrupted
# goes on. Ends with 2 if there is any error, with 5 if a run gave no summary.
set -uo pipefail
build=${1:-build/release} out=${2:-sanitizer.txt}
export CLUSTERBENCH_FOLDER=$build CLUSTERBENCH_GPU_SUBSET=${SIZE:-200000}
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[[ -x $sanitizer ]] || { echo "compute-sanitizer was not found (CUDA toolkit)" >&2; exit 64; }
for program in test_cuda_variants team_barriers; do
  [[ -x $build/tests/$program ]] || { echo "$build/tests/$program was not built" >&2; exit 64; }
done
logs=$(mktemp -d) && trap 'rm -rf "$logs"' EXIT
export sanitizer build out logs

one() { # variant, tool
  local log=$logs/$1.$2 found
  CLUSTERBENCH_GPU_VARIANT=$1 timeout "${LIMIT:-300}" "$sanitizer" --tool "$2" \
    "$build/tests/test_cuda_variants" > "$log" 2>&1
  found=$(grep -oE '(ERROR|RACECHECK) SUMMARY: [0-9]+' "$log" | grep -oE '[0-9]+' | tail -1)
  if [[ -z $found ]] && grep -q 'before first instrumented API call' "$log" && ! grep -q 'FAILED' "$log"; then
    found="no shape so small" # the device was never asked anything
  fi
  echo "$1 $2: ${found:-no summary}" >> "$out"
  [[ ${found:-x} == 0 ]] || grep -m5 -A3 '=========' "$log" | head -20 >&2
}
export -f one

hazards() { # what racecheck reports of tests/tools/team_barriers.cu, which has no race; equal or unequal
  "$sanitizer" --tool racecheck "$build/tests/team_barriers" "$1" 2>&1 |
    awk 'match($0, /\[[0-9]+ hazards/) { sum += substr($0, RSTART + 1) } /RACECHECK SUMMARY/ { ended = 1 }
         END { if (ended) print sum + 0; else print "no summary" }'
}
touch "$out"
grep -q '^control' "$out" ||
  echo "control, of a kernel without a race: hazards $(hazards equal); where teams meet unequally often $(hazards unequal)" \
    >> "$out"
for variant in $(cd "$build/modules" && ls | sed -nE 's/^((kmeans|fcm)_(cuda|cublas|thrust)[a-z0-9_]*)\.so$/\1/p'); do
  for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
    grep -q "^$variant $tool: " "$out" || printf '%s %s\n' "$variant" "$tool"
  done
done | xargs -P "${JOBS:-4}" -L 1 bash -c 'one "$@"' -
sort -o "$out" "$out"
cat "$out"
! grep -q 'no summary' "$out" || exit 5
! grep -qE ': [1-9]' "$out" || exit 2
