#!/usr/bin/env bash
# Puts the reference runs' tables into docs/results.md, in short, into docs/tables.md, in full, the scaling
# studies into docs/scaling.md, the others and what was counted on a GPU into docs/studies.md; the fastest
# variants and the verdicts on the articles into README.md, and the verdicts' steps into docs/verdicts.md; and
# what a model of several GPUs predicts into docs/scaling_model.md; the tables of ranks and of points that
# stay in their file into the pages about them.
# Called without arguments it also draws the pictures again.
#   scripts/update_readme.sh [path of clusterbench] [folder with README.md and docs]
set -euo pipefail
pages=$(realpath "${2:-$(dirname "$0")/..}")
cd "$(dirname "$0")/.."
program=${1:-build/release/clusterbench}

from=()
for ledger in results/reference/*/ledger*.jsonl; do
  from+=(--from "$ledger")
done
reports=$(mktemp)
trap 'rm -f "$reports"' EXIT
for table in results/tables/article*.json; do
  name=$(basename "$table" .json)
  "$program" table "$name" "${from[@]}" --compact --splice "$pages/docs/results.md"
  "$program" table "$name" "${from[@]}" --splice "$pages/docs/tables.md"
  "$program" table "$name" "${from[@]}" --json >>"$reports"
done
python3 scripts/headline.py "$pages/README.md" "$reports"
python3 scripts/verdicts.py results/claims.json "$reports" "$pages/docs/verdicts.md" "$pages/README.md"

by_day() { # a table shows the first machine that is right, of one machine or its like the newest row
  local ledger
  for ledger; do
    if [[ $ledger =~ (20[0-9]{2}-[0-9]{2}-[0-9]{2})/ ]]; then echo "${BASH_REMATCH[1]} $ledger"; fi
  done | sort -V | cut -d ' ' -f 2
}
splice_study() { # table, pattern of its ledgers, page, options; what no reference run has is left as it is
  local from=() ledger
  for ledger in $2; do
    [[ ! -e $ledger ]] || from+=(--from "$ledger")
  done
  (( ${#from[@]} )) || return 0
  "$program" table "$1" "${from[@]}" "${@:4}" --splice "$pages/docs/$3"
}
splice_study several_gpus 'results/reference/*/several_gpus/ledger*.jsonl' several_gpus.md
splice_study scaling 'results/reference/*/scaling/ledger.jsonl' scaling.md
for study in bounds large_k; do
  splice_study "$study" "results/reference/*/$study/ledger.jsonl" studies.md
done
splice_study large_k_gpu "$(by_day results/reference/*/large_k_gpu/ledger*.jsonl | tac)" \
  studies.md --compact
for study in gpu_shapes gpu_borders; do
  splice_study "$study" "results/reference/*/$study/ledger.jsonl" studies.md --compact
done
for ledger in results/reference/*/gpu_shapes/ledger.jsonl; do
  [[ ! -e $ledger ]] || scripts/any_shape.py "$ledger" "$pages/docs/ladder/any_shape.md"
done
scripts/count_gpu.py table results/reference/nvidia-h200-2026-11-21/counters.json "$pages/docs/studies.md"
python3 scripts/scaling_model.py results/exchange.json "$pages/docs/scaling_model.md" \
  results/reference
splice_study out_of_core_gpu 'results/reference/*/out_of_core_gpu/ledger.jsonl' out_of_core_gpu.md
splice_study out_of_core 'results/reference/*/out_of_core/ledger*.jsonl' out_of_core.md
splice_study ranks 'results/reference/*/ranks/ledger*.jsonl' ranks.md
splice_study cpu_shapes 'results/reference/*/cpu_shapes-2/ledger.jsonl' studies.md --compact
splice_study cpu_map 'results/reference/*/cpu_map/ledger.jsonl' ladder/cpu_map.md --compact
for ledger in results/reference/*/cpu_map/ledger.jsonl; do
  [[ ! -e $ledger ]] || "$program" table cpu_map --from "$ledger" --json | scripts/cpu_map.py "$pages/docs/ladder/cpu_map.md"
done
maps=$(by_day results/reference/*/gpu_map/ledger*.jsonl)
splice_study gpu_map "$maps" ladder/gpu_map.md --compact
from=()
for ledger in $maps; do
  from+=(--from "$ledger")
done
"$program" table gpu_map "${from[@]}" --json |
  scripts/gpu_map.py "$pages/docs/ladder/gpu_map.md" results/reference/nvidia-2xh200-2026-11-28/probe.json
splice_study gpu_fcm 'results/reference/*/gpu_fcm/ledger*.jsonl' ladder/fuzzy.md --compact

(( $# )) || scripts/update_pictures.sh
