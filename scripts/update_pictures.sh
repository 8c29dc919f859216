#!/usr/bin/env bash
# Draws docs/pictures and docs/pictures.md from the reference runs; a test compares them.
set -euo pipefail
cd "$(dirname "$0")/.."
/usr/bin/python3 -c 'import matplotlib' || { echo "python3-matplotlib is missing" >&2; exit 64; }
quality=$(ls results/reference/*/quality/quality.json | tail -n 1)
measurements=$(mktemp)
model=$(mktemp)
trap 'rm -f "$measurements" "$model"' EXIT
"${CLUSTERBENCH:-build/release/clusterbench}" ledger results/reference --json >"$measurements"
python3 scripts/scaling_model.py results/exchange.json --json results/reference >"$model"
rm -f docs/pictures/*.svg
/usr/bin/python3 plots/make.py --from "$measurements" --quality "$quality" --model "$model" \
  --out docs/pictures --format svg --page docs/pictures.md
