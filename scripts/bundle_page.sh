#!/usr/bin/env bash
# Makes the template of the page that `clusterbench report` writes: libraries by npm, as page/package-lock.json
# names them, into one HTML file. Needs Debian's npm, or another Node.js of version 18 or later.
#   scripts/bundle_page.sh [--if-possible] [folder of the program]
# --if-possible: where npm or the network is missing it says so, and ends well.
set -euo pipefail

optional=
if [[ ${1-} == --if-possible ]]; then
  optional=yes
  shift
fi
program_folder=$(realpath -m "${1:-$(dirname "$0")/../build/release}")
cd "$(dirname "$0")/.."

cannot() {
  echo "The page of clusterbench report is not made: $1" >&2
  [[ $optional ]] && exit 0
  exit 64
}
command -v npm >/dev/null || cannot "npm is missing (apt-get install npm)"

build=$program_folder/page/build
mkdir -p "$build"
rm -rf "$build/src"
cp -r page/src page/package.json page/package-lock.json page/build.mjs "$build"
cd "$build"
# The libraries stay from one build to the next, as long as the lock file does.
if ! cmp --silent package-lock.json node_modules/made-from; then
  npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1 --fetch-timeout=30000 \
    >npm.log 2>&1 </dev/null || cannot "npm ci failed: $(grep -v '^npm ERR! A complete log' npm.log | tail -n 3)"
  cp package-lock.json node_modules/made-from
fi
npm run --silent build -- "$program_folder/page/template.html" </dev/null || cannot "its bundler failed"
