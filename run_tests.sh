#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
#
#   ./run_tests.sh                    all tests; those that need a GPU skip themselves without one
#   ./run_tests.sh -L unit            options are passed to ctest: only the label unit, say
#   PRESET=asan ./run_tests.sh        another preset of CMakePresets.json: debug, asan, tsan
set -euo pipefail
cd "$(dirname "$0")"
preset=${PRESET:-release}

scripts/setup.sh
cmake --preset "$preset"
cmake --build --preset "$preset"
exec ctest --test-dir "build/$preset" --output-on-failure --parallel 2 "$@"
