#!/usr/bin/env bash
# Draws docs/pictures and docs/pictures.md from the reference runs; a test compares them.
set -euo pipefail
cd "$(dirname "$0")/.."
/usr/bin/python3 -c 'import matplotlib' || { echo "python3-matplotlib is missing" >&2; exit 64; }
quality=$(ls results/reference/*/quality/quality.json | tail -n 1)
rm -f docs/pictures/*.svg
exec /usr/bin/python3 plots/make.py --from results/reference --quality "$quality" --out docs/pictures \
  --format svg --page docs/pictures.md
