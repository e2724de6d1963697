#!/usr/bin/env bash
# Installs what is missing, builds the command, and asks a small quantized network whether two pictures of a line of text
# are upside down.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake/install-deps.sh build
echo "building build/release/halfeven"
cmake --preset release -DHALFEVEN_BUILD_TESTS=OFF -DHALFEVEN_BUILD_BENCH=OFF > /dev/null
cmake --build --preset release --target halfeven-cli -- --quiet

for picture in text text_upside_down; do
  echo
  echo "examples/ppocr_cls/$picture.png: the probabilities of upright and upside down"
  build/release/halfeven run examples/ppocr_cls/model.onnx --image "examples/ppocr_cls/$picture.png" \
    --channels bgr --mean 0.5 --std 0.5 --resize pad --size 48x192 --output-dir build/example --check
  # The two probabilities are the last eight bytes of the file.
  od -A n -t f4 -j $(($(stat -c %s build/example/output_0.npy) - 8)) build/example/output_0.npy
done
