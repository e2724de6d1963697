#!/usr/bin/env bash
# Installs what is missing, builds everything, runs the tests. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/install-deps.sh test
cmake --preset release -DHALFEVEN_BUILD_TESTS=ON -DHALFEVEN_BUILD_BENCH=ON -DHALFEVEN_WARNINGS_AS_ERRORS=ON > /dev/null
cmake --build --preset release
ctest --preset release -j "$(nproc)" "$@"
