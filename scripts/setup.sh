#!/usr/bin/env bash
# Installs the Debian packages that building, testing and plotting need, where they are missing.
#   scripts/setup.sh [--page]     --page: also npm, for the page of `clusterbench report`
# Without root or sudo it prints the one command to run, and fails; for the optional packages it
# only says so.
set -euo pipefail

packages=(
  g++ cmake ninja-build git
  libbenchmark-dev libbenchmark-tools libboost-dev libcli11-dev libeigen3-dev libfmt-dev libgtest-dev
  libseccomp-dev libssl-dev nlohmann-json3-dev
  python3 python3-jsonschema python3-yaml python3-numpy python3-scipy python3-sklearn python3-faiss
  libopenblas0-pthread # the matrix product under NumPy, SciPy, scikit-learn and FAISS: the reference one is slow
)
optional=(
  python3-matplotlib # without it there are no pictures
  python3-h5py       # without it no HDF5 file is read
  dpkg-dev file      # without them cpack makes no .deb
  libopenmpi-dev openmpi-bin # without them no variant computes in several processes
)
# Without npm, whoever it is from, `clusterbench report` has no page. It brings some 200 packages, which tests
# do not need.
[[ ${1-} != --page ]] || command -v npm >/dev/null || optional+=(npm)

missing_of() {
  local package status
  for package in "$@"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || echo "$package"
  done
}
mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t missing_optional < <(missing_of "${optional[@]}")
[ $(( ${#missing[@]} + ${#missing_optional[@]} )) -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env)
elif sudo -n true 2>/dev/null; then
  as_root=(sudo)
else
  as_root=()
fi
install() {
  echo "Installing: $*"
  "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends -qq "$@" >/dev/null
}

if [ ${#missing[@]} -gt 0 ]; then
  if [ ${#as_root[@]} -eq 0 ]; then
    printf 'Packages are missing. As root, run:\n  apt-get update && apt-get install -y --no-install-recommends %s\n' \
      "${missing[*]} ${missing_optional[*]}" >&2
    exit 64
  fi
  install "${missing[@]}"
fi
if [ ${#missing_optional[@]} -gt 0 ]; then
  if [ ${#as_root[@]} -eq 0 ] || ! install "${missing_optional[@]}"; then
    echo "Not installed, and not necessary: ${missing_optional[*]}"
  fi
fi
