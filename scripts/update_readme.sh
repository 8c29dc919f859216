#!/usr/bin/env bash
# Puts the reference runs' tables and the smallest variant's source into README.md, and the scaling
# studies into docs/scaling.md; called without arguments it also draws the pictures again.
#   scripts/update_readme.sh [README.md] [path of clusterbench] [docs/scaling.md]
set -euo pipefail
readme=$(realpath "${1:-$(dirname "$0")/../README.md}")
cd "$(dirname "$0")/.."
program=${2:-build/release/clusterbench}
scaling=${3:-docs/scaling.md}

from=()
for ledger in results/reference/*/ledger*.jsonl; do
  from+=(--from "$ledger")
done
for table in results/tables/article*.json; do
  "$program" table "$(basename "$table" .json)" "${from[@]}" --splice "$readme"
done

from=()
for ledger in results/reference/*/scaling/ledger.jsonl; do
  from+=(--from "$ledger")
done
"$program" table scaling "${from[@]}" --splice "$scaling"

python3 - "$readme" impls/serial/kmeans_serial.cpp <<'PYTHON'
import sys
readme, source = sys.argv[1:]
text = open(readme).read()
begin, end = "<!-- smallest variant begin -->\n", "<!-- smallest variant end -->"
head, rest = text.split(begin)
_, tail = rest.split(end)
code = open(source).read()
open(readme, "w").write(f"{head}{begin}```cpp\n{code}```\n{end}{tail}")
PYTHON

(( $# )) || scripts/update_pictures.sh
