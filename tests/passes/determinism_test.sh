#!/usr/bin/env bash
# Usage: determinism_test.sh HALFEVEN TESTS_DATA
# The same input gives the same bytes in two processes whose fresh memory holds different rubbish, and nothing reads
# memory that nobody wrote.
set -euo pipefail
halfeven=$1
data=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for model in "$data"/cases/*/model.onnx "$data"/models/*/model.onnx; do
  [ -e "$(dirname "$model")/expected_error.txt" ] && continue
  MALLOC_PERTURB_=85 "$halfeven" fuse "$model" -o "$work/a.onnx" > /dev/null
  MALLOC_PERTURB_=170 "$halfeven" fuse "$model" -o "$work/b.onnx" > /dev/null
  cmp "$work/a.onnx" "$work/b.onnx" || { echo "different bytes for $model"; exit 1; }
done
echo "fused files are the same bytes under MALLOC_PERTURB_ 85 and 170"

if [ "${HALFEVEN_NO_VALGRIND:-}" = 1 ]; then
  echo "valgrind is left out: a sanitizer build does not run in it"
elif ! command -v valgrind > /dev/null; then
  echo "valgrind is not installed: reads of unwritten memory are not looked for"
else
  for seed in seed-pass-order seed-qdq-conv; do
    folder=$data/cases/$seed
    inputs=()
    for file in "$folder"/input_*.npy; do inputs+=(--input "$file"); done
    valgrind --quiet --error-exitcode=9 "$halfeven" fuse "$folder/model.onnx" -o "$work/v.onnx" > /dev/null
    valgrind --quiet --error-exitcode=9 "$halfeven" run "$work/v.onnx" "${inputs[@]}" --threads 1 > /dev/null
    valgrind --quiet --error-exitcode=9 "$halfeven" run "$folder/model.onnx" "${inputs[@]}" --threads 1 --backend cpu --isa sse2 > /dev/null
  done
  echo "valgrind: no read of unwritten memory"
fi
