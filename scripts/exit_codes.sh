# shellcheck shell=bash
# For scripts that run several programs and have one exit code. Sourced, not run.

# graver CODE...  prints the first that applies of the order in README.md. A code that stands in no
# order, of a signal say, is one that no program chose: it goes before all others.
graver() {
  local order="64 74 130 2 5 4 1 3 6 0" code
  for code in "$@"; do
    [[ " $order " == *" $code "* ]] || { echo "$code"; return; }
  done
  for code in $order; do
    [[ " $* " != *" $code "* ]] || { echo "$code"; return; }
  done
}
