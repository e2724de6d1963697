#!/usr/bin/env bash
# Installs Debian 12's or Ubuntu 24.04's packages that halfeven needs. Asks nothing, does nothing when all are there.
#
#   cmake/install-deps.sh build   what building and running needs (default)
#   cmake/install-deps.sh test    also what the tests need
#   cmake/install-deps.sh ci      also the checkers and emulators of continuous integration
set -euo pipefail

mode=${1:-build}

build=(
  cmake g++ ninja-build
  protobuf-compiler libprotobuf-dev   # reading ONNX files
  libmpfr-dev libgmp-dev              # exact numbers
  libssl-dev                          # SHA-256
  libfmt-dev                          # messages
  libcli11-dev nlohmann-json3-dev     # the command
  libdnnl-dev                         # convolutions on processors with AMX
  libpng-dev libjpeg-dev zlib1g-dev   # its pictures and .npz files
)
test=(
  libgtest-dev librapidcheck-dev libbenchmark-dev libboost-dev
  python3 python3-venv
  libonnx-testdata                    # the ONNX project's node tests
)
ci=(
  ccache
  clang-format-16 clang-tidy-16
  qemu-user                           # CPUs of other generations
  libonnx-dev                         # an application that links it as well
)

case $mode in
  build) packages=("${build[@]}") ;;
  test) packages=("${build[@]}" "${test[@]}") ;;
  ci) packages=("${build[@]}" "${test[@]}" "${ci[@]}") ;;
  *)
    echo "install-deps.sh: '$mode' is none of build, test, ci" >&2
    exit 2
    ;;
esac

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  echo "install-deps.sh: no apt here. halfeven is built on Debian 12 and Ubuntu 24.04; elsewhere, install what" >&2
  echo "stands for: ${packages[*]}" >&2
  exit 1
fi

installed=$(dpkg-query -W -f '${Package} ${Status}\n' | sed -n 's/ install ok installed$//p')
missing=()
for package in "${packages[@]}"; do
  grep -qx "$package" <<< "$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

system=$(. /etc/os-release && echo "$ID $VERSION_ID")
case $system in
  "debian 12" | "ubuntu 24.04") ;;
  *) echo "install-deps.sh: tested on Debian 12 and Ubuntu 24.04, this is $system: trying" >&2 ;;
esac

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "install-deps.sh: neither root nor sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi

echo "installing ${missing[*]}"
quiet() {  # shows what a command printed only if it fails
  local log
  log=$(mktemp)
  "$@" > "$log" 2>&1 < /dev/null || { cat "$log" >&2; rm -f "$log"; return 1; }
  rm -f "$log"
}
quiet "${as_root[@]}" apt-get -q update || echo "install-deps.sh: apt-get update failed, going on with the old lists" >&2
quiet "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}" ||
  { echo "install-deps.sh: apt-get could not install: ${missing[*]}" >&2; exit 1; }
