#!/usr/bin/env bash
# Installs the Debian packages that building, testing and plotting need, where they are missing.
# Without root or sudo it prints the one command to run, and fails.
set -euo pipefail

packages=(
  g++ cmake ninja-build git
  libbenchmark-dev libbenchmark-tools libcli11-dev libeigen3-dev libfmt-dev libgtest-dev libssl-dev nlohmann-json3-dev
  python3 python3-jsonschema python3-numpy python3-scipy python3-sklearn python3-faiss
  libopenblas0-pthread # the matrix product under NumPy, SciPy, scikit-learn and FAISS: the reference one is slow
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

install="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -eq 0 ]; then
  as_root=(env)
elif sudo -n true 2>/dev/null; then
  as_root=(sudo)
else
  printf 'Packages are missing. As root, run:\n  apt-get update && %s\n' "$install" >&2
  exit 64
fi
echo "Installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
# shellcheck disable=SC2086
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null
